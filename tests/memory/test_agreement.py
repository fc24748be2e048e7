"""The fast paths against the reference: reads, final state, every gradient, ties."""

import pytest
import torch

from .samples import PAPER, Sample, look_at_everything, relative_error, sample

KINDS = pytest.mark.parametrize("kind", PAPER)
LENGTHS = pytest.mark.parametrize("T", [1, 2, 7, 64, 300])


def run(kind: str, backend: str, given: Sample) -> dict[str, torch.Tensor]:
    """Everything a call gives, by name: reads and the gradient of each input."""
    memory = PAPER[kind](given.values.shape[-1], backend=backend)
    reads, state = memory(given.values, given.push, given.pop, given.state)
    gradients = torch.autograd.grad(look_at_everything(reads, state), given.leaves)
    named = {f"d {name}": g for name, g in zip(given.names, gradients, strict=True)}
    return {"reads": reads.detach(), "loss": look_at_everything(reads, state).detach(), **named}


def worst(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: relative_error(found[name], wanted[name]) for name in wanted}


@KINDS
@LENGTHS
@pytest.mark.parametrize("how", ["random", "saturated", "dyadic", "mixed"])
def test_fused_equals_the_reference_in_float64(kind: str, T: int, how: str) -> None:
    given = sample(kind, how, T)
    errors = worst(run(kind, "fused", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-10, errors


@KINDS
@LENGTHS
@pytest.mark.parametrize("how", ["random", "saturated", "dyadic"])
def test_fused_equals_the_reference_in_float32(kind: str, T: int, how: str) -> None:
    given = sample(kind, how, T, dtype=torch.float32)
    errors = worst(run(kind, "fused", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-5, errors


@KINDS
@LENGTHS
def test_parallel_equals_the_reference_away_from_ties(kind: str, T: int) -> None:
    given = sample(kind, "random", T)
    errors = worst(run(kind, "parallel", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-10, errors


@KINDS
def test_parallel_equals_the_reference_in_float32(kind: str) -> None:
    given = sample(kind, "random", 200, dtype=torch.float32)
    errors = worst(run(kind, "parallel", given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-5, errors


@KINDS
@LENGTHS
@pytest.mark.parametrize("how", ["saturated", "dyadic", "mixed"])
def test_parallel_reads_are_exact_and_gradients_finite_at_ties(kind: str, T: int, how: str) -> None:
    given = sample(kind, how, T)
    found, wanted = run(kind, "parallel", given), run(kind, "reference", given)
    assert relative_error(found["reads"], wanted["reads"]) < 1e-12
    assert relative_error(found["loss"], wanted["loss"]) < 1e-12
    assert all(torch.isfinite(x).all() for x in found.values())


@KINDS
@pytest.mark.parametrize("backend", ["fused", "parallel"])
def test_a_deep_memory_agrees_with_the_reference(kind: str, backend: str) -> None:
    """Hundreds of initial cells, of which a block reaches a few."""
    given = sample(kind, "random", 90, B=2, D=2, N=500)
    errors = worst(run(kind, backend, given), run(kind, "reference", given))
    assert max(errors.values()) < 1e-10, errors


@KINDS
@pytest.mark.parametrize("backend", ["fused", "parallel"])
def test_a_window_of_hundreds_of_cells_agrees_with_the_reference(kind: str, backend: str) -> None:
    """Pushes of 0.002 make a window of 500 cells: nothing may overflow or be cut short."""
    given = sample(kind, "random", 600, B=1, D=2, N=0)
    with torch.no_grad():
        given.push.fill_(0.002)
        given.pop.zero_()
    found, wanted = run(kind, backend, given), run(kind, "reference", given)
    assert relative_error(found["reads"], wanted["reads"]) < 1e-10
    if backend == "fused":  # no pop: for the interval form every step is a tie
        gates = [name for name in wanted if name != "d pop"]
        assert max(relative_error(found[name], wanted[name]) for name in gates) < 1e-9


@KINDS
@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
def test_gradcheck(kind: str, backend: str) -> None:
    given = sample(kind, "random", 9, B=2, D=2, N=2)
    memory = PAPER[kind](2, backend=backend)

    def call(*leaves: torch.Tensor) -> torch.Tensor:
        return look_at_everything(*memory(*leaves[:3], Sample(*leaves).state))

    assert torch.autograd.gradcheck(call, given.leaves)


@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
@pytest.mark.parametrize("how", ["random", "dyadic"])
def test_a_deque_with_an_idle_bottom_is_a_stack(backend: str, how: str) -> None:
    given = sample("stack", how, 40)
    stacked = PAPER["stack"](4, backend=backend)(*given.leaves[:3], given.state)
    idle = torch.zeros_like(given.push)
    dequed = PAPER["deque"](4, backend=backend)(
        torch.stack([given.values, torch.randn_like(given.values)], 2),
        torch.stack([given.push, idle], 2),
        torch.stack([given.pop, idle], 2),
        given.state,
    )
    torch.testing.assert_close(dequed[0][:, :, 0], stacked[0])
    assert dequed[1].equal(stacked[1], atol=1e-12)


@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
@pytest.mark.parametrize("how", ["random", "dyadic"])
def test_a_deque_pushed_at_the_top_and_popped_at_the_bottom_is_a_queue(
    backend: str, how: str
) -> None:
    given = sample("queue", how, 40)
    queued = PAPER["queue"](4, backend=backend)(*given.leaves[:3], given.state)
    idle = torch.zeros_like(given.push)
    dequed = PAPER["deque"](4, backend=backend)(
        torch.stack([given.values, torch.randn_like(given.values)], 2),
        torch.stack([given.push, idle], 2),
        torch.stack([idle, given.pop], 2),
        given.state,
    )
    torch.testing.assert_close(dequed[0][:, :, 1], queued[0])
    assert dequed[1].equal(queued[1], atol=1e-12)


@KINDS
@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
def test_the_gradient_of_pops_is_zero_if_each_empties_the_memory(kind: str, backend: str) -> None:
    given = sample(kind, "random", 30, N=0)
    with torch.no_grad():
        given.push.mul_(0.45)
        given.pop.fill_(0.95)
    assert (run(kind, backend, given)["d pop"] == 0).all()


@KINDS
def test_nan_gates_are_not_swallowed(kind: str) -> None:
    given = sample(kind, "random", 6)
    with torch.no_grad():
        given.pop[2, 1] = torch.nan
    reads, _ = PAPER[kind](4)(*given.leaves[:3])
    assert reads[2:, 1].isnan().all()
    assert reads[:, [0, 2]].isfinite().all()
    assert reads[:2].isfinite().all()


@KINDS
@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
@pytest.mark.parametrize("gate", ["push", "pop"])
@pytest.mark.parametrize("at", [0, 20, 299])
def test_from_a_nan_gate_on_all_reads_of_its_row_are_nan(
    kind: str, backend: str, gate: str, at: int
) -> None:
    given = sample(kind, "random", 300, B=2, D=2)
    with torch.no_grad():
        getattr(given, gate)[at, 1].view(-1)[-1] = torch.nan  # of a deque: the bottom's
    memory = PAPER[kind](2, backend=backend, validate=False)
    reads, state = memory(*given.leaves[:3])
    assert reads[at:, 1].isnan().all()
    assert reads[:at, 1].isfinite().all()
    assert reads[:, 0].isfinite().all()
    good = [x[:50].detach().nan_to_num() for x in given.leaves[:3]]
    with torch.no_grad():
        stepped = memory.step(*(x[0] for x in good), state)[1]
    for after in (state, stepped):
        later, _ = memory(*good, after)
        assert later[:, 1].isnan().all()
        assert later[:, 0].isfinite().all()


@KINDS
def test_a_nan_gate_shows_in_half_precision(kind: str) -> None:
    given = sample(kind, "random", 200, dtype=torch.bfloat16)
    with torch.no_grad():
        given.push[30, 1] = torch.nan
    reads, _ = PAPER[kind](4)(*given.leaves[:3])
    assert reads[30:, 1].isnan().all()
    assert reads[:30].isfinite().all()
    assert reads[:, [0, 2]].isfinite().all()


@KINDS
@pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
def test_a_nan_in_the_middle_of_a_state_is_kept(kind: str, backend: str) -> None:
    given = sample(kind, "random", 3, B=2, N=4)
    with torch.no_grad():
        given.first_strengths[1] = torch.tensor([0.5, torch.nan, 0.2, 0.0])
    memory = PAPER[kind](4, backend=backend, validate=False)
    assert memory(*given.leaves[:3], given.state)[0][:, 1].isnan().all()
    with torch.no_grad():
        state, values = given.state, [x[0] for x in given.leaves[:3]]
        for _ in range(3):
            read, state = memory.step(*values, state)
            assert read[1].isnan().all()
            assert read[0].isfinite().all()
