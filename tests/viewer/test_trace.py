"""A trace tells what the memory did, with the numbers of the paper's equations."""

import json

import pytest
import torch

from pushpop.errors import InputError
from pushpop.layers import LayeredState, MemoryRNN
from pushpop.memory import NeuralDeque, NeuralQueue, NeuralStack
from pushpop.memory.backends import reference
from pushpop.viewer.intervals import Replay
from pushpop.viewer.tracing import END, Example, Trace, generate, trace
from tests.models.examples import lively_model, small_model

MEMORIES = ["stack", "queue-gru", "deque"]
SOURCES = ["", "a", "a b c", "c a b b a c " * 6]


def example(text: str, target: str | None = None) -> Example:
    return Example(tuple(text.split()), None if target is None else tuple(target.split()))


def dense(told: Trace) -> tuple[torch.Tensor, torch.Tensor]:
    """Strengths after each step [T, N] and read weights [T, ends, N], from the trace."""
    strengths = torch.zeros(len(told.steps), len(told.cells), dtype=torch.float64)
    weights = torch.zeros(len(told.steps), len(told.steps[0].reads), len(told.cells)).double()
    for t, step in enumerate(told.steps):
        if t:
            strengths[t] = strengths[t - 1]
        for cell, strength in step.changed:
            strengths[t, cell] = strength
        for end, read in enumerate(step.reads):
            for cell, weight in read:
                weights[t, end, cell] = weight
    return strengths, weights


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("body", MEMORIES)
@pytest.mark.parametrize("text", SOURCES, ids=["empty", "one", "three", "long"])
def test_strengths_and_reads_equal_the_references(body: str, text: str, dtype: torch.dtype) -> None:
    told = trace(lively_model(body).to(dtype), example(text))
    kind, n_steps, n_cells = told.memory, len(told.steps), len(told.cells)
    ends = n_cells // n_steps
    push, pop = (
        torch.tensor([getattr(step, gate) for step in told.steps], dtype=dtype)
        for gate in ("push", "pop")
    )
    values = torch.eye(n_cells, dtype=dtype).reshape(n_steps, 1, ends, n_cells)
    V, s = torch.zeros(1, 0, n_cells, dtype=dtype), torch.zeros(1, 0, dtype=dtype)
    strengths, weights = dense(told)
    for t in range(n_steps):
        V, s, read = reference.STEPS[kind](V, s, values[t], push[t][None], pop[t][None])
        in_order = torch.zeros(n_cells, dtype=dtype).scatter(0, V[0].argmax(-1), s[0])
        assert torch.equal(strengths[t], in_order.double()), t
        assert torch.equal(weights[t], read[0].double()), t


@pytest.mark.parametrize("body", MEMORIES)
def test_strengths_and_reads_are_those_the_model_had(body: str) -> None:
    model = lively_model(body)
    told = trace(model, example("a b c c b a b"))
    strengths, weights = dense(told)
    ids = [0, *(model.vocabulary.encode_source(told.source) + 2).tolist(), 1]
    values, state = [], None
    assert isinstance(model.body, MemoryRNN)
    for t, input_id in enumerate(ids):
        _, state = model.step(torch.tensor([input_id]), state)
        values.append(model.body.controls(state.parts[0])[0].detach().reshape(-1, 4))
        read = weights[t][:, : len(torch.cat(values))] @ torch.cat(values)
        torch.testing.assert_close(read, state.read.detach().reshape(-1, 4))
        held = state.memory.strengths.detach()[0]
        live = strengths[t][strengths[t] > 0]
        torch.testing.assert_close(held[held > 0].sort().values, live.sort().values)


@pytest.mark.parametrize("body", [*MEMORIES, "lstm-1"])
@pytest.mark.parametrize("max_length", [None, 0, 3])
def test_a_trace_writes_what_the_model_writes(body: str, max_length: int | None) -> None:
    model = lively_model(body)
    for text in SOURCES:
        told = trace(model, example(text), max_length=max_length)
        ((decoded,),) = model.decode([text], max_length=max_length)
        assert told.output == decoded.symbols
        assert told.finished == decoded.finished
        assert (told.steps[-1].output.symbol == END) == decoded.finished  # type: ignore[union-attr]


def test_figure_1a_of_the_paper() -> None:
    stack, told = Replay(NeuralStack.push_ends, NeuralStack.read_ends), []
    for push, pop in ((0.8, 0.0), (0.5, 0.1), (0.9, 0.9)):
        told.append(stack.step([push], [pop]))
    numbers = [[(cell, round(x, 9)) for cell, x in moment.reads[0]] for moment in told]
    assert numbers == [[(0, 0.8)], [(0, 0.5), (1, 0.5)], [(0, 0.1), (2, 0.9)]]
    cuts = [[(cell, round(x, 9)) for cell, x in moment.changed] for moment in told]
    assert cuts == [[(0, 0.8)], [(0, 0.7), (1, 0.5)], [(0, 0.3), (1, 0), (2, 0.9)]]


