"""The Triton kernels in Triton's interpreter, on CPU tensors, through the library's own calls.

`test_triton.py` runs this file in a process of its own: Triton decides when it is imported whether
it interprets.
"""

import dataclasses

import pytest
import torch
from torch import Tensor
from triton.runtime import interpreter

from pushpop import MemoryAttention, MemoryState
from pushpop.memory.backends import walk, walk_triton
from pushpop.memory.backends.triton import block_options, live_width
from pushpop.memory.backends.triton import walk as walk_kernels
from pushpop.memory.kinds import KINDS as NUMBERS
from pushpop.memory.operators import WalkInput, empty_walk, final_of, log_of

from .samples import PAPER, Sample, look_at_everything, sample
from .test_agreement import run, worst

KINDS = pytest.mark.parametrize("kind", PAPER)
# The interpreter's checks for overflow take half of its time.
interpreter.interpreter_builder.options = dataclasses.replace(
    interpreter.interpreter_builder.options, sanitize_overflow=False
)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def operands(kind: str, given: Sample) -> list[Tensor]:
    """What the operator `walk` takes after the kind."""
    widened = PAPER[kind](given.values.shape[-1])._with_ends(*given.leaves[:3])
    return [x.detach().contiguous() for x in (*widened, *given.leaves[3:])]


