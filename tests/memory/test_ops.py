"""The operators as torch sees them, and the kernels as a process meets them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pushpop import MemoryState
from pushpop.memory.backends import triton_imports, walk
from pushpop.memory.kinds import KINDS as NUMBERS
from pushpop.memory.operators import WalkInput

from .samples import PAPER, look_at_everything, sample

KINDS = pytest.mark.parametrize("kind", PAPER)
CALL = """
import torch, pushpop
stack = pushpop.NeuralStack(3)
x = torch.rand(5, 2, 3, requires_grad=True)
reads, state = stack(x, torch.rand(5, 2), torch.rand(5, 2))
reads.sum().backward()
print("%.6f" % x.grad.abs().sum().item() if x.grad.isfinite().all() else "bad")
"""


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> None:
    torch.compiler.reset()


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_first", [0, 3])
# A test of torch's own looks at .grad of tensors that are not leaves.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck(kind: str, dtype: torch.dtype, n_first: int) -> None:
    given = sample(kind, "random", 6, N=n_first, dtype=dtype)
    memory = PAPER[kind](4)
    widened = [x.detach().requires_grad_() for x in memory._with_ends(*given.leaves[:3])]
    args = (NUMBERS.index(kind), *widened, *given.leaves[3:])
    torch.library.opcheck(walk.operator, args)
    with torch.no_grad():
        reads, *rest = walk(WalkInput(*args))
    log = (args[1].detach(), args[4].detach(), *rest)
    torch.library.opcheck(
        torch.ops.pushpop.walk_backward.default,
        (args[0], *log, torch.randn_like(reads), torch.randn_like(rest[0])),
    )


@KINDS
@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
def test_compiles_as_one_graph(kind: str, backend: str) -> None:
    given = sample(kind, "random", 9, B=2)
    memory = PAPER[kind](4, backend)

    def call(*leaves: torch.Tensor) -> tuple[torch.Tensor, MemoryState]:
        return memory(*leaves[:3], MemoryState(*leaves[3:]))

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    reads, state = compiled(*given.leaves)
    wanted_reads, wanted_state = call(*given.leaves)
    torch.testing.assert_close(reads, wanted_reads)
    assert state.equal(wanted_state, atol=1e-12)
    found = torch.autograd.grad(look_at_everything(reads, state), given.leaves)
    wanted = torch.autograd.grad(look_at_everything(wanted_reads, wanted_state), given.leaves)
    torch.testing.assert_close(found, wanted)


@KINDS
def test_a_step_compiles_as_one_graph(kind: str) -> None:
    given = sample(kind, "random", 1, B=2)
    memory = PAPER[kind](4)
    compiled = torch.compile(memory.step, fullgraph=True, backend="aot_eager")
    inputs = [x[0].detach().requires_grad_() for x in given.leaves[:3]]
    read, state = compiled(*inputs, given.state)
    wanted, after = memory.step(*inputs, given.state)
    torch.testing.assert_close(read, wanted)
    assert state.equal(after, atol=1e-12)


def test_auto_picks_the_kernels_where_they_can_run() -> None:
    memory = PAPER["queue"](4)
    for dtype, chosen in (
        (torch.float32, "fused"),
        (torch.float64, "fused"),
        (torch.bfloat16, "parallel"),
    ):
        assert memory.choose_backend(torch.zeros(1, dtype=dtype)) == chosen
    on_gpu = "triton" if triton_imports() else "parallel"
    assert memory.backends(torch.device("cuda"), torch.bfloat16)[0] == on_gpu
    with pytest.raises(ValueError, match=r"float32 and float64 on the CPU; got torch.bfloat16"):
        PAPER["queue"](4, "fused").choose_backend(torch.zeros(1, dtype=torch.bfloat16))


@KINDS
def test_half_precision_runs_and_is_near(kind: str) -> None:
    given = sample(kind, "random", 20, N=0, dtype=torch.float32)
    memory = PAPER[kind](4)
    halves = [x.detach().to(torch.bfloat16).requires_grad_() for x in given.leaves[:3]]
    reads, _ = memory(*halves)
    reads.float().sum().backward()
    exact, _ = memory(*(x.float() for x in halves))
    assert reads.dtype == torch.bfloat16
    torch.testing.assert_close(reads.float(), exact, rtol=0.02, atol=0.05)
    assert all(x.grad is not None and x.grad.isfinite().all() for x in halves)


@KINDS
@pytest.mark.parametrize("backend", ["parallel", "reference"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_beside_half_precision_strengths_are_float32(
    kind: str, backend: str, dtype: torch.dtype
) -> None:
    """A thousand pushes of 0.001 would not add up to 1 in half precision."""
    given = sample(kind, "random", 20, N=2, dtype=torch.float32)
    values, first = given.values.detach().to(dtype), given.first_values.detach().to(dtype)
    memory = PAPER[kind](4, backend)
    reads, state = memory(values, given.push, given.pop, MemoryState(first, given.first_strengths))
    assert (reads.dtype, state.dtype, state.values.dtype) == (dtype, dtype, dtype)
    assert state.strengths.dtype == torch.float32
    wide = PAPER[kind](4, "reference")(
        values.float(), given.push, given.pop, MemoryState(first.float(), given.first_strengths)
    )
    torch.testing.assert_close(reads.float(), wide[0], rtol=0.02, atol=0.02)
    assert state.to(torch.float32).equal(wide[1], atol=1e-5)
    again, _ = memory(values[:3], given.push[:3].to(dtype), given.pop[:3].to(dtype), state)
    assert again.dtype == dtype


def test_non_contiguous_inputs_are_fine() -> None:
    given = sample("stack", "random", 10, N=0)
    memory = PAPER["stack"](4)
    turned = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in given.leaves[:3]]
    torch.testing.assert_close(memory(*turned)[0], memory(*given.leaves[:3])[0])


def run_python(code: str, cache: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", "import torch; torch.manual_seed(0)\n" + code],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_two_processes_may_compile_at_the_same_time_and_the_next_does_not(tmp_path: Path) -> None:
    both = [run_python(CALL, tmp_path) for _ in range(2)]
    results = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], results
    said = [err.count("compiling CPU kernels") for _, err in results]
    assert max(said) == 1, results
    (answer,) = {out for out, _ in results}
    assert answer not in ("", "bad\n")
    assert run_python(CALL, tmp_path).communicate() == (answer, "")


def test_importing_pushpop_does_not_import_numba() -> None:
    code = "import sys, pushpop; print('numba' in sys.modules, 'matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]
