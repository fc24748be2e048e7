"""Where the parts of a trace lie, for pictures that are drawn here.

page/memory.js, page/positions.js and page/view.js do the same for those drawn in a browser.
"""

from dataclasses import dataclass
from typing import NamedTuple

from pushpop.viewer.trace import Trace


class Span(NamedTuple):
    """A cell from one step up to another between which it did not change."""

    cell: int
    start: int
    stop: int  # the first step at which it is no longer so
    low: float
    high: float


class Seen(NamedTuple):
    """A part of a cell that a read comes from at a step."""

    step: int
    cell: int
    low: float
    high: float


class Window(NamedTuple):
    """What a read reaches at a step."""

    step: int
    low: float
    high: float


@dataclass(frozen=True)
class Layout:
    """Everything that has a place in the picture."""

    spans: list[Span]
    seen: list[Seen]
    windows: list[list[Window]]  # for each end that is read
    low: float
    high: float


def lay_out(trace: Trace) -> Layout:
    """Find the places."""
    ends, n_steps = trace.read_ends, len(trace.steps)
    spans: dict[int, list[Span]] = {}
    seen: list[Seen] = []
    windows: list[list[Window]] = [[] for _ in ends]
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
        for which, (end, read) in enumerate(zip(ends, step.reads, strict=True)):
            low = max(step.bottom, step.top - 1) if end == "top" else step.bottom
            high = step.top if end == "top" else min(step.top, step.bottom + 1)
            windows[which].append(Window(t, low, high))
            for cell, _ in read:
                span = spans[cell][-1]
                seen.append(Seen(t, cell, max(span.low, low), min(span.high, high)))
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
