"""Traces as animated pictures."""

import sys
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from pushpop.errors import InputError
from pushpop.viewer.draw import HOLD, MOST_FRAMES, animation, draw
from pushpop.viewer.export import export
from pushpop.viewer.layout import Rgb, hues, lay_out, rgb
from pushpop.viewer.tracing import Trace, generate, open_model, trace
from tests.viewer.pages import MEMORIES, told


@pytest.fixture(scope="module")
def reversed_string() -> Trace:
    entry = open_model("reverse-stack")
    return trace(entry.model, generate("reverse", 12, seed=1), name=entry.name, task="reverse")


def opened(data: bytes) -> Image.Image:
    return Image.open(BytesIO(data))


def test_an_animation_is_a_small_gif_that_repeats_and_rests_at_its_end(
    reversed_string: Trace,
) -> None:
    data = animation(reversed_string)
    assert data.startswith(b"GIF89a")
    assert len(data) < 500_000
    image = opened(data)
    assert 700 <= image.width <= 1200
    assert image.info["loop"] == 0
    assert image.n_frames == len(reversed_string.steps)
    image.seek(image.n_frames - 1)
    assert image.info["duration"] == HOLD >= 2000
    assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)


class Frames:
    """The frames of an animation, and the places of the memory in them."""

    def __init__(self, trace: Trace) -> None:
        self.image = opened(animation(trace))
        self.figure = draw(trace)
        self.figure.set_dpi(self.image.width / self.figure.get_figwidth())

    def colour(self, frame: int, step: float, position: float) -> Rgb:
        self.image.seek(frame)
        x, y = self.figure.axes[1].transData.transform((step, position))
        place = round(x), round(self.image.height - y)
        red, green, blue = self.image.convert("RGB").getpixel(place)
        return red / 255, green / 255, blue / 255


def test_a_frame_shows_what_the_memory_holds_after_its_step(reversed_string: Trace) -> None:
    frames, colours = Frames(reversed_string), hues(reversed_string)
    spans = lay_out(reversed_string).spans
    for t in (5, 12, 20):
        top = reversed_string.steps[t].top
        for depth, bright in ((0.2, True), (1.3, False), (2.3, False)):
            (cell,) = (
                span.cell for span in spans
                if span.start <= t < span.stop and span.low <= top - depth < span.high
            )  # fmt: skip
            wanted = rgb(colours[reversed_string.cells[cell].symbol], bright)
            seen = frames.colour(t, t + 0.8, top - depth)
            assert seen == pytest.approx(wanted, abs=0.01)


def test_a_frame_shows_nothing_of_later_steps(reversed_string: Trace) -> None:
    frames, white = Frames(reversed_string), (1.0, 1.0, 1.0)
    place = 9.5, 0.5
    assert frames.colour(8, *place) == white
    assert frames.colour(9, *place) != white
    assert frames.colour(frames.image.n_frames - 1, *place) != white


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
    monkeypatch.delitem(sys.modules, "pushpop.viewer.draw")
    with pytest.raises(InputError, match=r"pictures need PIL.*pip install 'pushpop\[plot\]'"):
        export(told("stack", 2), tmp_path / "out.gif")
