"""Run a model on a source and write down, step by step, what its memory did."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pushpop.errors import InputError
from pushpop.evaluation import without_reads
from pushpop.models import LanguageModel, Tagger, Transducer
from pushpop.models.decoding import Search, fed_back, greedy, log_probabilities
from pushpop.models.saving import find_model, shipped_models
from pushpop.models.text import attention_weights, source_symbols, target_symbols
from pushpop.tasks import batch_rng, get_task
from pushpop.tasks.registry import TASKS
from pushpop.training.run import TRAINING_FILE, RunDirectory, load_trained
from pushpop.viewer.intervals import Amounts, Moment, Place, Shares
from pushpop.viewer.recorder import Recorder, Recording

FORMAT = "pushpop trace 3"
START, SEPARATOR, END = "<s>", "|||", "</s>"
SMALLEST = 0.01  # smaller weights of the attention are left out
BEST = 3  # how many of the likeliest symbols are kept
STRONG = 0.1  # values pushed with less, and reads of less, do not count as a use of the memory
HARDLY = 0.2  # the share of values read later, below which a memory is hardly used
UNNEEDED = (
    "The memory is hardly used here: with zeros in the place of its reads, the model writes "
    "the same."
)


@dataclass(frozen=True)
class TracedCell:
    """A value in the memory, known by the symbol that the model was reading when it wrote it."""

    symbol: str
    part: str  # "start", "source", "separator" or "target"
    step: int  # when it was written
    end: str  # where: "top" or "bottom"; "" of a memory with positions
    strength: float  # it was pushed with; the sum of its weights after that step
    gone: int | None  # the step whose pops took the last of it, or left no weight of 0.01


@dataclass(frozen=True)
class Output:
    """What the model wrote, and what it should have written, if that is known."""

    symbol: str
    probability: float
    best: tuple[tuple[str, float], ...]
    expected: str | None
    right: bool | None


@dataclass(frozen=True)
class TracedStep:
    """A symbol read, what the memory did, and the symbol written, if any."""

    symbol: str
    part: str
    gates: Amounts  # by the trace's gate names
    push: Amounts  # of a memory of intervals, a number for each end
    pop: Amounts
    bottom: float
    top: float
    changed: Shares
    places: tuple[Place, ...]  # of a memory with positions, where it holds something
    reads: tuple[Shares, ...]
    attention: Shares  # of a model that attends to its source: source symbols by number, weights
    output: Output | None


@dataclass(frozen=True)
class Trace:
    """A whole run, from the first symbol read to the last one written, and one memory's part in it.

    Of a model with several memories, `others` are the same run with the further ones.
    """

    model: str
    memory: str
    picture: str  # how the memory is drawn: "none", "intervals" or "positions"
    note: str  # why it is not drawn; else ""
    gate_names: tuple[str, ...]
    push_ends: tuple[str, ...]  # of a memory of intervals
    read_ends: tuple[str, ...]
    reach: int | None  # positions farther from 0 than this are left out; None: none are
    task: str | None
    source: tuple[str, ...]
    target: tuple[str, ...] | None  # the right one, if it is known
    output: tuple[str, ...]
    finished: bool  # False: the limit on the length was hit first
    right: bool | None  # whether output is target
    separators: tuple[str, str]  # between symbols of a source, and of a target, written as text
    without_memory: tuple[str, ...] | None  # the output if reads were 0; None: not tried
    steps: tuple[TracedStep, ...]
    cells: tuple[TracedCell, ...]
    others: tuple["Trace", ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"format": FORMAT, **asdict(self)}

    def all_memories(self) -> tuple["Trace", ...]:
        """The run with each of the model's memories, this one first."""
        return (self, *self.others)

    def source_text(self) -> str:
        """The source as it is typed."""
        return self.separators[0].join(self.source)

    def target_text(self, symbols: Iterable[str]) -> str:
        """The output, or the target, as text."""
        return self.separators[1].join(symbols)


