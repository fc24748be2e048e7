"""The page of `pushpop serve` in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.viewer.conftest import DESK, PHONE, Visit
from tests.viewer.models import entries
from tests.viewer.pages import Visitor, fits, keep, ready, told, written


def test_the_server_shows_a_trace_at_once(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    assert page.locator("#model option").count() == len(entries())
    assert len(page.locator("#input").input_value().split()) == 12
    expect(page.locator("#page-models .panel .title")).to_have_text("reverse-stack")


def test_what_is_typed_is_transduced(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    page.locator("#input").fill("a3 a1 a4 a1 a5")
    page.locator("#input").press("Enter")
    expect(page.locator("#page-models .panel .verdict")).to_contain_text("5 symbols")
    (said,) = entries()["reverse-stack"].model.transduce(["a3 a1 a4 a1 a5"])
    expect(page.locator(".result output")).to_have_text(said or "nothing")


def test_another_model_brings_an_example_of_its_task(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    page.locator("#length").fill("10")
    page.locator("#model").select_option("svo-sov-deque")
    expect(page.locator("#page-models .panel .title")).to_have_text("svo-sov-deque")
    assert page.locator("#input").input_value().startswith("si")
    expect(page.locator("#page-models .panel .verdict")).to_contain_text("wrong")


def test_a_model_without_a_memory_is_shown_without_a_picture(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    page.locator("#model").select_option("flip-none")
    expect(page.locator("#page-models .panel .legend")).to_contain_text("no memory")
    expect(page.locator("#page-models .panel .cells")).to_have_count(0)


def test_memories_of_different_pictures_stand_side_by_side(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    page.locator("#model").select_option("copy-tape")
    page.locator("#other").select_option("copy-queue")
    panels = page.locator("#page-models .panel")
    expect(panels.locator(".title")).to_have_text(["copy-tape", "copy-queue"])
    expect(panels.nth(0).locator(".gates dt")).to_have_text(["stay", "left", "right"])
    expect(panels.nth(1).locator(".gates dt")).to_have_text(["push", "pop"])
    page.locator("#model").select_option("reverse-superposition")  # the same panel, another picture
    expect(panels.nth(0).locator(".gates dt")).to_have_text(["push", "pop", "noop"])


def test_two_models_side_by_side_keep_step(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    page.locator("#other").select_option("copy-queue")
    expect(page.locator("#page-models .panel .title")).to_have_text(["reverse-stack", "copy-queue"])
    boxes = [panel.bounding_box() for panel in page.locator("#page-models .panel").all()]
    assert len({box["y"] for box in boxes if box}) == 1
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    for panel in page.locator("#page-models .panel").all():
        expect(panel.locator(".what .count")).to_contain_text("Step 2 of")


def test_a_model_is_judged_by_its_own_task_only(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    page.locator("#other").select_option("copy-queue")
    source = page.locator("#input").input_value()
    expected = page.locator("#page-models .panel .target")
    backwards = " ".join(reversed(source.split()))
    expect(expected).to_have_text([f"expected: {backwards}", f"expected: {source}"])


def test_bad_input_is_explained_and_mended(visit: Visitor, address: str) -> None:
    visited: Visit = visit(address)
    page = visited.page
    expect(page.locator("#page-models .panel")).to_have_count(1)
    page.locator("#input").fill("a1 banana")
    page.locator("#run").click()
    expect(page.locator("#error")).to_have_text("unknown source symbol 'banana'")
    expect(page.locator("#page-models")).to_have_class("stale")  # the old answer, grown pale
    expect(page.locator("#page-models .panel .verdict")).to_contain_text("12 symbols")
    page.locator("#input").fill("a1 a2")
    page.locator("#run").click()
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#page-models")).not_to_have_class("stale")
    expect(page.locator("#page-models .panel .verdict")).to_contain_text("2 symbols")
    # Chromium itself reports the 422 on the console; nothing else may be there.
    assert all("422" in problem for problem in visited.problems)
    visited.problems.clear()


def test_a_server_that_has_gone_is_reported(visit: Visitor, address: str) -> None:
    visited: Visit = visit(address)
    expect(visited.page.locator("#page-models .panel")).to_have_count(1)
    visited.page.context.set_offline(True)
    visited.page.locator("#run").click()
    expect(visited.page.locator("#error")).to_contain_text("is pushpop serve still running?")
    expect(visited.page.locator("#page-models")).to_have_class("stale")
    visited.problems.clear()


def test_the_playground_starts_with_figure_1a_and_follows_the_sliders(
    visit: Visitor, address: str
) -> None:
    page = visit(f"{address}/#playground").page
    shown = page.locator("#page-playground")
    expect(shown.locator(".cells .number")).to_have_text(["0.90", "0.30"])
    expect(shown.locator(".sum code")).to_have_text("0.90 v3 + 0.10 v1")
    shown.get_by_label("pop at step 3").fill("0")
    expect(shown.locator(".cells .number")).to_have_text(["0.90", "0.50", "0.70"])
    shown.get_by_text("Add a step").click()
    expect(shown.locator(".what .count")).to_have_text("Step 4 of 4")
    shown.get_by_role("radio", name="deque").check()
    expect(shown.locator(".sliders input")).to_have_count(12)
    expect(shown.locator(".sum")).to_have_count(2)
    shown.get_by_text("At random").click()
    expect(shown.locator(".sliders li")).to_have_count(8)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_cut_off_at_any_width(
    visit: Visitor, address: str, tmp_path: Path, width: int, scheme: str
) -> None:
    viewport = PHONE if width == 390 else DESK
    page = ready(visit, address, viewport=viewport, color_scheme=scheme)
    assert fits(page)
    keep(page, f"served-{width}-{scheme}", tmp_path)
    if width == 390:
        page.locator("#options").click()
    page.locator("#other").select_option("copy-queue")
    expect(page.locator("#page-models .panel")).to_have_count(2)
    assert fits(page)
    keep(page, f"compared-{width}-{scheme}", tmp_path)
    page.locator("#tab-playground").click()
    page.get_by_role("radio", name="deque").check()
    assert fits(page)
    keep(page, f"playground-{width}-{scheme}", tmp_path)
    file = visit(written(tmp_path, told("deque", 12)), viewport=viewport, color_scheme=scheme)
    assert fits(file.page)
    keep(file.page, f"trace-{width}-{scheme}", tmp_path)
    paper = file.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(252, 251, 249)" if scheme == "light" else "rgb(21, 22, 27)")


def test_everything_that_can_be_worked_has_a_name_and_can_be_reached(
    visit: Visitor, address: str
) -> None:
    page = ready(visit, address)
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, input, select, textarea, canvas")]
          .filter((e) => !e.closest("[aria-hidden=true]") && !(e.getAttribute("aria-label")
            || e.textContent.trim() || (e.labels && e.labels.length)))
          .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    page.locator("#run").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "first step"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
