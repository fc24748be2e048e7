"""The colours of symbols: in the order in which they are first read, from blue to pink."""

from functools import cache
from math import cos, radians, sin

from pushpop.tasks.grammar_task import GrammarTask
from pushpop.tasks.registry import TASKS
from pushpop.viewer.trace import END, Trace

Rgb = tuple[float, float, float]


def hues(trace: Trace) -> dict[str, float]:
    """A hue in degrees for every symbol.

    A target symbol that a grammar has for a source symbol takes its hue. Any other that is written
    but never read from the source takes the hue of what it came from when it was first written: of
    the source symbol that was attended to most, or else of the cell that most of the read was.
    """
    order = list(dict.fromkeys(trace.source))
    known = {symbol: hue_of(place, len(order)) for place, symbol in enumerate(order)}
    for target, source in _twins(trace.task).items():
        if source in known and target not in known:
            known[target] = known[source]
    for before, step in zip(trace.steps, trace.steps[1:], strict=False):
        written = step.output.symbol if step.output else END
        if written == END or written in known:
            continue
        cells = [(weight, cell) for read in before.reads for cell, weight in read]
        attended = [(weight, place) for place, weight in step.attention]
        seen = trace.cells[max(cells)[1]].symbol if cells else ""
        seen = trace.source[max(attended)[1]] if attended else seen
        known[written] = known.get(seen, hue_of(len(known), len(known) + 1))
    return known


@cache
def _twins(task: str | None) -> dict[str, str]:
    """Target symbols and the source symbols that a task's grammar writes them for."""
    found = TASKS[task]() if task in TASKS else None
    if not isinstance(found, GrammarTask):
        return {}
    pairs = [
        [[one for one in side if isinstance(one, str)] for side in (rule.source, rule.target)]
        for rule in found.grammar.rules
    ]
    return {target[0]: source[0] for source, target in pairs if len(source) == len(target) == 1}


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
