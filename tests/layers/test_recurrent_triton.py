"""MemoryRNN on a GPU as a machine without one can check it: results, launches, waits."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pushpop import MemoryRNN
from tests.memory.test_triton import NEEDS_TRITON, run_python

INTERPRETED = Path(__file__).with_name("interpreted.py")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@NEEDS_TRITON
@pytest.mark.slow
@pytest.mark.parametrize("which", ["equal", "not equal"])
def test_the_recurrence_in_the_interpreter(which: str) -> None:
    done = run_python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", str(INTERPRETED), "-k", which,
        TRITON_INTERPRET="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`benchmarks/gpu_launches.py`."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_launches

    yield gpu_launches
    for name in ("gpu_launches", "machine"):
        sys.modules.pop(name)


@NEEDS_TRITON
def test_a_step_is_four_launches_each_way_and_the_host_never_waits(launches: ModuleType) -> None:
    found = launches.figures()
    for name, ways in found["kernels"].items():
        recurrences = 4 if "4 recurrences" in name else 1
        for figures in ways.values():
            assert figures["launches_a_step"] <= 4 * recurrences, name
            assert figures["waits"] == 0, name
    for part in ("step_by_step", "decoding"):
        assert not any(f["waits"] for ways in found[part].values() for f in ways.values())


@NEEDS_TRITON
def test_the_counter_sees_launches_and_waits(launches: ModuleType) -> None:
    x = torch.empty(3, device="meta")
    with launches.counting() as found:
        (x + 1).view(3, 1)
        torch.tensor([1.0, 2.0]) * 2  # on the host
        torch.ones(3).to(x.device, non_blocking=True)
        torch.ones(3).to(x.device)
        with pytest.raises(RuntimeError):
            x.sum().item()
    assert found.names == {"aten::add": 1, "aten::sum": 1, "aten::_to_copy": 2}
    assert found.waits == {"aten::_to_copy": 1, "aten::_local_scalar_dense": 1}


def test_without_a_gpu_the_backend_is_refused_and_the_remedy_named() -> None:
    with pytest.raises(ValueError, match=r"on a GPU, with the package triton; got .* on cpu: use"):
        MemoryRNN(3, 4, backend="triton")(torch.randn(2, 1, 3))


@NEEDS_TRITON
def test_every_argument_of_a_kernel_has_a_type_or_a_value() -> None:
    from tools.triton_variants import layer_variants

    for variant in layer_variants():
        assert set(variant.kernel.arg_names) == {*variant.types, *variant.constants}
        assert 32 * variant.num_warps <= variant.constants["BLOCK"], variant.name


@NEEDS_TRITON
@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", ["cell_backward-gru-64", "memory_forward-deque-64"])
def test_kernels_compile_ahead_of_time(name: str, target: str) -> None:
    """Some of them; `make gpu` compiles all."""
    from tools.triton_variants import compile_variant, variants

    (variant,) = [variant for variant in variants() if variant.name == f"{name}-float32"]
    compiled = compile_variant(variant, target)
    assert compiled.asm["ptx" if target.startswith("sm") else "amdgcn"]
