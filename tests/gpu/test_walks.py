"""The compiled kernels of the memories, emulated: right results and no races."""

import tests.gpu.needed  # noqa: F401, I001  # first: what comes next imports Triton

from pathlib import Path
from types import ModuleType

import pytest
import torch

from pushpop.memory import triton_walk, triton_walk_backward
from tests.gpu.walks import errors, without_barrier
from tests.memory.samples import sample

KINDS = pytest.mark.parametrize("kind", ["stack", "queue", "deque"])


@KINDS
@pytest.mark.parametrize(("warps", "D"), [(1, 40), (4, 128)], ids=["one warp", "four warps"])
def test_the_compiled_walk_is_right_and_has_no_race(kind: str, warps: int, D: int) -> None:
    torch.manual_seed(0)
    given = sample(kind, "dyadic", T=7, B=2, D=D, N=3, dtype=torch.float32)
    wrong, report = errors(kind, given, num_warps=warps)
    assert max(wrong.values()) < 1e-5, wrong
    assert not report.races
    assert set(report.launches) == {"walk_forward", "walk_backward"}


@pytest.mark.parametrize(
    ("module", "kernel", "number"),
    [(triton_walk, "walk_forward", 1), (triton_walk_backward, "walk_backward", 1)],
    ids=["before a pop trims a cell", "before a cell's gradient is stored"],
)
def test_without_one_of_its_barriers_the_walk_has_races(
    module: ModuleType, kernel: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the check can fail: a scalar is loaded by all threads, and stored by one of them."""
    racy = without_barrier(module, number, tmp_path)
    monkeypatch.setattr(module, kernel, getattr(racy, kernel))
    torch.manual_seed(0)
    given = sample("stack", "dyadic", T=7, B=2, D=128, N=3, dtype=torch.float32)
    wrong, report = errors("stack", given, num_warps=4)
    assert "warps" in {race.who for name, race in report.races if name == kernel}
    if kernel == "walk_forward":
        assert wrong["reads"] > 0.1  # and here it shows: one warp trims what another has yet to see
