"""Colours: the same symbol has one, and what is written can be read."""

import re
from importlib.resources import files

import pytest

from pushpop.viewer.layout import from_oklch, hue_of, hues, rgb
from pushpop.viewer.tracing import END, Example, trace
from tests.models.examples import lively_model

SCRIPT = files("pushpop.viewer").joinpath("page", "colours.js").read_text("utf-8")
CSS = files("pushpop.viewer").joinpath("page", "style.css").read_text("utf-8")
THEMES = {"light": CSS.partition("@media")[0], "dark": CSS.partition("@media")[2]}


def luminance(colour: tuple[float, float, float]) -> float:
    parts = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def variable(theme: str, name: str) -> tuple[float, float, float]:
    found = re.search(rf"--{name}: #(\w\w)(\w\w)(\w\w)", THEMES[theme])
    assert found
    red, green, blue = (int(part, 16) / 255 for part in found.groups())
    return red, green, blue


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["ink", "soft", "push", "pop", "wrong", "right", "focus"])
def test_text_stands_out_from_the_page(theme: str, name: str) -> None:
    assert contrast(variable(theme, name), variable(theme, "paper")) >= 4.5


@pytest.mark.parametrize("bright", [True, False])
def test_dark_text_stands_out_from_every_band(bright: bool) -> None:
    ink = variable("light", "ink")
    for place in range(24):
        assert contrast(ink, rgb(hue_of(place, 24), bright)) >= 7
    assert contrast(ink, rgb(None, bright)) >= 7


def test_text_stands_out_from_every_band_of_the_dark_page() -> None:
    found = re.search(r"bright \? \(dark \? ([\d.]+).*?: dark \? ([\d.]+)", SCRIPT)
    chroma = re.search(r"bright \? ([\d.]+) : dark \? ([\d.]+)", SCRIPT)
    on_bright = re.search(r'ON_BRIGHT = "#(\w\w)(\w\w)(\w\w)"', SCRIPT)
    assert found
    assert chroma
    assert on_bright
    red, green, blue = (int(part, 16) / 255 for part in on_bright.groups())
    texts = (red, green, blue), variable("dark", "ink")
    for text, light, colourful in zip(texts, found.groups(), chroma.groups(), strict=True):
        for place in range(24):
            band = from_oklch(float(light), float(colourful), hue_of(place, 24))
            assert contrast(text, band) >= 6


def test_every_symbol_that_is_read_or_written_has_a_colour() -> None:
    told = trace(lively_model("deque"), Example(tuple("abca")))
    found = hues(told)
    assert list(found)[:3] == ["a", "b", "c"]
    written = {step.output.symbol for step in told.steps if step.output} - {END}
    assert written <= found.keys()
    assert all(0 <= hue < 360 for hue in found.values())
