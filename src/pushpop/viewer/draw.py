"""A trace as a still picture, with the layout of the page's: symbols, bands, gates."""

from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from pushpop.viewer.colours import Rgb, hues, rgb
from pushpop.viewer.layout import Layout, lay_out
from pushpop.viewer.trace import Trace

INK, SOFT, LINE, PAPER = "#1c1c22", "#5d5d68", "#dcdad5", "#ffffff"
PUSH, POP, WRONG = "#0b6e75", "#b4490f", "#c01631"
NOT_SYMBOLS = ("start", "separator")
READABLE = 70  # steps; longer traces show symbols as coloured ticks
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "pushpop",
    "svg.fonttype": "none",
    "font.size": 9,
    "text.parse_math": False,  # "$" is a symbol like any other
}


def picture(trace: Trace, kind: str) -> bytes:
    """The picture as a PNG or SVG file; the same trace gives the same bytes."""
    with matplotlib.rc_context(SETTINGS):
        figure = draw(trace)
        FigureCanvasAgg(figure)
        file, when = BytesIO(), {"Date": None} if kind == "svg" else {}
        figure.savefig(file, format=kind, dpi=150, metadata=when, facecolor=PAPER)
    return file.getvalue()


def draw(trace: Trace) -> Figure:
    """Symbols along the top, the memory below them, push and pop at the foot."""
    n_steps, ends = len(trace.steps), len(trace.steps[0].push)
    layout = lay_out(trace)
    tall = min(4.6, max(1.2, 0.32 * (layout.high - layout.low)))
    heights = [0.62, tall, *[0.55] * ends]
    figure = Figure(figsize=(min(16, max(4.5, 0.9 + 0.34 * n_steps)), sum(heights) + 0.75))
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    labels = 0.75 if ends == 1 else 1.0  # inches
    figure.subplots_adjust(left=labels / figure.get_figwidth(), right=0.99, hspace=0.08,
                           bottom=0.4 / figure.get_figheight(),
                           top=1 - 0.35 / figure.get_figheight())  # fmt: skip
    for ax in axes:
        ax.set_xlim(0, n_steps)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0, colors=SOFT, labelbottom=False)
    colour = _Colours(trace)
    _symbols(axes[0], trace, colour)
    _bands(axes[1], trace, layout, colour)
    for end, ax in enumerate(axes[2:]):
        _gates(ax, trace, end)
    axes[-1].tick_params(labelbottom=True)
    axes[-1].set_xlabel("step", color=SOFT)
    stride = 1 if n_steps <= 40 else 5 if n_steps <= READABLE else 50
    ticks = [t for t in range(n_steps) if t == 0 or (t + 1) % stride == 0]
    axes[-1].set_xticks([t + 0.5 for t in ticks], [str(t + 1) for t in ticks])
    verdict = {None: "", True: ", all right", False: ", with errors"}[trace.right]
    axes[0].set_title(
        f"{trace.model} ({trace.memory}){verdict}", loc="left", color=INK, fontsize=11
    )
    return figure


class _Colours:
    """The colours of symbols and of cells."""

    def __init__(self, trace: Trace) -> None:
        self.cells, self.hues = trace.cells, hues(trace)

    def symbol(self, symbol: str, part: str = "") -> Rgb:
        return rgb(None if part in NOT_SYMBOLS else self.hues.get(symbol), bright=True)

    def cell(self, number: int, bright: bool) -> Rgb:
        cell = self.cells[number]
        return rgb(None if cell.part in NOT_SYMBOLS else self.hues.get(cell.symbol), bright)


def _symbols(ax: Axes, trace: Trace, colour: _Colours) -> None:
    readable = len(trace.steps) <= READABLE
    longest = max(len(step.symbol) for step in trace.steps)
    size = min(8.0, 21 / longest) if len(trace.steps) <= 40 else min(6.0, 14 / longest)
    for t, step in enumerate(trace.steps):
        rows: list[tuple[float, str, Rgb, bool | None]] = [
            (1.0, step.symbol, colour.symbol(step.symbol, step.part), None)
        ]
        if step.output is not None:
            out = step.output
            rows.append((0.0, out.symbol, colour.symbol(out.symbol), out.right))
        for y, symbol, face, right in rows:
            edge = WRONG if right is False else "none"
            ax.add_patch(
                FancyBboxPatch((t + 0.06, y + 0.08), 0.88, 0.84, facecolor=face, edgecolor=edge,
                               boxstyle="round,pad=0,rounding_size=0.1", linewidth=1.6)
            )  # fmt: skip
            if readable:
                shown = f"×{symbol}" if right is False else symbol
                ax.text(t + 0.5, y + 0.47, shown, ha="center", va="center", fontsize=size,
                        family="monospace", color=INK)  # fmt: skip
    ax.set_ylim(0, 2)
    ax.set_yticks([1.5, 0.5], ["in", "out"])


def _bands(ax: Axes, trace: Trace, layout: Layout, colour: _Colours) -> None:
    held = [_box(span.start, span.stop, span.low, span.high) for span in layout.spans]
    faces = [colour.cell(span.cell, bright=False) for span in layout.spans]
    seen = [_box(one.step, one.step + 1, one.low, one.high) for one in layout.seen]
    shades = [colour.cell(one.cell, bright=True) for one in layout.seen]
    thick = len(trace.steps) <= READABLE
    ax.add_collection(PolyCollection(held, facecolors=faces, edgecolors=PAPER,
                                     linewidths=0.7 if thick else 0.0))  # fmt: skip
    ax.add_collection(PolyCollection(seen, facecolors=shades, edgecolors=shades, linewidths=0.2))
    for windows in layout.windows:
        steps = [windows[0].step, *(window.step + 1 for window in windows)]
        for edges in ([w.low for w in windows], [w.high for w in windows]):
            ax.stairs(edges, steps, baseline=None, color=INK, linewidth=1.1 if thick else 0.6)
    if thick:
        _names(ax, trace, layout)
    ax.set_ylim(layout.low - 0.05, layout.high + 0.05)
    ax.set_ylabel("memory", color=SOFT)


def _names(ax: Axes, trace: Trace, layout: Layout) -> None:
    """A band's symbol where the band begins, if it is thick and long enough."""
    named = set()
    for span in layout.spans:
        symbol = trace.cells[span.cell].symbol
        ends = max(one.stop for one in layout.spans if one.cell == span.cell)
        if span.cell in named or span.high - span.low < 0.25 or ends - span.start < 1:
            continue
        named.add(span.cell)
        ax.text(span.start + 0.12, (span.low + span.high) / 2, symbol, va="center", clip_on=True,
                fontsize=6.5, family="monospace", color=INK)  # fmt: skip


def _gates(ax: Axes, trace: Trace, end: int) -> None:
    places = [t + 0.5 for t in range(len(trace.steps))]
    width = 0.6 if len(trace.steps) <= READABLE else 1.0
    ax.bar(places, [step.push[end] for step in trace.steps], width, color=PUSH)
    ax.bar(places, [-step.pop[end] for step in trace.steps], width, color=POP)
    ax.axhline(0, color=LINE, linewidth=0.8)
    ax.set_ylim(-1.1, 1.1)
    where = f"{('top', 'bottom')[end]} " if trace.memory == "deque" else ""
    ax.set_yticks([0.6, -0.6], [f"{where}push", f"{where}pop"], fontsize=8)
    for label, shade in zip(ax.get_yticklabels(), (PUSH, POP), strict=True):
        label.set_color(shade)


def _box(left: float, right: float, low: float, high: float) -> list[tuple[float, float]]:
    return [(left, low), (right, low), (right, high), (left, high)]
