"""The GPU kernels as a machine without a GPU can check them, and life without Triton."""

import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pushpop.memory.kinds import KINDS

INTERPRETED = Path(__file__).with_name("interpreted.py")
NEEDS_TRITON = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64") or find_spec("triton") is None,
    reason="Triton is there for Linux on x86-64, and must be installed",
)
WITHOUT = """
import sys
sys.modules["triton"] = None
import torch
import pushpop

x = torch.rand(5, 2, 3, requires_grad=True)
for memory in (pushpop.NeuralStack(3), pushpop.NeuralStack(3, "parallel")):
    reads, _ = memory(x, torch.rand(5, 2), torch.rand(5, 2))
    reads.sum().backward()
pushpop.MemoryRNN(3, 4, "deque", 2)(x.detach())[0].sum().backward()
print(pushpop.NeuralStack(3).backends(torch.device("cuda"), torch.float32))
try:
    pushpop.NeuralStack(3, "triton")(x, torch.rand(5, 2), torch.rand(5, 2))
except ValueError as error:
    print(error)
"""
UNASKED = """
import sys
import torch
import pushpop
pushpop.NeuralQueue(3)(torch.rand(5, 2, 3), torch.rand(5, 2), torch.rand(5, 2))
print([name for name in sys.modules if name.startswith("pushpop.") and "triton" in name])
"""


def run_python(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@NEEDS_TRITON
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_in_the_interpreter(kind: str) -> None:
    chosen = "stack or auto" if kind == "stack" else kind
    done = run_python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", str(INTERPRETED), "-k", chosen,
        TRITON_INTERPRET="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_works_without_triton() -> None:
    done = run_python("-c", WITHOUT)
    assert done.returncode == 0, done.stderr
    backends, message = done.stdout.splitlines()
    assert backends == "('parallel', 'reference')"
    assert message.startswith("backend 'triton' of memory 'stack' runs floating point on a GPU")
    assert "got torch.float32 on cpu: use 'auto' or 'fused'" in message


def test_the_kernels_are_imported_only_when_they_run() -> None:
    done = run_python("-c", UNASKED)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


@NEEDS_TRITON
def test_every_argument_of_a_kernel_has_a_type_or_a_value() -> None:
    from tools.triton_variants import memory_variants

    for variant in memory_variants():
        assert set(variant.kernel.arg_names) == {*variant.types, *variant.constants}
        # No more threads than numbers; a kernel of scalars alone has one warp.
        sizes = (variant.constants.get(name) for name in ("BLOCK", "CELLS"))
        smallest = min((size for size in sizes if size is not None), default=32)
        assert 32 * variant.num_warps <= smallest, variant.name


@NEEDS_TRITON
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize(
    "name",
    ["walk_forward-deque-256-float32", "walk_backward-queue-256-bfloat16"],
)
def test_kernels_compile_ahead_of_time(name: str, target: str) -> None:
    """Some of them; `make gpu` compiles all."""
    from tools.triton_variants import compile_variant, variants

    (variant,) = [variant for variant in variants() if variant.name == name]
    compiled = compile_variant(variant, target)
    assert compiled.asm["ptx" if target.startswith("sm") else "amdgcn"]
