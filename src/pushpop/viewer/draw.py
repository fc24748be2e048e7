"""A trace as a picture, with the layout of the page's: symbols, the memories, their gates. The
animation is the same picture, uncovered step by step."""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from math import ceil
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.ticker import MaxNLocator
from PIL import Image

from pushpop.viewer.layout import (
    GateRow,
    Rgb,
    gate_rows,
    hues,
    lay_out,
    position_range,
    rgb,
)
from pushpop.viewer.tracing import Trace, remark

INK, SOFT, LINE, PAPER = "#1c1c22", "#5d5d68", "#dcdad5", "#ffffff"
GATE_COLOURS, WRONG = {"push": "#0b6e75", "pop": "#b4490f"}, "#c01631"  # other gates: SOFT
NOT_SYMBOLS = ("start", "separator")
READABLE = 70  # steps; longer traces show symbols as coloured ticks
NARROW, BROAD = 0.34, 1.1  # inches of a step: with symbols of up to 5 letters, with the longest
WIDEST_FRAME = 1000  # pixels; at least READABLE_DPI an inch
DPI, READABLE_DPI = 130, 75
MOST_FRAMES = 160
STEP, HOLD = 250, 3000  # milliseconds: of a step, of the last frame
PALE = 0.7  # how much of a source symbol is white before it is read
LONGEST_NAME = 20  # letters of a source symbol beside its row of attention
LETTER, LABELLED = 0.056, 0.08  # inches: a letter's width on a band; how thick a band has a label
NAMED = 0.5  # the weight from which on a symbol stands at a position
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "pushpop",
    "svg.fonttype": "none",
    "font.size": 9,
    "text.parse_math": False,  # "$" is a symbol like any other
}
Panel = tuple[float, Callable[[Axes], None]]
"""A part of the picture, as high as so many inches, and what draws it."""


def picture(trace: Trace, kind: str) -> bytes:
    """The picture as a PNG or SVG file; the same trace gives the same bytes."""
    with matplotlib.rc_context(SETTINGS):
        figure = draw(trace)
        FigureCanvasAgg(figure)
        file, when = BytesIO(), {"Date": None} if kind == "svg" else {}
        figure.savefig(file, format=kind, dpi=150, metadata=when, facecolor=PAPER)
    return file.getvalue()