@dataclass(frozen=True, eq=False)
class Entry:
    """A model, the name it goes by, and the task it was trained on, if it says so."""

    name: str
    model: Transducer
    task: str | None


def open_model(text: str) -> Entry:
    """A shipped model by name, a saved model or a training run by its path."""
    path = find_model(text)
    loaded = load_trained(path, "unknown")
    return Entry(path.resolve().name, loaded.model.eval(), _task_of(path, loaded.model))


def open_models(texts: Iterable[str]) -> dict[str, Entry]:
    """Models by name, those that come with the package if none is asked for.

    Of several with the same name, the second is called name-2 and so on.
    """
    entries: dict[str, Entry] = {}
    for text in list(texts) or list(shipped_models()):
        entry = open_model(text)
        name, number = entry.name, 2
        while name in entries:
            name, number = f"{entry.name}-{number}", number + 1
        entries[name] = Entry(name, entry.model, entry.task)
    return entries


def _task_of(path: Path, model: Transducer) -> str | None:
    training = model.metadata.get("training")
    task = training.get("task") if isinstance(training, dict) else model.metadata.get("task")
    if task is None and (path / TRAINING_FILE).exists():
        task = RunDirectory(path).config().task
    return task if isinstance(task, str) else None


@dataclass(frozen=True)
class Example:
    """A source, and its target if that is known."""

    source: tuple[str, ...]
    target: tuple[str, ...] | None = None

    def judged_by(self, task: str | None) -> "Example":
        """With the target that a task of that name has for the source, if none is known."""
        if self.target is not None or task not in TASKS:
            return self
        return Example(self.source, get_task(task).target_of(self.source))


def read_input(model: Transducer, text: str) -> tuple[str, ...]:
    """The symbols of a source, or of a language model's line, written as the model reads text."""
    read = target_symbols if isinstance(model, LanguageModel) else source_symbols
    return tuple(read(model, text))


def generate(task: str, length: int, seed: int) -> Example:
    """A pair of a task: the first that `pushpop sample` prints for that length and seed. What does
    not count in a test is left out."""
    drawn = get_task(task)
    pairs = drawn.scored(drawn.sample(batch_rng(seed, "sample", 0), 1, (length, length)))
    (source, target), symbols = next(iter(pairs)), drawn.vocabulary
    return Example(tuple(symbols.decode_source(source)), tuple(symbols.decode_target(target)))


@torch.no_grad()
def trace(
    model: Transducer,
    example: Example,
    *,
    name: str = "",
    task: str | None = None,
    max_length: int | None = None,
) -> Trace:
    """Decode greedily, as `model.transduce` does, and collect what the memory did.

    A tagger answers at every source symbol or, if it has a blank, at blanks: those in the source,
    and as many after it as a known target has symbols. A language model reads the source of the
    example as a line, and says at every step what comes next.

    A model without a memory gives a trace whose memory is "none", with no cells; a memory that
    cannot be drawn gives one with its gates and a note that says why.
    """
    if isinstance(model, LanguageModel):
        run, example = _read_line(model, example.source), Example(())
    elif isinstance(model, Tagger):
        run = _tag(model, example)
    else:
        run = _transduce(model, example, max_length)
    form, target, between = model.text, example.target, {"chars": "", "spaces": " "}
    separators = (" ", " ") if form is None else (between[form.source], between[form.target])
    run_facts: dict[str, Any] = {
        "model": name,
        "task": task,
        "source": example.source,
        "target": target,
        "output": run.written,
        "finished": run.finished,
        "right": None if target is None else run.finished and run.written == target,
        "separators": separators,
        "without_memory": run.without_memory,
    }
    first, *others = (Trace(**run_facts, **run.part_of(memory)) for memory in run.recorder.finish())
    return replace(first, others=tuple(others))


