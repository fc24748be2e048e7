"""States: in and out, in pieces, step by step, kept, moved, reordered."""

import copy
import pickle
import threading
import weakref
from itertools import product

import psutil
import pytest
import torch

from pushpop import MemoryState
from pushpop.memory.backends.fused.ring import RingStream

from .samples import PAPER, look_at_everything, relative_error, sample

KINDS = pytest.mark.parametrize("kind", PAPER)
BACKENDS = pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
HOW = pytest.mark.parametrize("how", ["random", "saturated", "dyadic"])


# At ties the interval form's gradients depend on where blocks begin.
CHUNKABLE = [
    *product(["fused", "reference"], ["random", "saturated", "dyadic"]),
    ("parallel", "random"),
]


@KINDS
@pytest.mark.parametrize(("backend", "how"), CHUNKABLE)
def test_chunked_calls_equal_one_call_gradients_included(kind: str, backend: str, how: str) -> None:
    given = sample(kind, how, 50)
    memory = PAPER[kind](4, backend)
    whole, after = memory(*given.leaves[:3], given.state)
    wanted = torch.autograd.grad(look_at_everything(whole, after), given.leaves)

    state, chunks = given.state, []
    for start, end in [(0, 1), (1, 1), (1, 20), (20, 21), (21, 50)]:
        reads, state = memory(*(x[start:end] for x in given.leaves[:3]), state)
        chunks.append(reads)
    found = torch.autograd.grad(look_at_everything(torch.cat(chunks), state), given.leaves)
    torch.testing.assert_close(torch.cat(chunks), whole)
    assert state.equal(after, atol=1e-12)
    for name, a, b in zip(given.names, found, wanted, strict=True):
        assert relative_error(a, b) < 1e-10, name


@KINDS
@BACKENDS
@HOW
def test_steps_equal_the_sequence(kind: str, backend: str, how: str) -> None:
    given = sample(kind, how, 40)
    memory = PAPER[kind](4, backend)
    with torch.no_grad():
        whole, after = memory(*given.leaves[:3], given.state)
        state = given.state
        for t in range(40):
            read, state = memory.step(*(x[t] for x in given.leaves[:3]), state)
            torch.testing.assert_close(read, whole[t])
    assert state.equal(after, atol=1e-12)


@KINDS
@HOW
def test_steps_with_gradients_equal_the_sequence(kind: str, how: str) -> None:
    given = sample(kind, how, 25)
    memory = PAPER[kind](4)
    wanted = torch.autograd.grad(
        look_at_everything(*memory(*given.leaves[:3], given.state)), given.leaves
    )
    state, reads = given.state, []
    for t in range(25):
        read, state = memory.step(*(x[t] for x in given.leaves[:3]), state)
        reads.append(read)
    found = torch.autograd.grad(look_at_everything(torch.stack(reads), state), given.leaves)
    for name, a, b in zip(given.names, found, wanted, strict=True):
        assert relative_error(a, b) < 1e-10, name


@KINDS
@torch.no_grad()
def test_old_states_stay_valid_and_can_be_stepped_from(kind: str) -> None:
    given = sample(kind, "mixed", 60, N=3)
    memory = PAPER[kind](4)
    states = [given.state]
    for t in range(60):
        states.append(memory.step(*(x[t] for x in given.leaves[:3]), states[-1])[1])
    for t in (59, 30, 1, 0):
        _, wanted = memory(*(x[: t + 1] for x in given.leaves[:3]), given.state)
        # from an old state, the same step again and then another one
        again, branch = memory.step(*(x[t] for x in given.leaves[:3]), states[t])
        assert branch.equal(wanted, atol=1e-12)
        other, _ = memory.step(*(x[0] for x in given.leaves[:3]), states[t])
        assert states[t + 1].equal(wanted, atol=1e-12)
        assert again.shape == other.shape


@torch.no_grad()
def test_stepping_goes_in_place_and_keeps_no_history() -> None:
    memory = PAPER["queue"](4)
    value, push, pop = torch.ones(2, 4), torch.full((2,), 0.75), torch.full((2,), 0.75)
    _, state = memory.step(value, push, pop)
    assert isinstance(state._store, RingStream)
    held, rings = [], set()
    for _ in range(1000):
        _, state = memory.step(value, push, pop, state)
        held.append(weakref.ref(state._store))
        rings.add(id(state._store.ring))
    assert len(rings) < 20
    assert [ref() is not None for ref in held] == [False] * 999 + [True]