def animation(trace: Trace) -> bytes:
    """The GIF file; it repeats, with a pause at the end. The same trace gives the same bytes."""
    n_steps = len(trace.steps)
    source = sum(step.part != "target" for step in trace.steps)
    with matplotlib.rc_context(SETTINGS):
        figure = draw(trace)
        figure.set_dpi(min(DPI, max(READABLE_DPI, WIDEST_FRAME / figure.get_figwidth())))
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        last = _image(canvas)
        figure.axes[0].set_title(_title(trace), loc="left", color=INK, fontsize=11)
        canvas.draw()
        background, frames = canvas.copy_from_bbox(figure.bbox), []
        for t in range(1, n_steps, ceil(n_steps / MOST_FRAMES)):
            canvas.restore_region(background)
            symbols, *others = figure.axes
            _cover(symbols, t, max(t, source), 1, 2, alpha=PALE)  # still to be read
            _cover(symbols, max(t, source), n_steps, 1, 2)
            _cover(symbols, t, n_steps, 0, 1)
            for ax in others:
                _cover(ax, t, n_steps, *ax.get_ylim())
            frames.append(_image(canvas))
    durations = [STEP if n_steps <= READABLE else STEP // 2] * len(frames)
    colours = _palette([*frames[:1], last])
    first, *rest = (
        frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in [*frames, last]
    )
    file = BytesIO()
    first.save(file, "GIF", save_all=True, append_images=rest, loop=0, disposal=1,
               duration=[*durations, HOLD])  # fmt: skip
    return file.getvalue()


def _image(canvas: Any) -> Image.Image:
    size = canvas.get_width_height()
    return Image.frombytes("RGBA", size, bytes(canvas.buffer_rgba())).convert("RGB")


def _cover(ax: Axes, left: float, right: float, low: float, high: float, alpha: float = 1) -> None:
    """Draw a white box over what is there already."""
    box = Rectangle((left, low), right - left, high - low, color=PAPER, linewidth=1.5, alpha=alpha)
    ax.add_patch(box).set_clip_on(False)
    ax.draw_artist(box)
    box.remove()


def _palette(images: list[Image.Image]) -> Image.Image:
    """At most 256 colours for all of these images. White stays white: it is most of a frame."""
    width, height = images[0].size
    sheet = Image.new("RGB", (width, len(images) * height))
    for number, image in enumerate(images):
        sheet.paste(image, (0, number * height))
    palette = sheet.quantize(256)
    palette.putpalette([255 if part > 250 else part for part in palette.getpalette() or ()])
    return palette


def draw(trace: Trace) -> Figure:
    """Symbols along the top, the memories below them, each above its gates, attention at the
    foot."""
    n_steps, colour, memories = len(trace.steps), _colours(trace), trace.all_memories()
    panels: list[Panel] = [(0.62, partial(_symbols, trace=trace, colour=colour))]
    for number, memory in enumerate(memories, start=1):
        panels += _memory_panels(memory, colour, f" {number}" if trace.others else "")
    attends = any(step.attention for step in trace.steps)
    if attends:
        height = min(2.0, 0.16 * len(trace.source))
        panels.append((height, partial(_attention, trace=trace, colour=colour)))
    heights = [height for height, _ in panels]
    # A line of text under a trace needs a place of its own.
    text = " ".join(dict.fromkeys(filter(None, [*(one.note for one in memories), remark(trace)])))
    longest = max(len(step.symbol) for step in trace.steps)
    column = min(BROAD, max(NARROW, NARROW * longest / 5))
    wide = min(16, max(4.5, 0.9 + column * n_steps))
    below = 0.75 + (0.1 + 0.15 * ceil(len(text) / (15 * wide)) if text else 0)
    figure = Figure(figsize=(wide, sum(heights) + below))
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    bars = [bar for memory in memories for row in gate_rows(memory) for bar in row]
    names = [_cut(symbol, LONGEST_NAME) for symbol in trace.source] if attends else []
    letters = max(map(len, [*names, *(bar.label for bar in bars)]), default=0)
    labels = min(2.0, 0.75 + max(0, letters - 5) / 24 + 0.15 * attends)
    figure.subplots_adjust(left=labels / figure.get_figwidth(), right=0.99, hspace=0.08,
                           bottom=(below - 0.35) / figure.get_figheight(),
                           top=1 - 0.35 / figure.get_figheight())  # fmt: skip
    for ax, (_, paint) in zip(axes, panels, strict=True):
        ax.set_xlim(0, n_steps)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0, colors=SOFT, labelbottom=False)
        paint(ax)
    axes[-1].tick_params(labelbottom=True)
    axes[-1].set_xlabel("step", color=SOFT)
    stride = 1 if n_steps <= 40 else 5 if n_steps <= READABLE else 50
    ticks = [t for t in range(n_steps) if t == 0 or (t + 1) % stride == 0]
    axes[-1].set_xticks([t + 0.5 for t in ticks], [str(t + 1) for t in ticks])
    verdict = {None: "", True: ", all right", False: ", with errors"}[trace.right]
    axes[0].set_title(f"{_title(trace)}{verdict}", loc="left", color=INK, fontsize=11)
    if text:
        figure.text(0.01, 0.02, text, color=SOFT, fontsize=8, va="bottom", wrap=True)
    return figure


def _title(trace: Trace) -> str:
    several = f"{len(trace.others) + 1} memories: " if trace.others else ""
    return f"{trace.model} ({several}{trace.memory})"


Colour = Callable[..., Rgb]


def _colours(trace: Trace) -> Colour:
    """Colours of symbols, by the part of the trace in which they are read; not bright: pale."""
    known = hues(trace)

    def colour(symbol: str, part: str = "", bright: bool = True) -> Rgb:
        return rgb(None if part in NOT_SYMBOLS else known.get(symbol), bright)

    return colour


