"""The compiled kernels, emulated: right results and no races."""

import tests.gpu.needed  # noqa: F401, I001  # first: what comes next imports Triton

from pathlib import Path
from types import ModuleType

import pytest

from pushpop.memory.backends.triton import walk
from pushpop.verification.agreement import Sizes
from tools.ptx_emulator.harness import layer_errors, memory_errors, without_barrier

WARPS = pytest.mark.parametrize(
    ("warps", "sizes"),
    [(1, Sizes(7, 2, 40, 3)), (4, Sizes(7, 2, 128, 3))],
    ids=["one warp", "four warps"],
)


@WARPS
@pytest.mark.parametrize("kind", ["stack", "queue", "deque"])
def test_the_compiled_walk_is_right_and_has_no_race(kind: str, warps: int, sizes: Sizes) -> None:
    wrong, report = memory_errors(kind, "walk", "ties", sizes, num_warps=warps)
    assert max(wrong.values()) < 1e-5, wrong
    assert not report.races
    assert set(report.launches) == {"walk_forward", "walk_backward"}


def test_steps_in_place_are_right_and_have_no_race() -> None:
    wrong, report = memory_errors("deque", "steps", "ties", Sizes(6, 2, 128, 3), num_warps=4)
    assert max(wrong.values()) < 1e-5, wrong
    assert not report.races
    assert {"begin_rows", "step_rows", "rewind_rows", "finish_rows"} <= set(report.launches)


def test_the_recurrence_is_right_and_has_no_race() -> None:
    wrong, report = layer_errors("lstm", "deque", Sizes(4, 2, 128), hidden=136, num_warps=4)
    assert max(wrong.values()) < 1e-4, wrong
    assert not report.races
    names = {"cell_forward", "memory_forward", "memory_backward", "cell_backward"}
    assert names <= set(report.launches)


@pytest.mark.parametrize(
    ("module", "kernel", "number"),
    [(walk, "walk_forward", 1), (walk, "walk_backward", 8)],
    ids=["before a pop trims a cell", "before a cell's gradient is stored"],
)
def test_without_one_of_its_barriers_the_walk_has_races(
    module: ModuleType, kernel: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the check can fail: a scalar is loaded by all threads, and stored by one of them."""
    racy = without_barrier(module, number, tmp_path)
    monkeypatch.setattr(module, kernel, getattr(racy, kernel))
    wrong, report = memory_errors("stack", "walk", "ties", Sizes(7, 2, 128, 3), num_warps=4)
    assert "warps" in {race.who for name, race in report.races if name == kernel}
    if kernel == "walk_forward":
        assert wrong["reads"] > 0.1  # and it shows: one warp trims what another has yet to see