@KINDS
@pytest.mark.parametrize("how", ["random", "dyadic", "saturated"])
def test_the_kernels_equal_the_reference_in_float64(kind: str, how: str) -> None:
    given = sample(kind, how, 5, B=2, D=3, N=3)
    errors = worst(run(kind, "triton", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-10, errors


@KINDS
def test_the_kernels_equal_the_reference_in_float32(kind: str) -> None:
    given = sample(kind, "random", 4, B=2, D=3, N=2, dtype=torch.float32)
    errors = worst(run(kind, "triton", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-5, errors
    with torch.no_grad():  # the state is made at once then
        found, wanted = (
            PAPER[kind](3, backend)(*given.leaves[:3], given.state)[1]
            for backend in ("triton", "reference")
        )
    assert found.equal(wanted, atol=1e-6)
    assert not found.requires_grad


@KINDS
def test_rows_of_different_depths_and_a_wide_value(kind: str) -> None:
    """Padding of a ragged state, in the middle too; more numbers than the smallest block."""
    given = sample(kind, "dyadic", 3, B=3, D=70, N=4)
    with torch.no_grad():
        given.first_strengths.copy_(
            torch.tensor([[0.5, 0.75, 0, 0], [0, 0, 0, 0], [0.25, 0, 1, 0.5]])
        )
    errors = worst(run(kind, "triton", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-10, errors


@KINDS
def test_a_window_of_many_cells(kind: str) -> None:
    """More cells than the backward pass takes at once, all in one window."""
    given = sample(kind, "random", 11, B=1, D=1, N=0)
    with torch.no_grad():
        given.push.fill_(0.04)
        given.pop.mul_(0.01)
    errors = worst(run(kind, "triton", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-10, errors


@KINDS
def test_the_walk_leaves_what_the_cpu_kernels_leave(kind: str) -> None:
    """Stacks and queues too, which take another form for whole sequences."""
    number, given = NUMBERS.index(kind), operands(kind, sample(kind, "mixed", 5, B=2, N=3))
    found, wanted = (operator(WalkInput(number, *given)) for operator in (walk_triton, walk))
    torch.testing.assert_close(found, wanted)
    saved = (given[0], given[3], *wanted[1:])
    grads = (torch.randn_like(wanted[0]), torch.randn_like(wanted[1]))
    torch.testing.assert_close(
        torch.ops.pushpop.walk_triton_backward(number, *saved, *grads),
        torch.ops.pushpop.walk_backward(number, *saved, *grads),
    )


@KINDS
def test_a_step_a_launch_is_the_same_walk(kind: str) -> None:
    """Two sequences with two memories each, whose reads lie inside a wider table."""
    number, given = NUMBERS.index(kind), operands(kind, sample(kind, "dyadic", 4, B=4, N=3))
    values, push, pop, initial, strengths = given
    wanted = walk(WalkInput(number, *given))
    T, R, E, D = values.shape
    N, room = strengths.shape[1], wanted.strengths.shape[1]
    gates, table = torch.cat([push, pop], -1), values.new_zeros(T, 2, 2 * E * D + 3)
    out = empty_walk(WalkInput(number, *given))
    width, of_log = live_width(number, room, T), (out.log_row_ids, out.log_strengths)
    s, ids, ends = buffers(values, R, width)
    sizes = (R, D, room)
    walk_kernels.begin_rows[(R,)](strengths, s, ids, ends, N, room, width, CELLS=64)
    for t in range(T):
        walk_kernels.step_rows[(R,)](
            t, gates, values, initial, table[t, :, 3:], s, ids, ends, *log_of(out),
            *sizes, width, table.stride(1), 2, KIND=number, **block_options(D),
        )  # fmt: skip
    walk_kernels.finish_rows[(R,)](s, ids, ends, *of_log, *final_of(out), room, width, CELLS=64)
    torch.testing.assert_close(table[:, :, 3:].reshape(values.shape), wanted.reads)
    torch.testing.assert_close(tuple(out)[1:], tuple(wanted)[1:])


def buffers(like: Tensor, rows: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.empty(rows, width, dtype=torch.int64)
    return like.new_empty(rows, width), ids, torch.empty(rows, 4, dtype=torch.int32)


@KINDS
@pytest.mark.parametrize("where", ["push", "pop", "state"])
def test_a_nan_is_not_swallowed(kind: str, where: str) -> None:
    given = sample(kind, "random", 4, B=2, D=2, N=2)
    with torch.no_grad():
        if where == "state":
            given.first_strengths[1, 0] = torch.nan
        else:
            getattr(given, where)[2, 1] = torch.nan
    since = 0 if where == "state" else 2
    memory = PAPER[kind](2, "triton", validate=False)
    reads, state = memory(*given.leaves[:3], given.state)
    assert reads[since:, 1].isnan().all()
    assert reads[:, 0].isfinite().all()
    assert reads[:since].isfinite().all()
    later, _ = memory.step(*(x[0] for x in given.leaves[:3]), state)
    assert later[1].isnan().all()
    assert later[0].isfinite().all()


@KINDS
def test_pieces_of_a_sequence_equal_the_whole(kind: str) -> None:
    given = sample(kind, "dyadic", 5, B=2, D=2, N=2)
    memory = PAPER[kind](2, "triton")
    whole, wanted = memory(*given.leaves[:3], given.state)
    first, state = memory(*(x[:3] for x in given.leaves[:3]), given.state)
    second, state = memory(*(x[3:4] for x in given.leaves[:3]), state)
    third, state = memory.step(*(x[4] for x in given.leaves[:3]), state)
    torch.testing.assert_close(torch.cat([first, second, third[None]]), whole)
    assert state.equal(wanted, atol=1e-12)
    leaves = given.leaves
    torch.testing.assert_close(
        torch.autograd.grad(
            look_at_everything(torch.cat([first, second, third[None]]), state), leaves
        ),
        torch.autograd.grad(look_at_everything(whole, wanted), leaves),
    )


@KINDS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_strengths_in_float32(kind: str, dtype: torch.dtype) -> None:
    """Beside exact gates the only rounding is that of the values, of the reads and of their
    gradients: a hundred weak pushes do not get lost."""
    given = sample(kind, "random", 4, B=2, D=3, N=0, dtype=torch.float32)
    values = given.values.detach().to(dtype).requires_grad_()
    reads, state = PAPER[kind](3, "triton")(values, given.push, given.pop)
    wide = values.detach().float().requires_grad_()
    exact, exact_state = PAPER[kind](3, "reference")(wide, given.push, given.pop)
    assert (reads.dtype, state.values.dtype, state.strengths.dtype) == (dtype, dtype, torch.float32)
    torch.testing.assert_close(reads, exact.to(dtype))
    assert state.to(torch.float32).equal(exact_state, atol=1e-6)
    weights = torch.randn_like(exact).to(dtype)
    found = torch.autograd.grad((weights * reads).sum(), (values, given.push, given.pop))
    wanted = torch.autograd.grad((weights.float() * exact).sum(), (wide, given.push, given.pop))
    torch.testing.assert_close(found[0], wanted[0].to(dtype))
    torch.testing.assert_close(found[1:], wanted[1:], rtol=1e-4, atol=1e-4)
    later, _ = PAPER[kind](3, "triton").step(values[0], given.push[0], given.pop[0], state)
    assert later.dtype == dtype


@pytest.mark.parametrize("kind", ["stack", "queue"])
def test_attention_with_padding_equals_the_reference(kind: str) -> None:
    layers = [
        MemoryAttention(4, kind, num_heads=2, backend=backend, dtype=torch.float64)
        for backend in ("triton", "reference")
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(4, 2, 4, dtype=torch.float64)
    padded = torch.tensor([[False, False, False, False], [False, False, True, True]])
    outputs = [layer(x, key_padding_mask=padded)[0] for layer in layers]
    torch.testing.assert_close(*outputs)
    gradients = [
        torch.autograd.grad(output.square().sum(), list(layer.parameters()))
        for layer, output in zip(layers, outputs, strict=True)
    ]
    torch.testing.assert_close(*gradients)


@KINDS
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck(kind: str) -> None:
    number = NUMBERS.index(kind)
    given = [x.requires_grad_() for x in operands(kind, sample(kind, "random", 2, B=2, D=2, N=1))]
    checks = (
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_static",
    )
    torch.library.opcheck(walk_triton.operator, (number, *given), test_utils=checks)


@KINDS
def test_compiles_as_one_graph(kind: str) -> None:
    torch.compiler.reset()
    given = sample(kind, "random", 3, B=2, D=2, N=1)
    memory = PAPER[kind](2, "triton")

    def call(*leaves: Tensor) -> tuple[Tensor, MemoryState]:
        return memory(*leaves[:3], MemoryState(*leaves[3:]))

    reads, state = torch.compile(call, fullgraph=True, backend="aot_eager")(*given.leaves)
    wanted, wanted_state = call(*given.leaves)
    torch.testing.assert_close(reads, wanted)
    assert state.equal(wanted_state, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(look_at_everything(reads, state), given.leaves),
        torch.autograd.grad(look_at_everything(wanted, wanted_state), given.leaves),
    )


@pytest.mark.parametrize("kind", ["stack", "deque"])
def test_a_second_derivative_is_refused_by_the_backend_s_name(kind: str) -> None:
    given = sample(kind, "random", 2, B=1, D=1, N=0)
    reads, _ = PAPER[kind](1, "triton")(*given.leaves[:3])
    first = torch.autograd.grad((reads**2).sum(), given.values, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="'triton' has no second derivative; use backend"):
        torch.autograd.grad(first.sum(), given.values)


def test_auto_stays_with_the_cpu_kernels() -> None:
    assert PAPER["stack"](2).choose_backend(torch.zeros(1)) == "fused"


@KINDS
@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (3, 0)])
def test_the_smallest_sizes_work(kind: str, shape: tuple[int, int]) -> None:
    ends = (2,) if kind == "deque" else ()
    gates = torch.rand(*shape, *ends, requires_grad=True)
    values = torch.rand(*shape, *ends, 3, requires_grad=True)
    reads, after = PAPER[kind](3, "triton")(values, gates, gates)
    assert reads.shape == values.shape
    assert after.values.shape[::2] == (shape[1], 3)
    (reads.sum() + after.strengths.sum()).backward()
