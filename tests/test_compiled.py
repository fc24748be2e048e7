"""Kernels where Numba's cache is as it should be, unusable, lost or left over."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pushpop

UNUSABLE = "/dev/null/nowhere"  # not even root can make it
KERNEL = """
from pushpop.compiled import compiled
import constants

@compiled(imports=[constants])
def scale(x):
    return constants.FACTOR * x
"""
CALL = """
import torch
import pushpop
x = torch.ones(3, 1, 2, requires_grad=True)
reads, _ = pushpop.NeuralStack(2)(x, torch.ones(3, 1), torch.zeros(3, 1))
reads.sum().backward()
print(reads.sum().item(), x.grad.sum().item())
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A directory with a small module of kernels."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "constants.py").write_text("FACTOR = 2\n")
    return tmp_path


def run_python(code: str, *path: Path, **environment: str) -> tuple[str, str]:
    """What a new process prints on stdout and on stderr."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "HOME")}
    python_path = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**inherited, "PYTHONPATH": python_path, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def without_cache_directories(package: Path) -> None:
    for directory in {path.parent for path in package.rglob("*.py")}:
        (directory / "__pycache__").write_text("a file where a directory should be\n")


def test_without_a_directory_to_write_kernels_run_uncached_and_say_so_once(kernel: Path) -> None:
    without_cache_directories(kernel)
    code = "import kernel; print(kernel.scale(3), kernel.scale(0.5))"
    out, err = run_python(code, kernel, HOME=UNUSABLE, NUMBA_CACHE_DIR=UNUSABLE)
    assert out == "6 1.0"
    assert err.count("\n") == err.count("kernels cannot be cached") == 1, err
    assert "set NUMBA_CACHE_DIR" in err


def test_a_cache_that_is_lost_after_the_import_is_said_once(kernel: Path) -> None:
    cache = kernel / "cache"
    code = f"""
import kernel, shutil
shutil.rmtree({str(cache)!r})
open({str(cache)!r}, "w").close()
print(kernel.scale(3), kernel.scale(0.5))
"""
    out, err = run_python(code, kernel, HOME=UNUSABLE, NUMBA_CACHE_DIR=str(cache))
    assert out == "6 1.0"
    assert err.count("\n") == err.count("kernels cannot be cached") == 1, err


def test_what_another_version_left_in_the_cache_is_compiled_again(kernel: Path) -> None:
    cache = kernel / "cache"
    code = "import kernel; print(kernel.scale(3), kernel.scale.stats.cache_hits)"
    hits = [run_python(code, kernel, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)]
    assert hits == [("6 Counter()", ""), ("6 Counter({(int64,): 1})", "")]
    for index in cache.rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:-10])
    hits = [run_python(code, kernel, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)]
    assert hits == [("6 Counter()", ""), ("6 Counter({(int64,): 1})", "")]


def test_a_kernel_notices_edits_in_the_modules_it_imports(kernel: Path) -> None:
    code = "import kernel; print(kernel.scale(3))"
    assert run_python(code, kernel, NUMBA_CACHE_DIR=str(kernel / "cache")) == ("6", "")
    (kernel / "constants.py").write_text("FACTOR = 50\n")
    assert run_python(code, kernel, NUMBA_CACHE_DIR=str(kernel / "cache")) == ("150", "")


@pytest.mark.slow
def test_a_memory_works_where_nothing_can_be_cached(tmp_path: Path) -> None:
    package = tmp_path / "pushpop"
    ignored = shutil.ignore_patterns("__pycache__", "shipped")
    shutil.copytree(Path(pushpop.__file__).parent, package, ignore=ignored)
    without_cache_directories(package)
    out, err = run_python(CALL, tmp_path, HOME=UNUSABLE, NUMBA_CACHE_DIR=UNUSABLE)
    assert out == "6.0 6.0"
    assert err.count("\n") == err.count("kernels cannot be cached") == 1, err