def test_a_queue_moves_up_the_line_and_a_deque_both_ways() -> None:
    queue = Replay(NeuralQueue.push_ends, NeuralQueue.read_ends)
    deque = Replay(NeuralDeque.push_ends, NeuralDeque.read_ends)
    for _ in range(3):
        queue.step([1.0], [0.0])
        deque.step([0.5, 1.0], [0.0, 0.0])
    after_queue, after_deque = queue.step([0.5], [1.25]), deque.step([0.0, 0.0], [0.25, 0.5])
    assert (after_queue.bottom, after_queue.top) == (1.25, 3.5)
    assert (after_deque.bottom, after_deque.top) == (-2.5, 1.25)


def test_a_cell_tells_when_it_was_pushed_and_when_it_was_gone() -> None:
    told = trace(lively_model("stack"), example("a b c"))
    assert [cell.symbol for cell in told.cells] == [step.symbol for step in told.steps]
    strengths, _ = dense(told)
    for number, cell in enumerate(told.cells):
        assert cell.strength == strengths[cell.step, number]
        life = (strengths[cell.step :, number] > 0).sum().item()
        assert cell.gone is None or cell.gone == cell.step + life
        assert cell.gone is not None or strengths[-1, number] > 0


def test_errors_are_marked_where_the_target_is_known() -> None:
    model = lively_model("stack")
    said = trace(model, example("a b c")).output
    wrong = ["y" if symbol == "x" else "x" for symbol in said[:1]]
    told = trace(model, example("a b c", " ".join([*wrong, *said[1:]])))
    marks = [step.output.right for step in told.steps if step.output is not None]
    assert marks == [False] + [True] * (len(said) - 1 + told.finished)
    assert told.right is False
    assert trace(model, example("a b c", " ".join(said))).right is told.finished
    assert trace(model, example("a b c")).right is None


def test_the_likeliest_symbols_are_told_with_their_probabilities() -> None:
    told = trace(small_model("queue-gru"), example("a b"))
    for step in told.steps[3:]:
        assert step.output is not None
        assert step.output.best[0] == (step.output.symbol, step.output.probability)
        assert sum(p for _, p in step.output.best) == pytest.approx(1)  # three classes in all
    assert all(step.output is None for step in told.steps[:3])


def test_a_model_without_a_memory_has_no_cells() -> None:
    told = trace(lively_model("lstm-3"), example("a b"))
    assert told.memory == "none"
    assert told.cells == ()
    assert told.output == tuple(lively_model("lstm-3").transduce(["a b"])[0].split())


def test_a_model_without_a_memory_says_why_there_is_no_picture() -> None:
    told = trace(lively_model("lstm-1"), example("a b"))
    assert (told.memory, told.picture, told.others) == ("none", "none", ())
    assert "no memory" in told.note
    assert all(step.gates == () for step in told.steps)


@pytest.mark.parametrize("body", ["heads-2", "layers-2", "memories-2"])
def test_each_of_several_memories_is_told_with_the_strengths_that_it_had(body: str) -> None:
    model = lively_model(body)
    told = trace(model, example("a b c c b a b"), max_length=0)
    assert len(told.all_memories()) == 2
    ids = [0, *(model.vocabulary.encode_source(told.source) + 2).tolist(), 1]
    state = None
    for input_id in ids:
        _, state = model.step(torch.tensor([input_id]), state)
    layers = state if isinstance(state, LayeredState) else [state]
    wanted = [row.detach() for layer in layers for row in layer.memory.strengths]
    for memory, strengths in zip(told.all_memories(), wanted, strict=True):
        assert [step.output for step in memory.steps] == [step.output for step in told.steps]
        live = dense(memory)[0][-1]
        torch.testing.assert_close(
            live[live > 0].sort().values, strengths[strengths > 0].sort().values
        )
    assert told.steps[2].gates != told.others[0].steps[2].gates


def test_a_trace_is_json() -> None:
    told = trace(lively_model("deque"), example("a b c", "x"), name="mine", task="own")
    data = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    assert data["format"] == "pushpop trace 3"
    assert data["model"] == "mine"
    assert len(data["steps"][0]["push"]) == len(data["steps"][0]["reads"]) == 2


def test_an_example_of_a_task_is_the_one_that_sample_prints() -> None:
    drawn = generate("reverse", 6, seed=3)
    assert drawn.target == drawn.source[::-1]
    assert len(drawn.source) == 6
    assert generate("reverse", 6, seed=3) == drawn


def test_an_unknown_symbol_is_named() -> None:
    with pytest.raises(InputError, match="unknown source symbol 'q'"):
        trace(small_model(), example("a q"))


def test_damaged_weights_are_reported() -> None:
    model = small_model()
    torch.nn.init.constant_(model.input_table.weight, float("nan"))
    with pytest.raises(InputError, match="damaged"):
        trace(model, example("a"))
