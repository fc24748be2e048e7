"""The page of `pushpop serve` as a new visitor meets it: what it says, addresses, files, phones."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pushpop.viewer.tracing import Entry, open_models
from tests.viewer.conftest import PHONE, listening
from tests.viewer.models import WORDS, line_model, text_model, two_memories
from tests.viewer.pages import Visitor, ready


@pytest.fixture(scope="module")
def own_data() -> Iterator[str]:
    """Where a server with models of a file of pairs listens, one with a memory that stays empty."""
    models = {
        "attends": Entry("attends", text_model(), "pairs.tsv"),
        "idle": Entry("idle", text_model(push=-20.0), "pairs.tsv"),
        "lines": Entry("lines", line_model(), "lines.txt"),
        "two": Entry("two", two_memories(), "words.tsv"),
    }
    with listening(models=models) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def trained() -> Iterator[str]:
    """Where a server with two of the shipped models listens."""
    with listening(models=open_models(["copy-queue", "reverse-stack"])) as port:
        yield f"http://127.0.0.1:{port}"


def title(page: Page, text: str) -> None:
    expect(page.locator("#page-models .panel .title").first).to_have_text(text)


def step(page: Page, text: str) -> None:
    expect(page.locator("#page-models .what .count").first).to_contain_text(text)


def test_the_page_opens_on_a_stack_that_reverses_and_says_what_is_seen(
    visit: Visitor, trained: str
) -> None:
    page = ready(visit, trained)
    title(page, "reverse-stack")
    expect(page.locator("#page-models .verdict")).to_contain_text("all right")
    expect(page.locator("header.page p")).to_contain_text("every band is a value")
    expect(page.locator("#hint")).to_contain_text("reverse: The source read from its end.")
    marks = page.locator("#page-models .marks")
    for text in ("<s> the start", "||| the input ends", "</s> the answer ends", "p how probable"):
        expect(marks).to_contain_text(text)


def test_there_are_links_to_the_documentation_and_the_paper(visit: Visitor, trained: str) -> None:
    page = ready(visit, trained)
    links = page.locator(".links.head a")
    expect(links.first).to_have_attribute("href", "docs/viewer.md")
    expect(links.last).to_have_attribute("href", "https://arxiv.org/abs/1506.02516")
    links.first.click()
    expect(page.locator("h1")).to_have_text("Seeing the memory work")


def test_an_address_shows_a_model_an_input_and_a_step(visit: Visitor, trained: str) -> None:
    page = ready(visit, f"{trained}/#model=copy-queue&input=a3+a1+a4&step=2")
    title(page, "copy-queue")
    assert page.locator("#input").input_value() == "a3 a1 a4"
    step(page, "Step 2 of")
    expect(page.locator("#page-models .verdict")).to_contain_text("all right")


def test_the_address_follows_what_is_shown(visit: Visitor, trained: str) -> None:
    page = ready(visit, trained)
    page.locator("#input").fill("a3 a1")
    page.locator("#run").click()
    page.wait_for_url(re.compile(r"model=reverse-stack&input=a3\+a1&step=4"))
    page.locator("#page-models").get_by_label("step on", exact=True).click()
    page.wait_for_url(re.compile(r"step=5"))
    shared = visit(page.url).page
    step(shared, "Step 5 of 6")
    assert shared.locator("#input").input_value() == "a3 a1"


def test_back_leads_to_the_model_before_not_to_the_step_before(
    visit: Visitor, trained: str
) -> None:
    page = ready(visit, trained)
    page.locator("#page-models").get_by_label("first step", exact=True).click()
    page.wait_for_url(re.compile(r"model=reverse-stack.*step=1$"))
    page.locator("#model").select_option("copy-queue")
    title(page, "copy-queue")
    page.wait_for_url(re.compile(r"model=copy-queue"))
    page.locator("#page-models").get_by_label("last step", exact=True).click()
    page.locator("#tab-playground").click()
    page.wait_for_url(re.compile(r"#playground$"))
    page.go_back()
    expect(page.locator("#page-models")).to_be_visible()
    title(page, "copy-queue")
    page.go_back()
    title(page, "reverse-stack")
    step(page, "Step 1 of")
    page.go_forward()
    title(page, "copy-queue")


def test_a_model_that_is_not_there_is_named(visit: Visitor, trained: str) -> None:
    page = visit(f"{trained}/#model=nobody&input=a1").page
    expect(page.locator("#error")).to_have_text("This server has no model nobody.")
    expect(page.locator("#page-models .panel")).to_have_count(0)


@pytest.mark.parametrize(
    ("kind", "start"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("gif", b"GIF89a"), ("html", b"<!doctype html>")],
)
def test_what_is_shown_can_be_downloaded(
    visit: Visitor, trained: str, tmp_path: Path, kind: str, start: bytes
) -> None:
    page = ready(visit, f"{trained}/#model=reverse-stack&input=a3+a1+a4")
    with page.expect_download() as awaited:
        page.locator(f".downloads [data-kind={kind}]").click()
    assert awaited.value.suggested_filename == f"reverse-stack.{kind}"
    awaited.value.save_as(tmp_path / "file")
    assert (tmp_path / "file").read_bytes().startswith(start)


def test_a_download_has_the_shown_input_and_its_verdict(
    visit: Visitor, trained: str, tmp_path: Path
) -> None:
    page = ready(visit, f"{trained}/#model=reverse-stack&input=a3+a1+a4")
    page.locator("#input").fill("a9")  # typed, but not yet traced
    with page.expect_download() as awaited:
        page.locator(".downloads [data-kind=json]").click()
    awaited.value.save_as(tmp_path / "file")
    told = json.loads((tmp_path / "file").read_text())
    assert told["source"] == ["a3", "a1", "a4"]
    assert told["right"] is True


def test_the_first_mistake_is_told(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    page.locator("#input").fill("a3 a1 a4")
    page.locator("#run").click()
    verdict = page.locator("#page-models .verdict")
    expect(verdict).to_contain_text("3 symbols")
    expect(verdict).to_have_text(
        re.compile(r"✗ \d+ of .* wrong, the first is number \d+ \(step \d+\)")
    )
    expect(page.locator("#page-models .target")).to_have_text("expected: a4 a1 a3")


def test_a_model_of_own_data_is_read_and_written_as_its_data(visit: Visitor, own_data: str) -> None:
    page = ready(visit, own_data)
    assert page.locator("#input").input_value() == "abc"
    expect(page.locator("#page-models .field.long")).to_contain_text("every character is a symbol")
    expect(page.locator("#task")).to_be_hidden()
    expect(page.locator("#generate")).to_be_hidden()
    page.locator("#input").fill("cab")
    page.locator("#run").click()
    said = text_model().transduce(["cab"])[0].replace("<unk>", "")
    expect(page.locator("#page-models .verdict")).to_contain_text("3 symbols")
    shown = page.locator(".result output").inner_text().replace("<unk>", "")
    assert shown.strip() == (said.strip() or "nothing")


def test_a_language_model_generates_lines_and_shows_its_memory(
    visit: Visitor, own_data: str
) -> None:
    page = ready(visit, f"{own_data}/#model=lines")
    expect(page.locator("#page-models .field.long")).to_contain_text("Line")
    expect(page.locator("#task")).to_be_hidden()
    first = page.locator("#input").input_value()
    page.locator("#prefix").fill("C(")
    page.locator("#generate").click()
    expect(page.locator("#input")).to_have_value(re.compile(r"^C\("))
    assert page.locator("#seed").input_value() == "1"  # another line than the first
    assert page.locator("#input").input_value() != first
    line = page.locator("#input").input_value()
    expect(page.locator(".result output")).to_have_text(line)
    cells = page.evaluate("pushpop.bench.player.panels[0].trace.cells.map((one) => one.symbol)")
    assert cells == ["<s>", *line]


def test_each_of_two_memories_has_a_picture_and_they_keep_step(
    visit: Visitor, own_data: str
) -> None:
    page: Page = visit(f"{own_data}/#model=two&input={WORDS[0]}+{WORDS[1]}").page
    expect(page.locator("#page-models .panel")).to_have_count(2)
    expect(page.locator("#page-models .verdict")).to_contain_text(
        ["memory 1 of 2", "memory 2 of 2"]
    )
    page.locator("#page-models").get_by_label("first step", exact=True).click()
    for panel in page.locator("#page-models .panel").all():
        expect(panel.locator(".what .count")).to_contain_text("Step 1 of")


def test_long_words_are_cut_short_not_squeezed(visit: Visitor, own_data: str) -> None:
    page: Page = visit(f"{own_data}/#model=two&input={WORDS[0]}+{WORDS[1]}").page
    expect(page.locator("#page-models .panel")).to_have_count(2)
    squeezed = page.evaluate(
        """() => {
          const panel = pushpop.bench.player.panels[0];
          const said = [];
          const real = panel.picture.getContext("2d");
          const spy = new Proxy(real, {
            get: (on, name) => {
              const value = Reflect.get(on, name);
              if (typeof value !== "function") return value;
              return (...given) => {
                if (name === "fillText" && given[3] < on.measureText(given[0]).width) {
                  said.push(given[0]);
                }
                return value.apply(on, given);
              };
            },
            set: (on, name, value) => Reflect.set(on, name, value),
          });
          panel.picture.getContext = () => spy;
          panel.redraw();
          return said;
        }"""
    )
    assert squeezed == []


def test_attention_is_drawn_and_told_beside_the_memory(visit: Visitor, own_data: str) -> None:
    page = ready(visit, own_data)
    expect(page.locator("#page-models .attends")).to_contain_text("attends to")
    rows = page.evaluate("pushpop.bench.player.panels[0].view.rows")
    assert rows["attention"]["height"] > 0
    assert rows["attention"]["top"] > rows["gates"][0]["top"]


def test_a_memory_that_is_hardly_used_is_remarked_on(visit: Visitor, own_data: str) -> None:
    page = ready(visit, f"{own_data}/#model=idle&input=abcabc")
    expect(page.locator("#page-models .remark")).to_contain_text("The memory is hardly used here")


def test_on_a_phone_the_picture_is_in_the_first_screen_and_names_are_whole(
    visit: Visitor, trained: str
) -> None:
    page = ready(visit, trained, viewport=PHONE)
    box = page.locator("#page-models .stage").bounding_box()
    assert box
    assert box["y"] < PHONE["height"] * 0.6
    model = page.locator("#model")
    wanted = model.evaluate(
        """(select) => {
          const context = document.createElement("canvas").getContext("2d");
          context.font = getComputedStyle(select).font;
          return Math.max(...[...select.options].map((o) => context.measureText(o.text).width));
        }"""
    )
    assert model.evaluate("(select) => select.clientWidth") > wanted + 40
    page.locator("#tab-playground").click()
    box = page.locator("#page-playground .stage").bounding_box()
    assert box
    assert box["y"] < PHONE["height"] * 0.75


def test_on_a_phone_two_models_fit_into_three_screens(visit: Visitor, trained: str) -> None:
    page = ready(visit, trained, viewport=PHONE)
    page.locator("#options").click()
    page.locator("#other").select_option("copy-queue")
    expect(page.locator("#page-models .panel")).to_have_count(2)
    page.locator("#options").click()
    second = page.locator("#page-models .stage").nth(1).bounding_box()
    first = page.locator("#page-models .stage").nth(0).bounding_box()
    assert first
    assert second
    assert second["y"] + second["height"] - first["y"] < PHONE["height"] * 1.1
    assert page.evaluate("document.documentElement.scrollHeight") < 3 * PHONE["height"]


def test_labels_on_dark_bands_are_light_and_on_bright_ones_dark(
    visit: Visitor, trained: str
) -> None:
    page = ready(visit, trained, color_scheme="dark")
    colours = page.evaluate(
        """() => {
          const panel = pushpop.bench.player.panels[0];
          const said = [];
          const real = panel.picture.getContext("2d");
          const spy = new Proxy(real, {
            get: (on, name) => {
              const value = Reflect.get(on, name);
              if (typeof value !== "function") return value;
              return (...given) => {
                if (name === "fillText" && given[0] === "a39") said.push(on.fillStyle);
                return value.apply(on, given);
              };
            },
            set: (on, name, value) => Reflect.set(on, name, value),
          });
          panel.picture.getContext = () => spy;
          panel.redraw();
          return said;
        }"""
    )
    assert "#14151a" in colours  # where a read reaches it
    assert "#ecedf2" in colours  # where it is only held