def _memory_panels(trace: Trace, colour: Colour, number: str) -> list[Panel]:
    """The memory, if it can be drawn, and a row for each end or gate."""
    panels: list[Panel] = []
    if trace.picture == "intervals":
        layout = lay_out(trace)
        height = min(4.6, max(1.2, 0.32 * (layout.high - layout.low)))
        panels.append((height, partial(_bands, trace=trace, colour=colour, number=number)))
    elif trace.picture == "positions":
        low, high = position_range(trace)
        height = min(4.6, max(1.2, 0.3 * (high - low + 1)))
        panels.append((height, partial(_places, trace=trace, colour=colour, number=number)))
    rows = gate_rows(trace)
    height = 0.55 if max(map(len, rows), default=0) == 2 else 0.28
    return panels + [(height, partial(_gates, trace=trace, row=row)) for row in rows]


def _symbols(ax: Axes, trace: Trace, colour: Colour) -> None:
    n_steps, right = len(trace.steps), {True: None, False: WRONG, None: None}
    column = _column(ax, trace)
    shown = max(3, int(15 * column))  # letters
    longest = min(shown, max(len(step.symbol) for step in trace.steps))
    size = min(8.0 if n_steps <= 40 else 6.0, 62 * column / longest)
    for t, step in enumerate(trace.steps):
        rows: list[tuple[float, str, str, str | None]] = [(1.0, step.symbol, step.part, None)]
        if step.output is not None:
            rows.append((0.0, step.output.symbol, "", right[step.output.right]))
        for y, symbol, part, edge in rows:
            ax.add_patch(
                FancyBboxPatch((t + 0.06, y + 0.08), 0.88, 0.84, facecolor=colour(symbol, part),
                               edgecolor=edge or "none", linewidth=1.6,
                               boxstyle="round,pad=0,rounding_size=0.1")
            )  # fmt: skip
            if n_steps <= READABLE:
                text = f"×{symbol}" if edge else symbol
                text = _cut(text, shown + 1)
                ax.text(t + 0.5, y + 0.47, text, ha="center", va="center", fontsize=size,
                        family="monospace", color=INK)  # fmt: skip
    ax.set_ylim(0, 2)
    ax.set_yticks([1.5, 0.5], ["in", "out"])


def _column(ax: Axes, trace: Trace) -> float:
    """The width of a step in inches."""
    return (ax.figure.get_figwidth() - 0.9) / len(trace.steps)  # type: ignore[union-attr]


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _bands(ax: Axes, trace: Trace, colour: Colour, number: str) -> None:
    layout = lay_out(trace)
    thick = len(trace.steps) <= READABLE
    for spans, bright, width in ((layout.spans, False, 0.7 * thick), (layout.seen, True, 0.2)):
        boxes = [_box(span.start, span.stop, span.low, span.high) for span in spans]
        faces = [_of_cell(colour, trace, span.cell, bright) for span in spans]
        edges = faces if bright else PAPER
        ax.add_collection(
            PolyCollection(boxes, facecolors=faces, edgecolors=edges, linewidths=width)
        )
    for windows in layout.windows:
        for edge in zip(*windows, strict=True):
            ax.stairs(edge, baseline=None, color=INK, linewidth=1.1 if thick else 0.6)
    # A band's symbol stands where the band begins, or later, where it is thick enough.
    named: set[int] = set()
    inches = ax.get_position().height * ax.figure.get_figheight() / (layout.high - layout.low)  # type: ignore[union-attr]
    ends = {span.cell: span.stop for span in layout.spans}
    for span in layout.spans if thick else ():
        letters = int((ends[span.cell] - span.start) * _column(ax, trace) / LETTER)
        if span.cell not in named and (span.high - span.low) * inches >= LABELLED and letters > 2:
            named.add(span.cell)
            symbol = _cut(trace.cells[span.cell].symbol, letters)
            ax.text(span.start + 0.12, (span.low + span.high) / 2, symbol, va="center",
                    clip_on=True, fontsize=6.5, family="monospace", color=INK)  # fmt: skip
    ax.set_ylim(layout.low - 0.05, layout.high + 0.05)
    ax.set_ylabel(f"memory{number}", color=SOFT)