@KINDS
@pytest.mark.slow
@torch.no_grad()
def test_memory_use_is_flat_while_what_is_pushed_is_popped(kind: str) -> None:
    memory = PAPER[kind](32)
    ends = (2,) if kind == "deque" else ()
    value, gate = torch.randn(1, *ends, 32), torch.full((1, *ends), 0.9)
    state = None
    sizes = []
    for _ in range(4):
        for _ in range(5000):
            _, state = memory.step(value, gate, gate, state)
        sizes.append(psutil.Process().memory_info().rss)
    assert sizes[-1] - sizes[0] < 2**20, sizes


@KINDS
@torch.no_grad()
def test_a_deep_memory_grows_and_stays_right(kind: str) -> None:
    """Stepping past every size of the ring, up and down again."""
    given = sample(kind, "random", 400, B=2, N=0)
    given.push.copy_((given.push * 0.5 + 0.5).clamp(max=1))
    given.pop[:200].mul_(0.1)
    memory = PAPER[kind](4)
    whole, after = memory(*given.leaves[:3])
    state = None
    for t in range(400):
        read, state = memory.step(*(x[t] for x in given.leaves[:3]), state)
        torch.testing.assert_close(read, whole[t])
    assert state is not None
    assert state.equal(after, atol=1e-12)


@KINDS
@BACKENDS
def test_rows_with_different_numbers_of_cells(kind: str, backend: str) -> None:
    """Each row of a batch behaves as it would alone."""
    given = sample(kind, "random", 60, B=4, N=0)
    with torch.no_grad():
        for b, scale in enumerate([0.0, 0.2, 0.6, 1.0]):
            given.pop[:, b].mul_(scale)
    memory = PAPER[kind](4, backend)
    reads, state = memory(*given.leaves[:3])
    for b in range(4):
        alone, left = memory(*(x[:, b : b + 1] for x in given.leaves[:3]))
        torch.testing.assert_close(alone, reads[:, b : b + 1])
        assert left.equal(state[[b]], atol=1e-12)


def test_padding_of_ragged_rows_is_zero_and_takes_no_gradient() -> None:
    values = torch.randn(3, 2, 4, requires_grad=True)
    push = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    pop = torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    _, state = PAPER["stack"](4)(values, push, pop)
    assert state.strengths.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert (state.values[1, 1:] == 0).all()
    (gradient,) = torch.autograd.grad(state.values.sum(), values)
    assert gradient[:, :, 0].tolist() == [[1, 0], [1, 0], [1, 1]]


@KINDS
def test_detach_cuts_the_graph_and_nothing_else(kind: str) -> None:
    given = sample(kind, "random", 10)
    _, state = PAPER[kind](4)(*given.leaves[:3], given.state)
    assert state.requires_grad
    cut = state.detach()
    assert not cut.requires_grad
    assert not cut.values.requires_grad
    assert cut.equal(state)


def test_to_changes_the_dtype_of_both() -> None:
    _, state = PAPER["deque"](4)(*sample("deque", "random", 5).leaves[:3])
    single = state.to(torch.float32)
    assert single.values.dtype == single.strengths.dtype == single.dtype == torch.float32
    assert single.equal(state.to("cpu", torch.float32))


@KINDS
def test_rows_of_a_state_that_nobody_has_looked_at_are_the_same_rows(kind: str) -> None:
    given = sample(kind, "random", 9)
    memory = PAPER[kind](4, "fused")
    results = []
    for look in (False, True):
        reads, state = memory(*given.leaves[:3], given.state)
        if look:
            assert state.values.requires_grad
        picked = state.rows([1, 0, 1])
        loss = look_at_everything(reads, picked)
        results.append((picked, torch.autograd.grad(loss, given.leaves)))
    (one, gradients), (other, wanted) = results
    assert one.equal(other)
    torch.testing.assert_close(gradients, wanted)


@torch.no_grad()
def test_rows_can_be_reordered_for_beam_search() -> None:
    given = sample("stack", "random", 12)
    memory = PAPER["stack"](4)
    _, state = memory(*given.leaves[:3], given.state)
    rows = torch.tensor([2, 0, 0])
    _, wanted = memory(*(x[:, rows] for x in given.leaves[:3]), given.state[rows])
    assert state[rows].equal(wanted, atol=1e-12)
    with pytest.raises(TypeError, match=r"did you mean \[1\]"):
        state[1]


