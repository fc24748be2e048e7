"""Traces as animated pictures."""

import sys
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from pushpop.errors import InputError
from pushpop.viewer.animate import HOLD, MOST_FRAMES, animation
from pushpop.viewer.catalogue import open_model
from pushpop.viewer.colours import Rgb, hues, rgb
from pushpop.viewer.export import export
from pushpop.viewer.frames import NOW, WIDTH, Moment, Painter
from pushpop.viewer.layout import lay_out
from pushpop.viewer.trace import Trace, generate, trace
from tests.viewer.pages import MEMORIES, told


@pytest.fixture(scope="module")
def reversed_string() -> Trace:
    entry = open_model("reverse-stack")
    return trace(entry.model, generate("reverse", 12, seed=1), name=entry.name, task="reverse")


def opened(data: bytes) -> Image.Image:
    return Image.open(BytesIO(data))


def at(painter: Painter, image: Image.Image, step: int, position: float) -> Rgb:
    """The colour in the column of the present, beside the label."""
    y = painter.memory_top + (painter.high - position) * painter.unit
    x = painter.left + step * painter.column + NOW - 8
    red, green, blue = image.getpixel((round(x), round(y)))
    return red / 255, green / 255, blue / 255


def test_an_animation_is_a_small_gif_that_repeats_and_rests_at_its_end(
    reversed_string: Trace,
) -> None:
    data = animation(reversed_string)
    assert data.startswith(b"GIF89a")
    assert len(data) < 500_000
    image = opened(data)
    assert image.width == WIDTH == 700
    assert image.info["loop"] == 0
    assert image.n_frames > len(reversed_string.steps)
    image.seek(image.n_frames - 1)
    assert image.info["duration"] == HOLD >= 2000
    assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)


def test_the_present_holds_what_the_memory_holds(reversed_string: Trace) -> None:
    painter, colours, spans = (
        Painter(reversed_string),
        hues(reversed_string),
        lay_out(reversed_string).spans,
    )
    for t in (5, 12, 20):
        image, top = painter.frame(Moment(t, "done", 1.0, False, 100)), reversed_string.steps[t].top
        for depth, bright in ((0.3, True), (1.3, False), (2.3, False)):
            (cell,) = (
                one.cell for one in spans
                if one.start <= t < one.stop and one.low <= top - depth < one.high
            )  # fmt: skip
            wanted = rgb(colours[reversed_string.cells[cell].symbol], bright)
            assert at(painter, image, t, top - depth) == pytest.approx(wanted, abs=0.01)


def test_a_push_grows_from_nothing(reversed_string: Trace) -> None:
    painter = Painter(reversed_string)
    white = (1.0, 1.0, 1.0)
    top = reversed_string.steps[5].top - 0.1
    frames = [painter.frame(Moment(5, "push", part, False, 60)) for part in (0.0, 0.5, 1.0)]
    seen = [at(painter, frame, 5, top) == white for frame in frames]
    assert seen == [True, True, False]


@pytest.mark.parametrize("memory", [*MEMORIES, "superposition", "tape", "none"])
def test_every_memory_can_be_animated(memory: str) -> None:
    image = opened(animation(told(memory, 5)))
    assert image.n_frames >= 12


def test_the_same_trace_gives_the_same_animation() -> None:
    traced = told("deque", 3)
    assert animation(traced) == animation(traced)


def test_a_long_trace_has_no_more_frames_than_can_be_sent() -> None:
    data = animation(told("queue", 90))
    assert opened(data).n_frames <= MOST_FRAMES + 1
    assert len(data) < 800_000


def test_without_the_libraries_for_pictures_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "pushpop.viewer.animate")
    with pytest.raises(InputError, match=r"pictures need PIL.*pip install 'pushpop\[plot\]'"):
        export(told("stack", 2), tmp_path / "out.gif")