def _of_cell(colour: Colour, trace: Trace, number: int, bright: bool) -> Rgb:
    cell = trace.cells[number]
    return colour(cell.symbol, cell.part, bright)


def _places(ax: Axes, trace: Trace, colour: Colour, number: str) -> None:
    """What lies at each position, as thick as it weighs; position 0, which is read, is bright."""
    boxes, faces = [], []
    low, high = position_range(trace)
    thick = len(trace.steps) <= READABLE and high - low < 40
    gap = 0.06 if thick else 0.0  # between positions
    for t, step in enumerate(trace.steps):
        for position, total, shares in step.places:
            base = position - 0.5 + gap / 2
            unit = (1 - gap) / max(1.0, total)
            rest = max(0.0, total - sum(weight for _, weight in shares))
            bright = position == 0
            parts = [(_of_cell(colour, trace, cell, bright), weight) for cell, weight in shares]
            for face, weight in (*parts, (rgb(None, bright), rest)):
                boxes.append(_box(t, t + 1, base, base + weight * unit))
                faces.append(face)
                base += weight * unit
            if thick and shares and shares[0][1] >= NAMED:
                middle = position - 0.5 + gap / 2 + shares[0][1] * unit / 2
                ax.text(t + 0.5, middle, trace.cells[shares[0][0]].symbol, ha="center",
                        va="center", clip_on=True, fontsize=5.5, family="monospace",
                        color=INK if bright else SOFT)  # fmt: skip
    ax.add_collection(PolyCollection(boxes, facecolors=faces, edgecolors="none", linewidths=0.0))
    if thick:
        edges = [place - 0.5 for place in range(low, high + 2)]
        ax.hlines(edges, 0, len(trace.steps), colors=LINE, linewidths=0.4)
    for edge in (-0.5, 0.5):
        ax.axhline(edge, color=INK, linewidth=1.1 if thick else 0.6)
    ax.set_ylim(low - 0.55, high + 0.55)
    ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.set_ylabel(f"position{number}", color=SOFT)


def _gates(ax: Axes, trace: Trace, row: GateRow) -> None:
    places = [t + 0.5 for t in range(len(trace.steps))]
    width = 0.6 if len(trace.steps) <= READABLE else 1.0
    for bar in row:
        shade = GATE_COLOURS.get(bar.sort, SOFT)
        heights = [bar.way * step.gates[bar.gate] for step in trace.steps]
        ax.bar(places, heights, width, color=shade)
    ax.axhline(0, color=LINE, linewidth=0.8)
    ax.set_ylim(-1.1 if any(bar.way < 0 for bar in row) else 0, 1.1)
    ax.set_yticks([0.6 * bar.way for bar in row], [bar.label for bar in row], fontsize=8)
    for label, bar in zip(ax.get_yticklabels(), row, strict=True):
        label.set_color(GATE_COLOURS.get(bar.sort, SOFT))


def _attention(ax: Axes, trace: Trace, colour: Colour) -> None:
    """A row for each source symbol, as bright as it weighs where something is written."""
    boxes, faces = [], []
    for t, step in enumerate(trace.steps):
        for place, weight in step.attention:
            boxes.append(_box(t, t + 1, place, place + 1))
            pale = (1 - weight) * 0.88
            face = colour(trace.source[place])
            faces.append(tuple(part + (1 - part) * pale for part in face))
    ax.add_collection(PolyCollection(boxes, facecolors=faces, edgecolors=PAPER, linewidths=0.3))
    ax.set_ylim(len(trace.source), 0)
    names = [_cut(symbol, LONGEST_NAME) for symbol in trace.source]
    names = names if len(names) <= 16 else []
    places = [place + 0.5 for place in range(len(names))]
    ax.set_yticks(places, names, fontsize=7, family="monospace")
    ax.set_ylabel("attention", color=SOFT, fontsize=8)


def _box(left: float, right: float, low: float, high: float) -> list[tuple[float, float]]:
    return [(left, low), (right, low), (right, high), (left, high)]