def test_states_differ_if_a_cell_differs() -> None:
    V, s = torch.randn(1, 3, 2), torch.tensor([[0.5, 0.0, 0.25]])
    state = MemoryState(V, s)
    assert state.equal(MemoryState(V[:, [0, 2]], s[:, [0, 2]]))
    assert not state.equal(MemoryState(V[:, [2, 0]], s[:, [2, 0]]))
    assert not state.equal(MemoryState(V[:, :2], s[:, :2]))
    assert not state.equal(MemoryState(V[:, :, :1], s))


@KINDS
@torch.no_grad()
def test_states_survive_copying_and_pickling(kind: str) -> None:
    given = sample(kind, "random", 8)
    memory = PAPER[kind](4)
    for state in (
        memory(*given.leaves[:3])[1],
        memory.step(*(x[0] for x in given.leaves[:3]))[1],
    ):
        assert copy.deepcopy(state).equal(state)
        assert pickle.loads(pickle.dumps(state)).equal(state)


@torch.no_grad()
def test_two_threads_may_step_from_the_same_state() -> None:
    given = sample("stack", "random", 300, N=0)
    memory = PAPER["stack"](4)
    start = memory.step(*(x[0] for x in given.leaves[:3]))[1]
    ends: list[MemoryState] = []

    def go() -> None:
        with torch.no_grad():
            state = start
            for t in range(1, 300):
                _, state = memory.step(*(x[t] for x in given.leaves[:3]), state)
            ends.append(state)

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = memory(*given.leaves[:3])[1]
    assert len(ends) == 2
    assert all(end.equal(wanted, atol=1e-12) for end in ends)


@torch.no_grad()
def test_an_old_state_keeps_a_bounded_history() -> None:
    memory = PAPER["stack"](4)
    value, gate = torch.ones(1, 4), torch.full((1,), 0.75)
    _, old = memory.step(value, gate, gate)
    _, state = memory.step(value, gate, gate, old)
    for _ in range(2000):
        _, state = memory.step(value, gate, gate, state)
    links, moment = 0, old._store
    assert isinstance(moment, RingStream)
    while moment.newer is not None:
        moment, links = moment.newer[1], links + 1
    assert 0 < links < 300
    read, _ = memory.step(value, gate, gate, old)  # undoes them, and need not do so again
    torch.testing.assert_close(read, 0.75 * value)
    assert not isinstance(old._store, RingStream)
    torch.testing.assert_close(memory.step(value, gate, gate, old)[0], read)


@KINDS
def test_a_reused_input_buffer_does_not_change_a_state(kind: str) -> None:
    given = sample(kind, "random", 5, N=0)
    memory = PAPER[kind](4)
    buffers = [x.detach().clone() for x in given.leaves[:3]]
    _, state = memory(*buffers)
    wanted = memory(*given.leaves[:3])[1]
    for buffer in buffers:
        buffer.zero_()
    assert state.equal(wanted)
    values = given.values.clone()
    _, state = memory(values, given.push, given.pop)
    values.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place"):
        state.values  # noqa: B018


def test_without_gradients_parameters_may_change_after_a_call() -> None:
    values = torch.rand(4, 2, 3, requires_grad=True)
    before = values.detach().clone()
    with torch.no_grad():
        _, state = PAPER["stack"](3)(values, torch.ones(4, 2), torch.zeros(4, 2))
        values.zero_()
    torch.testing.assert_close(state.values, before.transpose(0, 1))
    assert not state.requires_grad


def test_compact_drops_cells_without_strength() -> None:
    V, s = torch.randn(2, 4, 3), torch.tensor([[0.5, 0, 0, 0.25], [0, 1, 0, 0]])
    state = MemoryState(V, s)
    assert state.compact().strengths.tolist() == [[0.5, 0.25], [1, 0]]
    assert state.compact().equal(state)


@KINDS
@torch.no_grad()
def test_a_nan_gate_poisons_its_row_for_good(kind: str) -> None:
    given = sample(kind, "random", 8, N=2)
    given.push[2, 1] = torch.nan
    memory = PAPER[kind](4, validate=False)
    whole, _ = memory(*given.leaves[:3], given.state)
    first, state = memory(*(x[:4] for x in given.leaves[:3]), given.state)
    second, _ = memory(*(x[4:] for x in given.leaves[:3]), state)
    state, steps = given.state, []
    for t in range(8):
        read, state = memory.step(*(x[t] for x in given.leaves[:3]), state)
        steps.append(read)
    for reads in (whole, torch.cat([first, second]), torch.stack(steps)):
        assert reads[2:, 1].isnan().all()
        assert reads[:2].isfinite().all()
        assert reads[:, [0, 2]].isfinite().all()
