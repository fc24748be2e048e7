"""Where the parts of a trace lie and what colours they have, for pictures that are drawn here.

page/memory.js, page/positions.js, page/view.js and page/colours.js do the same for those drawn in a
browser. Symbols have colours in the order in which they are first read, from blue to pink.
"""

from dataclasses import dataclass
from functools import cache
from math import cos, radians, sin
from typing import NamedTuple

from pushpop.tasks.grammar_task import GrammarTask
from pushpop.tasks.registry import TASKS
from pushpop.viewer.tracing import END, Trace

Rgb = tuple[float, float, float]


class Span(NamedTuple):
    """A cell, or a part of it, from one step up to another, between which it did not change."""

    cell: int
    start: int
    stop: int  # the first step at which it is no longer so
    low: float
    high: float


@dataclass(frozen=True)
class Layout:
    """Everything that has a place in the picture."""

    spans: list[Span]
    seen: list[Span]  # parts that a read comes from, a step each
    windows: list[list[tuple[float, float]]]  # for each end that is read, what it reaches by step
    low: float
    high: float


def lay_out(trace: Trace) -> Layout:
    """Find the places."""
    ends, n_steps = trace.read_ends, len(trace.steps)
    spans: dict[int, list[Span]] = {}
    seen: list[Span] = []
    windows: list[list[tuple[float, float]]] = [[] for _ in ends]
    for t, step in enumerate(trace.steps):
        push = dict(zip(trace.push_ends, step.push, strict=True))
        bottom, top = step.bottom + push.get("bottom", 0.0), step.top - push.get("top", 0.0)
        for cell, strength in step.changed:
            if cell in spans:
                last = spans[cell].pop()
                spans[cell].append(last._replace(stop=t))
                low, high = max(last.low, bottom), min(last.high, top)
            elif trace.cells[cell].end == "top":
                low, high = top, step.top
            else:
                low, high = step.bottom, bottom
            if strength > 0:
                spans.setdefault(cell, []).append(Span(cell, t, n_steps, low, high))
        for end, read, reached in zip(ends, step.reads, windows, strict=True):
            low = max(step.bottom, step.top - 1) if end == "top" else step.bottom
            high = step.top if end == "top" else min(step.top, step.bottom + 1)
            reached.append((low, high))
            for cell, _ in read:
                span = spans[cell][-1]
                seen.append(Span(cell, t, t + 1, max(span.low, low), min(span.high, high)))
    flat = [span for part in spans.values() for span in part]
    lowest = min(0.0, *(step.bottom for step in trace.steps))
    highest = max(1.0, *(step.top for step in trace.steps))
    return Layout(flat, seen, windows, lowest, highest)


def position_range(trace: Trace) -> tuple[int, int]:
    """The lowest and the highest position that holds something at some step; 0 is always there."""
    held = [0, *(place.position for step in trace.steps for place in step.places)]
    return min(held), max(held)


class GateBar(NamedTuple):
    """A gate in the picture."""

    gate: int  # which of a step's gates
    sort: str  # "push" of "push top"
    label: str
    way: int  # 1: drawn upwards, -1: downwards


GateRow = tuple[GateBar, ...]


def gate_rows(trace: Trace) -> list[GateRow]:
    """Push above pop for each end of a memory of intervals; else a row for each gate."""
    bars = [GateBar(k, name.split()[0], name, 1) for k, name in enumerate(trace.gate_names)]
    if trace.picture != "intervals":
        return [(bar,) for bar in bars]
    n_pushes = len(trace.push_ends)
    pushes = dict(zip(trace.push_ends, bars[:n_pushes], strict=True))
    pops = dict(zip(trace.read_ends, bars[n_pushes:], strict=True))
    pops = {end: bar._replace(way=-1) for end, bar in pops.items()}
    if len(pushes) == len(pops) == 1:  # then it goes without saying at which end
        return [(*pushes.values(), *pops.values())]
    return [
        tuple(at[end]._replace(label=f"{end} {at[end].sort}") for at in (pushes, pops) if end in at)
        for end in dict.fromkeys((*pushes, *pops))
    ]


def hues(trace: Trace) -> dict[str, float]:
    """A hue in degrees for every symbol.

    The symbols of the source, or of the line that a language model reads, have hues of their own. A
    target symbol that a grammar has for a source symbol takes its hue. Any other that is written
    but never read from the source takes the hue of what it came from when it was first written: of
    the source symbol that was attended to most, or else of the cell that most of the read was. It
    has one of its own if that is unknown, or is or was written as well.
    """
    outputs = {step.output.symbol for step in trace.steps if step.output}
    line = (step.symbol for step in trace.steps if step.part == "target")
    origins = {symbol: symbol for symbol in trace.source or line}
    for target, source in _twins(trace.task).items():
        if source in origins:
            origins.setdefault(target, source)
    for before, step in zip(trace.steps, trace.steps[1:], strict=False):
        written = step.output.symbol if step.output else END
        if written == END or written in origins:
            continue
        cells = [(weight, cell) for read in before.reads for cell, weight in read]
        attended = [(weight, place) for place, weight in step.attention]
        seen = trace.cells[max(cells)[1]].symbol if cells and trace.source else ""
        seen = trace.source[max(attended)[1]] if attended else seen
        origin = origins.get(seen, written)
        own = origin in outputs or any(origins[other] == origin for other in outputs & {*origins})
        origins[written] = written if own else origin
    row = {symbol: place for place, symbol in enumerate(dict.fromkeys(origins.values()))}
    return {symbol: hue_of(row[origin], len(row)) for symbol, origin in origins.items()}


@cache
def _twins(task: str | None) -> dict[str, str]:
    """Target symbols and the source symbols that a task's grammar writes them for."""
    known = TASKS[task]() if task in TASKS else None
    twins = {}
    for rule in known.grammar.rules if isinstance(known, GrammarTask) else ():
        source, target = (
            [symbol for symbol in side if isinstance(symbol, str)]
            for side in (rule.source, rule.target)
        )
        if len(source) == len(target) == 1:
            twins[target[0]] = source[0]
    return twins


def hue_of(place: int, count: int) -> float:
    """The hue at a place in the row."""
    return (265 - 285 * place / max(1, count - 1)) % 360


def rgb(hue: float | None, bright: bool) -> Rgb:
    """A hue as red, green and blue: bright inside a read's window, pale outside; None is grey."""
    chroma = 0.005 if hue is None else 0.14 if bright else 0.05
    return from_oklch(0.8 if bright else 0.925, chroma, hue or 0.0)


def from_oklch(lightness: float, chroma: float, hue: float) -> Rgb:
    """From OKLCH, in which equal steps of hue look equally far apart."""
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    l_ = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m_ = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s_ = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _gamma(4.0767416621 * l_ - 3.3077115913 * m_ + 0.2309699292 * s_),
        _gamma(-1.2684380046 * l_ + 2.6097574011 * m_ - 0.3413193965 * s_),
        _gamma(-0.0041960863 * l_ - 0.7034186147 * m_ + 1.7076147010 * s_),
    )


def _gamma(linear: float) -> float:
    linear = min(1.0, max(0.0, linear))
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