class _Run:
    """What a model reads and writes, step by step, and the recorder that looks on."""

    def __init__(
        self, model: Transducer, read: list[tuple[str, str]], expected: Sequence[str] | None
    ) -> None:
        self.model, self.symbols, self.expected = model, model.vocabulary, expected
        self.read = read  # symbols and parts
        self.recorder = Recorder(model)
        self.outputs: list[Output | None] = []
        self.ids: list[int] = []  # of what was written
        self.written: tuple[str, ...] = ()
        self.finished = True
        self.attention: list[Shares] = []  # at each step that writes
        self.without_memory: tuple[str, ...] | None = None

    def step(self, logits: Tensor, state: Any, writes: bool) -> Output | None:
        """Record a step."""
        self.recorder.step(state)
        self.outputs.append(self._write(logits) if writes else None)
        return self.outputs[-1]

    def steps(self, inputs: Sequence[int], asked: Sequence[bool]) -> None:
        """Read all inputs, and write at those that ask for it."""
        state = None
        for input_id, writes in zip(inputs, asked, strict=True):
            logits, state = self.model.step(_ids(self.model, input_id), state)
            self.step(logits, state, writes)

    def _write(self, logits: Tensor) -> Output:
        """Choose the likeliest symbol."""
        chances = log_probabilities(logits)[0].exp()
        likeliest = chances.topk(min(BEST, len(chances)))
        chosen, probabilities = likeliest.indices.tolist(), likeliest.values.tolist()
        if not all(map(isfinite, probabilities)):
            raise InputError("the model's outputs are not numbers: its weights are damaged")
        expected = None
        if self.expected is not None:
            expected = self.expected[min(len(self.ids), len(self.expected) - 1)]
        self.ids.append(int(chances.argmax()))
        symbol = self._spell(self.ids[-1])
        judged = expected is not None and not isinstance(self.model, LanguageModel)
        right = symbol == expected if judged else None  # a line could go on in other ways
        best = tuple(zip(map(self._spell, chosen), probabilities, strict=True))
        return Output(symbol, float(chances.max()), best, expected, right)

    def _spell(self, output_id: int) -> str:
        if isinstance(self.model, Tagger):
            return self.symbols.target[output_id]
        return (self.symbols.decode_output([output_id]) or [END])[0]

    def part_of(self, memory: Recording) -> dict[str, Any]:
        """What one memory adds to a trace."""
        names = ("memory", "picture", "note", "gate_names", "push_ends", "read_ends", "reach")
        cells = (
            TracedCell(*self.read[value.step], value.step, value.end, value.strength, value.gone)
            for value in memory.written
        )
        facts = {name: getattr(memory, name) for name in names}
        return {**facts, "steps": tuple(self._told(memory)), "cells": tuple(cells)}

    def _told(self, memory: Recording) -> Iterator[TracedStep]:
        n_pushes, attention = len(memory.push_ends), iter(self.attention)
        for t, ((symbol, part), output) in enumerate(zip(self.read, self.outputs, strict=True)):
            gates = memory.gates[t] if memory.gates else ()
            at_ends = gates if n_pushes else ()
            yield TracedStep(
                symbol=symbol,
                part=part,
                gates=gates,
                push=at_ends[:n_pushes],
                pop=at_ends[n_pushes:],
                attention=() if output is None else next(attention, ()),
                output=output,
                **vars(memory.moments[t] if memory.moments else Moment()),
            )


