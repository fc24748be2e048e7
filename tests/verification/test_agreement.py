"""What `pushpop check` compares: inputs that round nowhere, and differences that count."""

from math import inf

import pytest
import torch

from pushpop.memory import MEMORIES
from pushpop.verification import agreement
from pushpop.verification.agreement import (
    Sizes,
    compare,
    compare_memories,
    difference,
    look_at_cells,
    memory_inputs,
    run_memory,
)

CPU = torch.device("cpu")
SMALL = Sizes(6, 2, 4, 2)


@pytest.mark.parametrize("kind", ["stack", "queue", "deque"])
@pytest.mark.parametrize("case", ["random", "ties"])
def test_sums_of_strengths_are_exact_in_float32(kind: str, case: str) -> None:
    _, gates, _, strengths = memory_inputs(kind, case, Sizes(), torch.float32)
    for x in (gates, strengths):
        total = x.flatten().double().sum()  # more than any memory holds
        assert total < 2**8
        assert x.double().mul(agreement.GRIDS[case]).frac().eq(0).all()
        assert 0 <= x.min() <= x.max() <= 1


def test_every_backend_of_the_cpu_is_compared_in_every_precision() -> None:
    found = {(each.what, each.backend, each.dtype) for each in compare_memories(CPU, SMALL)}
    for kind in ("stack", "queue", "deque"):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            name = str(dtype).removeprefix("torch.")
            for backend in (*MEMORIES[kind](4).backends(CPU, dtype), "streamed"):
                itself = backend == "reference" and dtype == torch.float64
                assert ((kind, backend, name) in found) is not itself
    assert ("tape", "reference", "float32") in found


def test_gradients_of_all_inputs_are_compared() -> None:
    given = memory_inputs("deque", "ties", SMALL, torch.float64)
    names = {"reads", "cells", "d values", "d gates", "d initial values", "d initial strengths"}
    assert run_memory("deque", "fused", given).keys() == names
    assert run_memory("deque", "streamed", given).keys() == {"reads", "cells"}


def test_the_cells_left_are_told_by_value_strength_and_place() -> None:
    given = memory_inputs("stack", "random", SMALL, torch.float64)
    wanted = run_memory("stack", "reference", given)["cells"]
    assert run_memory("stack", "fused", given)["cells"].item() == pytest.approx(wanted.item())
    state = MEMORIES["stack"](4).run(given[0], given[1], None)[1]
    before = look_at_cells(state)
    turned = type(state)(state.values.flip(1), state.strengths.flip(1))
    assert abs(look_at_cells(turned) - before) > 1e-3


def test_differences_are_relative_and_nan_is_infinite() -> None:
    assert difference(torch.tensor([3.0, 10.5]), torch.tensor([3.0, 10.0])) == 0.05
    assert difference(torch.tensor([0.25]), torch.tensor([0.0])) == 0.25
    assert difference(torch.tensor([torch.nan]), torch.tensor([0.0])) == inf
    assert difference(torch.empty(0), torch.empty(0)) == 0


def test_what_raises_is_wrong_and_says_what() -> None:
    def fail() -> dict[str, torch.Tensor]:
        raise RuntimeError("no kernel image\nis available")

    found = compare("stack", "triton", CPU, torch.float32, "random", fail, {})
    assert not found.agrees
    assert str(found) == "stack, triton, float32 on cpu, random: RuntimeError: no kernel image"


def test_a_difference_beyond_the_limit_names_what_differs() -> None:
    wanted = {"reads": torch.ones(2), "d gates": torch.ones(2)}
    run = lambda: {"reads": torch.ones(2), "d gates": torch.full((2,), 1.5)}  # noqa: E731
    found = compare("stack", "fused", CPU, torch.float32, "ties", run, wanted)
    assert not found.agrees
    assert str(found).endswith("ties: d gates differs by 5.0e-01, expected at most 1e-04")
    assert compare("stack", "fused", CPU, torch.float32, "ties", run, wanted, True).agrees
