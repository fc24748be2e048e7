"""What else torch can ask of a layer: right on every path, or an error that names the remedy.

Forward mode, `torch.func`, second derivatives, hooks, replaced parts, no storage, ONNX: for all
layers, memories and backends.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from pushpop import DeepLSTM, MemoryAttention, MemoryRNN, NeuralStack
from pushpop.layers.cells import CELLS, Cell
from pushpop.memory import MEMORIES

IN, T, B = 4, 3, 2
Layer = Any


def cases() -> Iterator[tuple[str, Callable[[], Layer], str]]:
    for name, memory in MEMORIES.items():
        here = memory(2).backends(torch.device("cpu"), torch.float32)
        for backend in dict.fromkeys(("auto", "fused", *here)):
            yield f"rnn-{name}-{backend}", lambda m=name, b=backend: rnn(m, b), backend
        for backend in ("auto", *here):
            yield f"attention-{name}-{backend}", lambda m=name, b=backend: heads(m, b), backend
    for cell in ("gru", "rnn"):
        for backend in ("auto", "reference"):
            yield f"rnn-{cell}-{backend}", lambda c=cell, b=backend: rnn("stack", b, c), backend
    for backend in ("auto", "fused", "reference"):
        yield f"lstm-{backend}", lambda b=backend: DeepLSTM(IN, 3, 2, backend=b), backend
        yield (
            f"lstm-ragged-{backend}",
            lambda b=backend: Uneven(DeepLSTM(IN, 3, backend=b)),
            backend,
        )
        yield f"rnn-ragged-{backend}", lambda b=backend: Uneven(deep(b)), backend


class Uneven(nn.Module):
    """A layer over rows of two lengths, from a state that is not the first."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, object]:
        _, state = self.layer(x[:1])
        output, after = self.layer(x, state, lengths=[T, 1])
        return output, after


def lstm(backend: str) -> DeepLSTM:
    return DeepLSTM(IN, 3, 2, backend=backend)


def deep(backend: str) -> MemoryRNN:
    return MemoryRNN(IN, 3, "deque", 2, num_layers=2, bidirectional=True, num_memories=2,
                     backend=backend)  # fmt: skip


def rnn(memory: str, backend: str, cell: str = "lstm") -> MemoryRNN:
    return MemoryRNN(IN, 3, memory, 2, cell, backend=backend)


def heads(memory: str, backend: str) -> MemoryAttention:
    return MemoryAttention(IN, memory, num_heads=2, backend=backend)


LAYERS = pytest.mark.parametrize(
    ("make", "backend"), [pytest.param(make, b, id=name) for name, make, b in cases()]
)


def made(make: Callable[[], Layer]) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor]:
    """The outputs as a function of the input in float64, an input, and a direction."""
    torch.manual_seed(1)
    layer = make().double()
    x, along = (torch.randn(T, B, IN, dtype=torch.float64) for _ in range(2))
    return lambda x: layer(x)[0], x, along


def uses_kernels(make: Callable[[], Layer], backend: str) -> bool:
    layer = make()
    layer = getattr(layer, "layer", layer)
    memory = getattr(layer, "memory", None)
    has_kernels = (
        memory is None
        or memory.all_backends()[0] == "fused"
        or (isinstance(layer, MemoryRNN) and memory.kernel is not None)
    )
    return backend == "fused" or (backend == "auto" and has_kernels)


def finite_difference(f: Callable[[Tensor], Tensor], x: Tensor, along: Tensor) -> Tensor:
    step = 1e-6
    with torch.no_grad():
        return (f(x + step * along) - f(x - step * along)) / (2 * step)


@LAYERS
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own formulas
def test_forward_mode_is_right(make: Callable[[], Layer], backend: str) -> None:
    f, x, along = made(make)
    wanted = finite_difference(f, x, along)
    assert wanted.abs().max() > 1e-3
    torch.testing.assert_close(torch.func.jvp(f, (x,), (along,))[1], wanted, rtol=1e-5, atol=1e-8)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, along))).tangent
    assert tangent is not None
    torch.testing.assert_close(tangent, wanted, rtol=1e-5, atol=1e-8)


@LAYERS
def test_torch_func_is_right(make: Callable[[], Layer], backend: str) -> None:
    f, x, along = made(make)
    found = torch.func.grad(lambda x: (f(x) ** 2).sum())(x)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad((f(leaf) ** 2).sum(), leaf)
    torch.testing.assert_close(found, wanted)
    both = torch.func.vmap(f)(torch.stack([x, along]))
    torch.testing.assert_close(both, torch.stack([f(x), f(along)]))