def _transduce(model: Transducer, example: Example, max_length: int | None) -> _Run:
    """Read the source, then write until the end symbol or the limit."""
    symbols, numbers = model.vocabulary, model.vocabulary.encode_source(example.source)
    inputs = [symbols.SOS, *(numbers + symbols.source_input_start).tolist(), symbols.SEP]
    source = [(symbol, "source") for symbol in example.source]
    expected = None if example.target is None else [*example.target, END]
    run = _Run(model, [(START, "start"), *source, (SEPARATOR, "separator")], expected)
    limit = 2 * len(example.source) + 50 if max_length is None else max_length
    state, output = None, None
    for logits, state in model.reading(_ids(model, *inputs)[:, None]):
        output = run.step(logits, state, len(run.outputs) + 1 == len(inputs))
    while output is not None and run.ids[-1] != symbols.EOS and len(run.ids) <= limit:
        run.read.append((output.symbol, "target"))
        fed = int(fed_back(symbols, torch.tensor(run.ids[-1])))
        logits, state = model.step(_ids(model, fed), state)
        output = run.step(logits, state, writes=True)
    run.written = tuple(symbols.decode_output(run.ids)[:limit])
    run.finished = run.ids[-1] == symbols.EOS
    if run.recorder.layers and model.source is not None:
        # A model that has another way to its source may not need its memory.
        blind = without_reads(model)
        assert blind is not None
        run.without_memory = greedy(blind, [numbers.tolist()], Search(max_length=limit))[0].symbols
    if model.config.attention:
        for weights in attention_weights(model, example.source, run.ids):
            chosen = (weights >= SMALLEST).nonzero()[:, 0]
            shares = zip(chosen.tolist(), weights[chosen].tolist(), strict=True)
            run.attention.append(tuple(shares))
    return run


def _tag(model: Tagger, example: Example) -> _Run:
    """Write while reading: at every symbol, or at the blanks. A known target has as many."""
    source = model.source_for(example.source, len(example.target or ()))
    asked = model.answers_at(source)
    model.check_answers(source)
    if example.target is not None and len(example.target) != sum(asked):
        raise InputError(
            f"the target has {len(example.target)} symbols, expected {sum(asked)}: one for each "
            f"{'symbol' if model.vocabulary.blank is None else 'blank'} of the source"
        )
    parts = ["target" if symbol == model.vocabulary.blank else "source" for symbol in source]
    run = _Run(model, list(zip(source, parts, strict=True)), example.target)
    numbers = model.vocabulary.encode_source(source) + model.vocabulary.source_input_start
    run.steps(numbers.tolist(), asked)
    run.written = tuple(model.vocabulary.decode_target(run.ids))
    return run


def _read_line(model: LanguageModel, line: Sequence[str]) -> _Run:
    """Read a line; at every step the likeliest next symbols, beside the one that comes."""
    symbols, numbers = model.vocabulary, model.encode_line(line)
    run = _Run(model, [(START, "start"), *((x, "target") for x in line)], [*line, END])
    inputs = [symbols.SOS, *(number + symbols.target_input_start for number in numbers)]
    run.steps(inputs, [True] * len(inputs))
    run.written = tuple(line)
    return run


def _ids(model: Transducer, *input_ids: int) -> Tensor:
    return torch.tensor(input_ids, device=model.output_table.weight.device)


def remark(trace: Trace) -> str:
    """A sentence or two about a memory that is hardly used, or "".

    Of a model that has another way to its source, what it writes without its memory decides; of
    others, how much of what was pushed is read at a later step.
    """
    if trace.without_memory is not None:
        return UNNEEDED if trace.without_memory == trace.output and trace.output else ""
    if trace.picture == "none" or len(trace.source) < 2:
        return ""
    later = set()  # steps whose symbols are read again
    for memory in trace.all_memories():
        kept = [cell.part == "source" and cell.strength >= STRONG for cell in memory.cells]
        for t, step in enumerate(memory.steps):
            strong = {cell for read in step.reads for cell, weight in read if weight >= STRONG}
            later |= {memory.cells[cell].step for cell in strong if kept[cell]} - {t}
    if len(later) >= HARDLY * len(trace.source):
        return ""
    return (
        f"The memory is hardly used here: of {len(trace.source)} symbols read, {len(later)} "
        f"{'was' if len(later) == 1 else 'were'} pushed and read again later."
    )
