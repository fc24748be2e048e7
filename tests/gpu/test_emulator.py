"""The emulator against torch, and the races that it finds."""

import tests.gpu.needed  # noqa: F401, I001  # first: what comes next imports Triton

import pytest
import torch

from tests.gpu import kernels
from tools.ptx_emulator.launch import EmulatedKernel, Report

WARPS = pytest.mark.parametrize("warps", [1, 4])


def emulate(name: str, warps: int, **options: int) -> tuple[EmulatedKernel, Report]:
    report = Report()
    return EmulatedKernel(getattr(kernels, name), report, num_warps=warps, **options), report


@WARPS
@pytest.mark.parametrize("D", [96, 100], ids=["vectors of four", "single numbers"])
def test_sums_and_running_sums_are_right(warps: int, D: int) -> None:
    kernel, report = emulate("sum_rows", warps)
    x, out = torch.randn(3, D), torch.empty(3, D + 1)
    kernel[(3,)](x, out, D, BLOCK=128)
    torch.testing.assert_close(out, torch.cat([x.sum(1, keepdim=True), x.cumsum(1)], 1))
    assert not report.races


@pytest.mark.parametrize(
    ("warps", "dtype", "narrow"),
    [
        (1, torch.float32, torch.bfloat16),
        (4, torch.float64, torch.float16),
        (4, torch.float32, torch.float32),
    ],
    ids=str,
)
def test_arithmetic_is_that_of_torch(warps: int, dtype: torch.dtype, narrow: torch.dtype) -> None:
    kernel, report = emulate("mix", warps, arch=90)
    x, y = torch.randn(2, 200, dtype=dtype) * 3
    n = torch.randint(-1000, 1000, (200,))
    floats, integers = torch.empty_like(x), torch.empty_like(n)
    narrowed = torch.empty(200, dtype=narrow)
    kernel[(2,)](x, y, n, floats, integers, narrowed, 200, BLOCK=128)
    small = torch.minimum(x, y) - torch.maximum(x, y) * y.abs()
    smooth = (-x * x).exp() + y.sigmoid() + x.abs().sqrt() + (y * y + 1).log()
    torch.testing.assert_close(floats, torch.where(x < y, small, smooth))
    torch.testing.assert_close(narrowed, (x * y).to(narrow))
    over, left = n.div(7, rounding_mode="trunc"), n.fmod(5)  # as in C
    assert integers.equal(over * 3 + left + (n << 2) - (n >> 1) ^ 9 | (x * 8).long())
    assert not report.races


def test_a_scalar_that_all_threads_load_needs_barriers() -> None:
    wrong, races = 0.0, 0
    for seed in range(3):
        kernel, report = emulate("count_up", 4, seed=seed)
        state, seen = torch.zeros(1, dtype=torch.int32), torch.zeros(20, 128, dtype=torch.int32)
        kernel[(1,)](state, seen, 20, BARRIERS=False, BLOCK=128)
        wrong = max(wrong, float((seen - torch.arange(20)[:, None]).abs().max()))
        races += sum(report.races.values())
        places = {(race.what, race.who) for _, race in report.races}
        assert ("load after store", "warps") in places
        assert ("store after load", "warps") in places
        assert all(race.source.startswith("kernels.py:") for _, race in report.races)
    assert races > 0
    assert wrong > 0  # what the threads saw, too


@WARPS
def test_with_barriers_it_has_no_race(warps: int) -> None:
    kernel, report = emulate("count_up", warps)
    state, seen = torch.zeros(1, dtype=torch.int32), torch.zeros(20, 128, dtype=torch.int32)
    kernel[(1,)](state, seen, 20, BARRIERS=True, BLOCK=128)
    assert seen.equal(torch.arange(20, dtype=torch.int32)[:, None].expand(20, 128))
    assert state.item() == 20
    assert not report.races
    assert report.by_kernel()["count_up"]["races"] == 0


@WARPS
def test_one_warp_races_with_itself_too(warps: int) -> None:
    kernel, report = emulate("count_up", warps)
    state, seen = torch.zeros(1, dtype=torch.int32), torch.zeros(5, 128, dtype=torch.int32)
    kernel[(1,)](state, seen, 5, BARRIERS=False, BLOCK=128)
    assert "lanes" in {race.who for _, race in report.races}


def test_programs_that_add_to_one_place_must_do_it_atomically() -> None:
    x = torch.randn(3, 128)
    for atomic in (True, False):
        kernel, report = emulate("share_a_sum", 4)
        out = torch.zeros(128)
        kernel[(3,)](x, out, ATOMIC=atomic, BLOCK=128)
        torch.testing.assert_close(out, x.sum(0))
        assert bool(report.races) is not atomic
        assert {race.who for _, race in report.races} <= {"blocks"}


def test_a_store_outside_a_tensor_is_an_error() -> None:
    kernel, _ = emulate("sum_rows", 1)
    with pytest.raises(IndexError, match=r"outside all tensors.*kernels.py"):
        kernel[(2,)](torch.randn(2, 64), torch.empty(2, 32), 64, BLOCK=64)