@LAYERS
def test_a_second_derivative_is_right_or_the_error_names_the_backend(
    make: Callable[[], Layer], backend: str
) -> None:
    f, x, along = made(make)
    x.requires_grad_()

    def slope(x: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad((f(x) ** 2).sum(), x, create_graph=True)
        return (gradient * along).sum()

    if uses_kernels(make, backend):
        with pytest.raises(RuntimeError, match="backend='reference'"):
            torch.autograd.grad(slope(x), x)
        return
    (found,) = torch.autograd.grad(slope(x), x)
    step = 1e-6
    for place in ((0, 0, 0), (1, 1, 2)):
        moved = torch.zeros_like(x)
        moved[place] = step
        ahead, behind = (slope((x + way * moved).detach().requires_grad_()) for way in (1, -1))
        wanted = float((ahead - behind).detach() / (2 * step))
        assert float(found[place]) == pytest.approx(wanted, rel=1e-4, abs=1e-7)


@LAYERS
def test_without_storage_shapes_are_right(make: Callable[[], Layer], backend: str) -> None:
    layer = make()
    shape = layer(torch.randn(T, B, IN))[0].shape
    layer = layer.to("meta")
    x = torch.randn(T, B, IN, device="meta")
    if backend == "fused" and not isinstance(getattr(layer, "layer", layer), DeepLSTM):
        with pytest.raises(ValueError, match=r"use .*'auto' or "):
            layer(x)
        return
    output, _ = layer(x)
    assert output.is_meta
    assert output.shape == shape


def test_building_the_graph_of_a_second_derivative_is_not_refused() -> None:
    for layer in (rnn("stack", "auto"), heads("stack", "auto"), DeepLSTM(IN, 3)):
        total = layer(torch.randn(T, B, IN))[0].sum()
        found = torch.autograd.grad(total, [*layer.parameters()], create_graph=True)
        assert all(gradient.isfinite().all() for gradient in found)


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    pytest.param(lambda: rnn("stack", "auto"), id="rnn-auto"),
    *(pytest.param(lambda m=name: rnn(m, "reference"), id=f"rnn-{name}") for name in MEMORIES),
    *(pytest.param(lambda m=name: heads(m, "reference"), id=f"heads-{name}") for name in MEMORIES),
    pytest.param(lambda: DeepLSTM(IN, 3, 2, backend="reference"), id="lstm"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_plain_layer_can_be_exported_to_onnx(make: Callable[[], Layer], tmp_path: Path) -> None:
    import onnxruntime

    class Outputs(nn.Module):
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.layer(x)[0]
            return output

    torch.manual_seed(1)
    layer, x = make().eval(), torch.randn(T, B, IN)
    with torch.no_grad():
        torch.onnx.export(Outputs(layer), (x,), str(tmp_path / "layer.onnx"), verbose=False)
        session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), layer(x)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["auto", "fused", "reference"])
@pytest.mark.parametrize("memory", ["stack", "queue", "deque"])
def test_hooks_on_the_memory_fire(memory: str, backend: str) -> None:
    layer = rnn(memory, backend)
    calls: list[Tensor] = []
    wanted, _ = layer(torch.ones(T, B, IN))
    handle = layer.memory.register_forward_hook(lambda m, given, out: calls.append(out[0]))
    found, _ = layer(torch.ones(T, B, IN))
    assert len(calls) == T
    layer.step(torch.ones(B, IN))
    assert len(calls) == T + 1
    torch.testing.assert_close(found, wanted)
    handle.remove()
    layer(torch.ones(T, B, IN))
    assert len(calls) == T + 1


def test_hooks_on_further_layers_fire() -> None:
    layer = MemoryRNN(IN, 3, "stack", 2, num_layers=2)
    calls: list[int] = []
    layer.further[0].register_forward_hook(lambda *_: calls.append(1))
    layer(torch.ones(T, B, IN))
    assert calls == [1]


@pytest.mark.parametrize("part", ["value", "memory"])
def test_a_method_that_is_set_on_a_part_counts(part: str) -> None:
    layer = rnn("stack", "auto")
    x = torch.randn(T, B, IN)
    before, _ = layer(x)
    if part == "value":
        layer.value.forward = lambda h: torch.full((len(h), 2), 0.5)  # type: ignore[method-assign]
    else:
        layer.memory.squash = torch.zeros_like  # type: ignore[method-assign]
    after, _ = layer(x)
    assert not torch.allclose(before[1:], after[1:])
    layer.backend = layer.memory.backend = "reference"
    torch.testing.assert_close(layer(x)[0], after)


def test_global_hooks_see_the_memory() -> None:
    seen: list[type] = []
    handle = nn.modules.module.register_module_forward_hook(lambda m, *_: seen.append(type(m)))
    try:
        rnn("stack", "auto")(torch.ones(T, B, IN))
    finally:
        handle.remove()
    assert seen.count(NeuralStack) == T


def test_a_replaced_memory_counts() -> None:
    class Forgetful(NeuralStack):
        def run_step(self, values, gates, state):  # type: ignore[no-untyped-def]
            reads, state = super().run_step(values, gates, state)
            return torch.zeros_like(reads), state

    layer = rnn("stack", "auto")
    x = torch.randn(T, B, IN)
    before, _ = layer(x)
    layer.memory = Forgetful(2)
    after, state = layer(x)
    assert not torch.allclose(before, after)
    assert not state.read.any()


def test_a_cell_of_a_new_name_runs_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Linear(Cell):
        """h = W x + U h + b, and a c that counts."""

        blocks = 1
        has_c = True

        def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            h, c = state
            return self.from_input(x) + h @ self.weight_hh.T, c + 1

    monkeypatch.setitem(CELLS, "linear", Linear)
    layer = MemoryRNN(IN, 3, "stack", 2, "linear")
    output, state = layer(torch.randn(T, B, IN))
    torch.testing.assert_close(state.parts[1], layer.c0.expand(B, 3) + T)
    output.sum().backward()
    with pytest.raises(ValueError, match="got the cell Linear: use backend 'auto' or 'reference'"):
        MemoryRNN(IN, 3, "stack", 2, "linear", backend="fused")(torch.randn(T, B, IN))
