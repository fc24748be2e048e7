"""A trace of a memory with positions tells which values lie where, and what of them is read."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pushpop.layers import MemoryRNN
from pushpop.memory import MEMORIES
from pushpop.viewer import positions
from pushpop.viewer.export import export
from pushpop.viewer.layout import hues
from pushpop.viewer.tracing import END, Example, Trace, trace
from tests.viewer import toys
from tests.viewer.models import random_model

KINDS = ["superposition", "tape"]
pytestmark = pytest.mark.usefixtures("toy_memories")
SYMBOLS = tuple(f"a{1 + 5 * k % 128}" for k in range(12))


def traced(memory: str, length: int = 12, dtype: torch.dtype = torch.float64) -> Trace:
    return trace(random_model(memory).to(dtype), Example(SYMBOLS[:length]), max_length=length)


def dense(told: Trace) -> tuple[list[dict[int, Tensor]], Tensor]:
    """The weights of all values [T] at each position after each step, and in each read [T, T]: the
    memory run on unit vectors with the gates of the trace."""
    n_steps = len(told.steps)
    memory = MEMORIES[told.memory](n_steps)
    state, held, reads = None, [], []
    for step, value in zip(told.steps, torch.eye(n_steps, dtype=torch.float64), strict=True):
        gates = torch.tensor([step.gates], dtype=torch.float64)
        read, state = memory.run_step(value[None, None], gates, state)
        cells, places = memory.contents(state)
        held.append(dict(zip(places, cells[0], strict=True)))
        reads.append(read[0, 0])
    return held, torch.stack(reads)


@pytest.mark.parametrize("length", [0, 1, 12])
@pytest.mark.parametrize("memory", KINDS)
def test_weights_are_those_of_the_memory_run_on_unit_vectors(memory: str, length: int) -> None:
    told = traced(memory, length)
    held, reads = dense(told)
    for t, step in enumerate(told.steps):
        lying = {position: x for position, x in held[t].items() if x.sum() >= positions.SMALLEST}
        assert {place.position for place in step.places} == lying.keys()
        for place in step.places:
            weights = lying[place.position]
            assert place.total == pytest.approx(float(weights.sum()))
            largest = weights.sort(descending=True).values[: positions.SHARES]
            shown = [weight for _, weight in place.shares]
            assert shown == pytest.approx(largest[largest >= positions.SMALLEST].tolist())
            assert shown == pytest.approx([float(weights[cell]) for cell, _ in place.shares])
        (read,) = step.reads
        wanted = {k: x for k, x in enumerate(reads[t].tolist()) if x >= positions.SMALLEST}
        assert dict(read) == pytest.approx(wanted)
        assert [weight for _, weight in read] == sorted(wanted.values(), reverse=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("memory", KINDS)
def test_the_reads_mixture_is_what_the_model_read(memory: str, dtype: torch.dtype) -> None:
    model = random_model(memory).to(dtype)
    told = trace(model, Example(SYMBOLS), max_length=0)
    symbols = model.vocabulary
    ids = [symbols.SOS, *(symbols.encode_source(SYMBOLS) + symbols.source_input_start).tolist()]
    values, state = [], None
    assert isinstance(model.body, MemoryRNN)
    for t, input_id in enumerate(ids):
        _, state = model.step(torch.tensor([input_id]), state)
        written, gates = model.body.controls(state.parts[0])
        assert told.steps[t].gates == tuple(gates[0].tolist())
        values.append(written.detach()[0, 0])
        mixture = sum(weight * values[cell] for cell, weight in told.steps[t].reads[0])
        left_out = (t + 1) * positions.SMALLEST
        torch.testing.assert_close(mixture, state.read.detach()[0], atol=left_out, rtol=0)


@pytest.mark.parametrize("memory", KINDS)
def test_gates_go_by_the_names_that_the_memory_has_for_them(memory: str) -> None:
    told = traced(memory)
    assert told.picture == "positions"
    assert told.note == ""
    assert told.gate_names == MEMORIES[memory].gate_names
    assert all(sum(step.gates) == pytest.approx(1) for step in told.steps)
    assert all(step.push == step.pop == step.changed == () for step in told.steps)


def test_a_value_comes_with_its_push_on_a_superposition_stack_and_whole_on_a_tape() -> None:
    stack, tape = (traced(memory) for memory in KINDS)
    push = stack.gate_names.index("push")
    assert [cell.strength for cell in stack.cells] == pytest.approx(
        [step.gates[push] for step in stack.steps]
    )
    assert [cell.strength for cell in tape.cells] == pytest.approx([1] * len(tape.steps))


@pytest.mark.parametrize("memory", KINDS)
def test_a_value_is_gone_when_no_position_has_a_hundredth_of_it(memory: str) -> None:
    told = traced(memory)
    held, _ = dense(told)
    for number, cell in enumerate(told.cells):
        assert (cell.step, cell.symbol) == (number, told.steps[number].symbol)
        there = [
            t for t, places in enumerate(held)
            if max(float(x[number]) for x in places.values()) >= positions.SMALLEST
        ]  # fmt: skip
        after = there[-1] + 1 if there else number
        assert cell.gone == (None if after == len(told.steps) else after)


@pytest.mark.parametrize("memory", KINDS)
def test_a_long_trace_is_bounded_near_the_position_that_is_read(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = traced(memory)
    assert whole.reach is None
    size = sum(1 + len(place.shares) for step in whole.steps for place in step.places)
    monkeypatch.setattr(positions, "MOST", size // 2)
    cut = traced(memory)
    assert cut.reach is not None
    for step, all_of_it in zip(cut.steps, whole.steps, strict=True):
        near = [place for place in all_of_it.places if abs(place.position) <= cut.reach]
        assert list(step.places) == near
    assert sum(1 + len(place.shares) for step in cut.steps for place in step.places) <= size // 2


@pytest.mark.parametrize("memory", KINDS)
def test_values_that_are_forgotten_do_not_change_the_others(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model(memory)
    monkeypatch.setattr(positions, "SPARE", 4)
    few = trace(model, Example(SYMBOLS * 4), max_length=20)
    monkeypatch.setattr(positions, "FORGOTTEN", -1.0)
    monkeypatch.setattr(positions, "SPARE", 200)
    everything = trace(model, Example(SYMBOLS * 4), max_length=20)
    for one, other in zip(few.steps, everything.steps, strict=True):
        assert [place.position for place in one.places] == [p.position for p in other.places]
        assert dict(one.reads[0]) == pytest.approx(dict(other.reads[0]), abs=1e-4)


@pytest.mark.parametrize("memory", KINDS)
def test_a_trace_with_positions_is_json_and_every_symbol_has_a_colour(memory: str) -> None:
    told = traced(memory)
    data = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    step = next(step for step in told.steps if step.places)
    position, total, shares = data["steps"][told.steps.index(step)]["places"][0]
    assert (position, total) == step.places[0][:2]
    assert [tuple(share) for share in shares] == list(step.places[0].shares)
    written = {step.output.symbol for step in told.steps if step.output} - {END}
    assert {*told.source, *written} <= hues(told).keys()


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
@pytest.mark.parametrize("memory", [*KINDS, toys.Trail.kind, toys.Lone.kind])
def test_there_is_a_picture_of_each_kind(memory: str, kind: str, tmp_path: Path) -> None:
    told = traced(memory)
    for name in ("one", "two"):
        export(told, tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
    if kind == "svg":
        drawn = (tmp_path / "one.svg").read_text()
        assert all(f">{name}<" in drawn for name in told.gate_names)
        assert (">position<" in drawn) == (told.picture == "positions")
        assert told.note in re.sub("&#x27;|&apos;", "'", drawn)


@pytest.mark.parametrize(
    ("memory", "note"),
    [
        (toys.Trail.kind, "memory 'toy trail' has no picture: only its gates are shown"),
        (toys.TwoValues.kind, "has 2 values and 1 reads a step, and positions are drawn for one"),
        (toys.Squares.kind, "reads something else than the mixture of values that its gates make"),
        (toys.OddEnds.kind, "has 3 gates, not one for each end that is pushed or popped"),
    ],
)
def test_a_memory_without_a_picture_is_traced_with_a_sentence_that_says_so(
    memory: str, note: str
) -> None:
    told = traced(memory, 5)
    assert note in told.note
    assert told.memory == memory
    assert told.picture == "none"
    assert [step.symbol for step in told.steps[1:6]] == list(SYMBOLS[:5])
    assert all(len(step.gates) == len(told.gate_names) for step in told.steps)
    assert told.cells == ()
    assert all(step.places == step.reads == step.push == () for step in told.steps)


def test_a_memory_of_ones_own_with_one_position_is_drawn() -> None:
    told = traced(toys.Lone.kind)
    assert told.picture == "positions"
    keep = [step.gates[0] for step in told.steps]
    assert told.cells[2].strength == pytest.approx(1 - keep[2])
    assert {place.position for step in told.steps for place in step.places} == {0}
