"""Draws any moment of a trace, for an animation: the memory works in a wide column that leaves its
history behind. The rows are those of the still picture: symbols, the memory, gates.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from pushpop.viewer.colours import Rgb, hues, rgb
from pushpop.viewer.draw import GATE_COLOURS, INK, LINE, NAMED, NOT_SYMBOLS, PAPER, SOFT, WRONG
from pushpop.viewer.layout import Layout, Span, gate_rows, lay_out, position_range
from pushpop.viewer.trace import Trace

WIDTH, LEFT, RIGHT = 700, 58, 16  # pixels
NOW = 104  # the width of the column of the present
TALLEST, UNIT = 250, 24  # the memory's height, and that of one unit of strength, at most
IN, OUT, CHIP = 48, 76, 22  # the middles of the rows of symbols, and a symbol's height
GATES = 48  # the height of a row of gates
SCALE = 2  # drawn larger and made smaller, so that edges are smooth
THIN = 0.02  # a push, a pop or a read that is smaller is not shown
SEEN = 0.2  # the least push that a symbol is seen to fly for
Pair = tuple[float, float]
Box = tuple[float, float, float, float]


class Moment(NamedTuple):
    """What a frame shows: a step, and how far its pop or its push has come."""

    step: int
    phase: str  # "pop", "push" or "done"
    part: float  # from 0 to 1
    first: bool  # whether it is the step's first movement
    milliseconds: int


class Painter:
    """Draws any moment of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.hues = trace, hues(trace)
        self.layout = lay_out(trace) if trace.picture == "intervals" else None
        self.low, self.high = _range(trace, self.layout)
        self.unit = min(UNIT, TALLEST / max(1.0, self.high - self.low))
        # A model that reads its own answers has no place for them among its inputs.
        own = trace.steps[0].part == "start"
        self.inputs = _places(not own or one.part != "target" for one in trace.steps)
        self.outputs = _places(one.output is not None for one in trace.steps)
        self.rows = gate_rows(trace)
        longest = max((len(bar.label) for row in self.rows for bar in row), default=0)
        self.left = min(96.0, max(LEFT, 14 + 6.5 * longest))
        self.label_size = min(11.0, (self.left - 14) / max(1.0, 0.58 * longest))
        self.column = (WIDTH - self.left - RIGHT - NOW) / max(1, len(trace.steps) - 1)
        self.memory_top = 112.0
        self.gates_top = self._y(self.low) + 14
        self.height = round(self.gates_top + GATES * len(self.rows) + 12)
        fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
        self.sans, self.mono = (str(fonts / f"DejaVuSans{kind}.ttf") for kind in ("", "Mono"))
        self.fonts: dict[tuple[str, float], ImageFont.FreeTypeFont] = {}
        self.past, self.drawn = self._blank(), 0  # the history of the first steps, and how many

    def _blank(self) -> Image.Image:
        return Image.new("RGB", (WIDTH * SCALE, self.height * SCALE), PAPER)

    def frame(self, moment: Moment) -> Image.Image:
        """One picture. Moments in their order are drawn fastest."""
        t = moment.step
        self._go_on_to(t)
        image = self.past.copy()
        self.on = ImageDraw.Draw(image)
        self._heading(moment)
        self._tape(self.inputs, IN, t, read=True)
        self._tape(self.outputs, OUT, t - (moment.phase == "pop"), read=False)
        now = self._now(moment)
        self.on.rectangle(
            _scaled((now[0] - 1, now[1] - 1, now[2] + 1, now[3] + 1)), None, LINE, SCALE
        )
        self._gate_labels()
        for row in range(len(self.rows)):
            self._gate_bars(row, t, now[0] + 12, now[2] - 12, moment)
        if self.layout is not None:
            self._present_bands(self.layout, moment, now)
            self._flying(moment, now)
        elif self.trace.picture == "positions":
            self._mixtures(t, now[0], now[2], named=True)
            window = self._x(0), self._y(0.5), now[2], self._y(-0.5)
            self.on.rectangle(_scaled(window), None, INK, SCALE)
        return image.reduce(SCALE)

    def _go_on_to(self, t: int) -> None:
        """Draw the history up to a step, from where it ends."""
        if self.drawn > t:
            self.past, self.drawn = self._blank(), 0
        self.on, since = ImageDraw.Draw(self.past), self.drawn
        if self.layout is not None:
            self._past_bands(self.layout, since, t)
        inset = self.column * 0.2 if self.column > 5 else 0
        for past in range(since, t):
            left, right = self._x(past), self._x(past + 1)
            if self.trace.picture == "positions":
                self._mixtures(past, left, right, named=False)
            for row in range(len(self.rows)):
                self._gate_bars(row, past, left + inset, right - inset, None)
        self.drawn = t

    def _heading(self, moment: Moment) -> None:
        told, last = self.trace, len(self.trace.steps)
        memory = "" if told.memory == "none" else f" ({told.memory})"
        self._text(self.left, 20, f"{told.model}{memory}", 15, INK, "lm")
        shown = f"step {moment.step + 1} of {last}"
        if moment.step == last - 1 and moment.phase == "done" and told.right is not None:
            shown = "all right" if told.right else "with errors"
        colour = SOFT if shown != "with errors" else WRONG
        self._text(WIDTH - RIGHT, 20, shown, 12, colour, "rm")

    def _tape(self, steps: dict[int, int], y: float, upto: int, read: bool) -> None:
        """The symbols read, those still to come pale; or those written so far."""
        if not steps:
            return
        self._text(self.left - 10, y, "in" if read else "out", 11, SOFT, "rm")
        for t in steps:
            step = self.trace.steps[t]
            box = self._slot(steps, t, y)
            if read:
                face = rgb(self._hue(step.symbol, step.part), bright=t <= upto)
                self._chip(box, step.symbol, face, INK if t == upto else None, faint=t > upto)
            elif step.output is not None and t <= upto:
                wrong = step.output.right is False
                face = rgb(self.hues.get(step.output.symbol), bright=True)
                self._chip(box, step.output.symbol, face, WRONG if wrong else None)

    def _slot(self, steps: dict[int, int], t: int, y: float) -> Box:
        """A symbol's place in its row; both rows have places of one width."""
        most = max(len(self.inputs), len(self.outputs))
        wide = min(46.0, (WIDTH - self.left - RIGHT) / most)
        x = self.left + steps[t] * wide
        return x + min(1.5, wide / 8), y - CHIP / 2, x + wide - min(1.5, wide / 8), y + CHIP / 2

    def _chip(
        self, box: Box, symbol: str, face: Rgb, edge: str | None, faint: bool = False
    ) -> None:
        radius, line = 4 * SCALE if box[2] - box[0] > 8 else 0, round(1.6 * SCALE) if edge else 0
        self.on.rounded_rectangle(_scaled(box), radius, _whole(face), edge, line)
        self._label(box, symbol, SOFT if faint else INK)

    def _label(self, box: Box, symbol: str, colour: str, largest: float = 12) -> None:
        """A symbol in a box, as large as fits; none where it cannot be read."""
        width, height = box[2] - box[0] - 3, box[3] - box[1] - 1
        size = min(largest, height, width / (0.61 * max(1, len(symbol))))
        if size >= 7:
            middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            self._text(*middle, symbol, round(size), colour, "mm", mono=True)

    def _now(self, moment: Moment) -> Box:
        """The column of the present: it slides on with the first movement of a step."""
        t = moment.step - (1 - moment.part if moment.first and moment.step else 0)
        left = self.left + t * self.column
        return left, self.memory_top, left + NOW, self._y(self.low)

    def _y(self, position: float) -> float:
        return self.memory_top + (self.high - position) * self.unit

    def _past_bands(self, layout: Layout, since: int, t: int) -> None:
        for span in layout.spans:
            start, stop = max(span.start, since), min(span.stop, t)
            if start < stop:
                box = self._x(start), self._y(span.high), self._x(stop), self._y(span.low)
                self._band(box, self._cell(span.cell, bright=False))
        for one in layout.seen:
            if since <= one.step < t:
                left, right = self._x(one.step), self._x(one.step + 1)
                box = left, self._y(one.high), right, self._y(one.low)
                self._band(box, self._cell(one.cell, bright=True), gap=False)

    def _x(self, t: float) -> float:
        return self.left + t * self.column

    def _present_bands(self, layout: Layout, moment: Moment, now: Box) -> None:
        bottom, top = self._ends(moment)
        at = moment.step - (moment.phase == "pop")
        live = [one for one in layout.spans if one.start <= at < one.stop]
        for span in live:
            self._live_band(span, bottom, top, now)
        for end in self.trace.read_ends:
            low = max(bottom, top - 1) if end == "top" else bottom
            high = top if end == "top" else min(top, bottom + 1)
            if high - low > THIN:
                box = (now[0], self._y(high), now[2], self._y(low))
                self.on.rectangle(_scaled(box), None, INK, round(1.6 * SCALE))

    def _live_band(self, span: Span, bottom: float, top: float, now: Box) -> None:
        low, high = max(span.low, bottom), min(span.high, top)
        if high - low <= 1e-6:
            return
        windows = [(top - 1, top) if end == "top" else (bottom, bottom + 1)
                   for end in self.trace.read_ends]  # fmt: skip
        self._band((now[0], self._y(high), now[2], self._y(low)), self._cell(span.cell, False))
        for least, most in windows:
            inner, outer = max(low, least), min(high, most)
            if outer - inner > 1e-6:
                box = (now[0], self._y(outer), now[2], self._y(inner))
                self._band(box, self._cell(span.cell, bright=True), gap=False)
        box = (now[0], self._y(high), now[2], self._y(low))
        self._label(box, self.trace.cells[span.cell].symbol, INK, 13)

    def _ends(self, moment: Moment) -> Pair:
        """Where the memory begins and ends while it is popped or pushed."""
        step = self.trace.steps[moment.step]
        push = dict(zip(self.trace.push_ends, step.push, strict=True))
        cut = step.bottom + push.get("bottom", 0.0), step.top - push.get("top", 0.0)
        if moment.phase == "pop":
            before = self.trace.steps[moment.step - 1]
            return _between((before.bottom, before.top), cut, moment.part)
        return _between(cut, (step.bottom, step.top), moment.part)

    def _mixtures(self, t: int, left: float, right: float, named: bool) -> None:
        """What lies at each position after a step."""
        for position, total, shares in self.trace.steps[t].places:
            unit, base = 1 / max(1.0, total), position - 0.5
            rest = max(0.0, total - sum(weight for _, weight in shares))
            parts = [(self._cell(cell, position == 0), weight) for cell, weight in shares]
            for face, weight in (*parts, (rgb(None, position == 0), rest)):
                box = left, self._y(base + weight * unit), right, self._y(base)
                self._band(box, face, gap=False)
                base += weight * unit
            if named and shares and shares[0][1] >= NAMED:
                floor = position - 0.5
                box = left, self._y(floor + shares[0][1] * unit), right, self._y(floor)
                self._label(box, self.trace.cells[shares[0][0]].symbol, INK, 13)

    def _band(self, box: Box, face: Rgb, gap: bool = True) -> None:
        left, top, right, bottom = box
        top += 0.5 if gap and bottom - top > 3 else 0
        self._fill((left, top, right, bottom), _whole(face))

    def _fill(self, box: Box, colour: str | tuple[int, int, int]) -> None:
        """A rectangle without its right and lower edge, so that neighbours do not overlap."""
        left, top, right, bottom = (round(x) for x in _scaled(box))
        if bottom > top:
            self.on.rectangle((left, top, max(left, right - 1), bottom - 1), colour)

    def _gate_line(self, row: int) -> Pair:
        """Where a row's bars stand, and how tall a gate of 1 is."""
        two = any(bar.way < 0 for bar in self.rows[row])
        return self.gates_top + GATES * row + (21 if two else 36), 19 if two else 32

    def _gate_labels(self) -> None:
        for number, row in enumerate(self.rows):
            zero, full = self._gate_line(number)
            self.on.line(_scaled((self.left, zero, WIDTH - RIGHT, zero)), LINE, SCALE)
            for bar in row:
                place = self.left - 10, zero - bar.way * full * 0.55
                colour = GATE_COLOURS.get(bar.sort, SOFT)
                self._text(*place, bar.label, self.label_size, colour, "rm")

    def _gate_bars(
        self, row: int, t: int, left: float, right: float, moment: Moment | None
    ) -> None:
        """The gates of a step; those of the present grow while they act."""
        zero, full = self._gate_line(row)
        for bar in self.rows[row]:
            amount = self.trace.steps[t].gates[bar.gate]
            amount *= 1.0 if moment is None else _acting(bar.sort, moment)
            edge = zero - bar.way * full * amount
            box = left, min(zero, edge), right, max(zero, edge)
            self._fill(box, GATE_COLOURS.get(bar.sort, SOFT))

    def _flying(self, moment: Moment, now: Box) -> None:
        """A symbol on its way from the row of inputs into the memory, or out of it."""
        told, t, step = self.trace, moment.step, self.trace.steps[moment.step]
        if moment.phase == "push" and t in self.inputs and max(step.push) > SEEN:
            end = told.push_ends[step.push.index(max(step.push))]
            height = step.top if end == "top" else step.bottom + 1
            symbol, hue = step.symbol, self._hue(step.symbol, step.part)
            slot, part = self._slot(self.inputs, t, IN), moment.part
        elif moment.phase == "pop" and step.output is not None:
            end = told.read_ends[step.pop.index(max(step.pop))]
            before = told.steps[t - 1]
            height = before.top if end == "top" else before.bottom + 1
            symbol, hue = step.output.symbol, self.hues.get(step.output.symbol)
            slot, part = self._slot(self.outputs, t, OUT), 1 - moment.part
        else:
            return
        (left, top), half = _between(slot[:2], (now[0], self._y(height)), part), slot[2] - slot[0]
        x = left + part * (NOW - half) / 2  # so that its middle comes from and goes to the middle
        self._chip((x, top, x + half, top + CHIP), symbol, rgb(hue, bright=True), INK)

    def _hue(self, symbol: str, part: str) -> float | None:
        return None if part in NOT_SYMBOLS else self.hues.get(symbol)

    def _cell(self, number: int, bright: bool) -> Rgb:
        cell = self.trace.cells[number]
        return rgb(self._hue(cell.symbol, cell.part), bright)

    def _text(
        self, x: float, y: float, text: str, size: float, colour: str, anchor: str,
        mono: bool = False,
    ) -> None:  # fmt: skip
        path = self.mono if mono else self.sans
        if (path, size) not in self.fonts:
            self.fonts[path, size] = ImageFont.truetype(path, size * SCALE)
        line = text.replace("\n", " ")  # Pillow anchors single lines only
        self.on.text((x * SCALE, y * SCALE), line, colour, self.fonts[path, size], anchor)


def _range(trace: Trace, layout: Layout | None) -> Pair:
    if layout is not None:
        return layout.low, layout.high
    low, high = position_range(trace)
    return (low - 0.5, high + 0.5) if trace.picture == "positions" else (0.0, 0.0)


def _between(start: Pair, stop: Pair, part: float) -> Pair:
    low, high = (a + (b - a) * part for a, b in zip(start, stop, strict=True))
    return low, high


def _acting(sort: str, moment: Moment) -> float:
    """How much of a gate is shown: pushes come after pops."""
    if moment.phase == sort:
        return moment.part
    return 0.0 if (sort, moment.phase) == ("push", "pop") else 1.0


def _places(chosen: Iterable[bool]) -> dict[int, int]:
    """The steps that have a place in a row, and which."""
    return {t: k for k, t in enumerate(t for t, one in enumerate(chosen) if one)}


def _scaled(box: Box) -> Box:
    left, top, right, bottom = (x * SCALE for x in box)
    return left, top, right, bottom


def _whole(colour: Rgb) -> tuple[int, int, int]:
    red, green, blue = (round(255 * x) for x in colour)
    return red, green, blue
