"""Bad input: the error says what was given and what was wanted."""

from typing import Any

import pytest
import torch

from pushpop import MemoryState, NeuralDeque, NeuralQueue, NeuralStack

T, B, D = 5, 2, 3


def inputs(**changed: Any) -> dict[str, Any]:
    good = {"values": torch.rand(T, B, D), "push": torch.rand(T, B), "pop": torch.rand(T, B)}
    return {**good, **changed}


def state(batch: int = B, width: int = D, dtype: torch.dtype = torch.float32) -> MemoryState:
    return MemoryState(torch.rand(batch, 2, width, dtype=dtype), torch.rand(batch, 2, dtype=dtype))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"values": torch.rand(T, B, 4)}, r"values must be \[T, B, 3\]; got \[5, 2, 4\]"),
        ({"values": torch.rand(B, D)}, r"values must be \[T, B, 3\]; got \[2, 3\]"),
        ({"values": torch.rand(T, B, 2, D)}, r"values must be \[T, B, 3\]; got \[5, 2, 2, 3\]"),
        ({"push": torch.rand(T, B, 1)}, r"push must be \[T, B\] = \[5, 2\] .*; got \[5, 2, 1\]"),
        ({"pop": torch.rand(T + 1, B)}, r"pop must be \[T, B\] = \[5, 2\] .*; got \[6, 2\]"),
        ({"pop": torch.rand(B, T)}, r"pop must be .*; got \[2, 5\]"),
        ({"push": torch.rand(T, B).double()}, r"push must have the dtype .*float32; got .*float64"),
        ({"pop": torch.zeros(T, B, dtype=torch.long)}, r"pop must have the dtype .*; got .*int64"),
        ({"push": torch.rand(T, B, device="meta")}, r"push must be on the device .*cpu; got meta"),
        ({"push": 0.5}, r"push must be a tensor; got float"),
        ({"values": torch.ones(T, B, D, dtype=torch.long)}, r"must be floating point; got .*int64"),
        ({"state": state(batch=3)}, r"state has 3 rows, the input has a batch of 2"),
        ({"state": state(width=7)}, r"cells 7 wide, this memory is 3 wide"),
        ({"state": state(dtype=torch.float64)}, r"state must have the dtype .*; got .*float64"),
        ({"state": torch.rand(3)}, r"state must be a MemoryState or None; got Tensor"),
    ],
)
def test_shapes_dtypes_and_devices_are_always_checked(
    changed: dict[str, Any], message: str
) -> None:
    for memory in (NeuralStack(D), NeuralQueue(D, backend="reference")):
        with pytest.raises((TypeError, ValueError), match=message):
            memory(**inputs(**changed))


def test_a_deque_wants_an_axis_for_its_ends() -> None:
    with pytest.raises(ValueError, match=r"values must be \[T, B, 2, 3\]; got \[5, 2, 3\]"):
        NeuralDeque(D)(**inputs())
    with pytest.raises(ValueError, match=r"values must be \[B, 2, 3\]; got \[2, 3, 3\]"):
        NeuralDeque(D).step(torch.rand(B, 3, D), torch.rand(B, 3), torch.rand(B, 3))


def test_a_step_has_no_time_axis() -> None:
    with pytest.raises(ValueError, match=r"values must be \[B, 3\]; got \[5, 2, 3\]"):
        NeuralStack(D).step(*inputs().values())


@pytest.mark.parametrize(
    ("name", "bad"), [("push", -0.1), ("push", 1.5), ("pop", torch.nan), ("pop", 2.0)]
)
def test_gates_outside_0_and_1_are_named_with_their_place(name: str, bad: float) -> None:
    given = inputs()
    given[name][3, 1] = bad
    with pytest.raises(ValueError, match=rf"{name} must lie in \[0, 1\]; got .* at \[3, 1\]"):
        NeuralStack(D, validate=True)(**given)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_values_must_be_finite(bad: float) -> None:
    given = inputs()
    given["values"][1, 0, 2] = bad
    with pytest.raises(ValueError, match=r"values must be finite; got (nan|inf) at \[1, 0, 2\]"):
        NeuralStack(D, validate=True)(**given)


def test_values_are_checked_by_default_only_when_gradients_are_off() -> None:
    given = inputs(push=torch.full((T, B), 1.5))
    NeuralStack(D)(**given)
    with torch.no_grad(), pytest.raises(ValueError, match="push must lie"):
        NeuralStack(D)(**given)
    with torch.no_grad():
        NeuralStack(D, validate=False)(**given)


def test_values_are_never_checked_while_compiling() -> None:
    memory = NeuralStack(D, validate=True)
    torch.compile(memory, fullgraph=True, backend="aot_eager")(
        **inputs(push=torch.full((T, B), 2.0))
    )


def test_constructors_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="width must be at least 1; got 0"):
        NeuralStack(0)
    with pytest.raises(ValueError, match="auto, fused, triton, parallel, reference; got 'cuda'"):
        NeuralStack(3, backend="cuda")
    with pytest.raises(ValueError, match=r"got \[2, 3\] and \[2\]"):
        MemoryState(torch.rand(2, 3), torch.rand(2))
    with pytest.raises(ValueError, match=r"share dtype and device; got torch.float32 .*float64"):
        MemoryState(torch.rand(2, 3, 4), torch.rand(2, 3).double())
    with pytest.raises(ValueError, match=r"share dtype and device; got torch.bfloat16 .*float16"):
        MemoryState(torch.rand(2, 3, 4).bfloat16(), torch.rand(2, 3).half())


@pytest.mark.parametrize("memory", [NeuralStack, NeuralQueue, NeuralDeque])
@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (3, 0), (0, 0)])
@pytest.mark.parametrize("width", [1, 3])
def test_the_smallest_sizes_work(
    memory: Any, backend: str, shape: tuple[int, int], width: int
) -> None:
    small = memory(width, backend)
    ends = (2,) if memory is NeuralDeque else ()
    gates = torch.rand(*shape, *ends)
    reads, after = small(torch.rand(*shape, *ends, width), gates, gates)
    assert reads.shape == (*shape, *ends, width)
    assert after.values.shape[::2] == (shape[1], width)
    gate = torch.rand(shape[1], *ends)
    read, _ = small.step(torch.rand(shape[1], *ends, width), gate, gate, after)
    assert read.shape == (shape[1], *ends, width)


def test_a_state_made_by_hand_is_checked_too() -> None:
    bad = MemoryState(torch.rand(B, 1, D), torch.tensor([[0.5], [-3.0]]))
    with pytest.raises(ValueError, match=r"strengths of the state must lie in \[0, 1\]; got -3"):
        NeuralStack(D, validate=True)(**inputs(state=bad))
    with pytest.raises(ValueError, match="values of the state must be finite; got nan"):
        NeuralStack(D, validate=True)(
            **inputs(state=MemoryState(torch.full((B, 1, D), torch.nan), torch.rand(B, 1)))
        )
