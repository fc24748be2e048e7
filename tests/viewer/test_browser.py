"""The page in a real browser."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

from pushpop.viewer.export import export
from pushpop.viewer.layout import lay_out
from pushpop.viewer.page import page_data
from pushpop.viewer.replay import PUSH_ENDS, Replay
from pushpop.viewer.trace import Example, Trace, trace
from tests.models.examples import lively_model
from tests.viewer.conftest import DESK, PHONE, Visit
from tests.viewer.models import entries, random_model

expect.set_options(timeout=60_000)  # a busy machine is no failure
Visitor = Callable[..., Visit]
MEMORIES = ["stack", "queue", "deque"]


def keep(page: Page, name: str, folder: Path) -> None:
    """A screenshot, in $PUSHPOP_SCREENSHOTS where that is set."""
    folder = Path(os.environ.get("PUSHPOP_SCREENSHOTS", folder))
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def fits(page: Page) -> bool:
    """Whether nothing sticks out to the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def told(memory: str, length: int = 8) -> Trace:
    symbols = tuple(f"a{1 + 5 * k % 128}" for k in range(length))
    example = Example(symbols, symbols)
    model = random_model(memory)
    return trace(model, example, name=f"a {memory}", task="copy", max_length=length)


def written(tmp_path: Path, traced: Trace, name: str = "trace.html") -> str:
    export(traced, tmp_path / name)
    return (tmp_path / name).as_uri()


def ready(visit: Visitor, address: str, **options: Any) -> Page:
    """The served page, with the first trace on it."""
    page: Page = visit(address, **options).page
    expect(page.locator("#page-models .panel")).to_have_count(1)
    expect(page.locator(".result output")).not_to_be_empty()
    return page


def test_the_server_shows_a_trace_at_once(visit: Visitor, address: str) -> None:
    page = ready(visit, address)
    assert page.locator("#model option").count() == 4
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
    expect(page.locator("#page-models .panel .verdict").nth(0)).to_contain_text("wrong")
    expect(page.locator("#page-models .panel .verdict").nth(1)).not_to_contain_text("wrong")


def test_bad_input_is_explained_and_mended(visit: Visitor, address: str) -> None:
    visited: Visit = visit(address)
    page = visited.page
    expect(page.locator("#page-models .panel")).to_have_count(1)
    page.locator("#input").fill("a1 banana")
    page.locator("#run").click()
    expect(page.locator("#error")).to_have_text("unknown source symbol 'banana'")
    page.locator("#input").fill("a1 a2")
    page.locator("#run").click()
    expect(page.locator("#error")).to_be_hidden()
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
    visited.problems.clear()


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_trace_file_works_without_a_network(visit: Visitor, tmp_path: Path, memory: str) -> None:
    address = written(tmp_path, told(memory))
    visited: Visit = visit(address, offline=True)
    expect(visited.page.locator("h1")).to_have_text(f"a {memory}")
    expect(visited.page.locator(".what .count")).to_contain_text("Step 10 of")
    assert [url for url in visited.requests if not url.startswith("data:")] == [address]


def test_keys_step_through_time(visit: Visitor, tmp_path: Path) -> None:
    traced = told("stack")
    page = visit(written(tmp_path, traced)).page
    last, count = len(traced.steps), page.locator(".what .count")
    for key, step in (("Home", 1), ("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2),
                      ("End", last), ("ArrowRight", last), ("Shift+ArrowLeft", last - 10),
                      ("Home", 1), ("ArrowLeft", 1)):  # fmt: skip
        page.keyboard.press(key)
        expect(count).to_have_text(f"Step {step} of {last}")
    page.keyboard.press(" ")
    expect(page.get_by_label("pause")).to_be_visible()
    expect(count).to_have_text(f"Step 3 of {last}")
    page.keyboard.press(" ")
    expect(page.get_by_label("play", exact=True)).to_be_visible()


def test_buttons_slider_and_mouse_step_through_time(visit: Visitor, tmp_path: Path) -> None:
    traced = told("queue")
    page = visit(written(tmp_path, traced)).page
    last, count = len(traced.steps), page.locator(".what .count")
    for label, step in (("first step", 1), ("step on", 2), ("step back", 1), ("last step", last)):
        page.get_by_label(label, exact=True).click()
        expect(count).to_have_text(f"Step {step} of {last}")
    page.get_by_label("step", exact=True).fill("4")
    expect(count).to_have_text(f"Step 5 of {last}")
    x, y = place(page, step=2, position=None)
    page.mouse.click(x, y)
    expect(count).to_have_text(f"Step 3 of {last}")


def place(page: Page, step: int, position: float | None) -> tuple[float, float]:
    """Where on the screen a step is, at a position of the memory or among the symbols."""
    found = page.evaluate(
        """([step, position]) => {
          const panel = pushpop.players[0].panels[0];
          const { view, layout } = panel;
          const box = panel.stage.getBoundingClientRect();
          const y = position === null ? view.rows.input.top + 4
            : view.rows.memory.top + (layout.high - position) * view.unit;
          return [box.left + view.gutter + (step + 0.5) * view.column - view.x, box.top + y];
        }""",
        [step, position],
    )
    return found[0], found[1]


def test_a_cell_tells_its_token_life_and_reads_when_hovered(visit: Visitor, tmp_path: Path) -> None:
    traced = told("stack")
    page = visit(written(tmp_path, traced)).page
    number = max(range(8), key=lambda k: traced.cells[k].strength)
    cell, step = traced.cells[number], traced.steps[traced.cells[number].step]
    page.mouse.move(*place(page, cell.step, step.top - cell.strength / 2))
    tip = page.locator(".tip")
    expect(tip).to_contain_text(cell.symbol)
    expect(tip).to_contain_text(f"pushed at step {cell.step + 1} with strength {cell.strength:.2f}")
    expect(tip).to_contain_text(f"read at step{'' if cell.gone == cell.step + 1 else 's'}")
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()


def test_a_tap_on_a_phone_chooses_step_and_cell(visit: Visitor, tmp_path: Path) -> None:
    traced = told("queue", length=5)
    page = visit(written(tmp_path, traced), viewport=PHONE, has_touch=True).page
    cell, step = traced.cells[1], traced.steps[1]
    page.touchscreen.tap(*place(page, 1, step.top - cell.strength / 2))
    expect(page.locator(".what .count")).to_contain_text("Step 2 of")
    expect(page.locator(".tip")).to_contain_text("pushed at step 2")


def test_errors_are_marked_and_the_right_target_is_told(visit: Visitor, tmp_path: Path) -> None:
    traced = told("stack")
    assert traced.right is False
    page = visit(written(tmp_path, traced)).page
    expect(page.locator(".verdict .wrong")).to_contain_text("wrong")
    expect(page.locator(".target")).to_contain_text(" ".join(traced.target or ()))


def test_symbols_are_text_whatever_they_look_like(visit: Visitor, tmp_path: Path) -> None:
    from pushpop import Transducer, TransducerConfig
    from pushpop.tasks import Vocabulary

    nasty = ("</script><script>document.title='x'</script>", "<img/src=x>", "__proto__",
             "constructor", "$&", "\u2028", "</style>", "&amp;")  # fmt: skip
    torch.manual_seed(0)
    config = TransducerConfig(memory="deque", hidden=8, memory_width=8, embedding=8)
    model = Transducer(config, Vocabulary(nasty, nasty))
    traced = trace(model, Example(nasty, nasty[::-1]), name="<b>name</b>", max_length=10)
    page = visit(written(tmp_path, traced)).page
    expect(page.locator("h1")).to_have_text("<b>name</b>")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".what .chip").first).to_have_text(nasty[0])
    assert page.title() == "<b>name</b>"


def test_the_table_has_the_numbers(visit: Visitor, tmp_path: Path) -> None:
    traced = told("deque")
    page = visit(written(tmp_path, traced)).page
    page.locator(".numbers summary").click()
    rows = page.locator(".numbers tbody tr")
    expect(rows).to_have_count(len(traced.steps))
    cells = rows.nth(3).locator("td").all_text_contents()
    step = traced.steps[3]
    assert cells[:2] == ["4", step.symbol]
    for shown, number in zip(cells[2:6], (step.push[0], step.pop[0], step.push[1], step.pop[1]),
                             strict=True):  # fmt: skip
        assert float(shown) == pytest.approx(number, abs=5.1e-4)


@pytest.mark.parametrize("body", ["stack", "queue-gru", "deque"])
def test_the_page_lays_cells_out_as_the_pictures_do(
    visit: Visitor, tmp_path: Path, body: str
) -> None:
    traced = trace(lively_model(body), Example(tuple("abcabccba")))
    page = visit(written(tmp_path, traced)).page
    found = page.evaluate("trace => pushpop.layOut(trace).spans", page_data(traced))
    spans = {(s["cell"], s["from"]): (s["until"], s["lo"], s["hi"]) for s in found}
    wanted = {(s.cell, s.start): (s.stop, s.low, s.high) for s in lay_out(traced).spans}
    assert spans.keys() == wanted.keys()
    for key, (stop, low, high) in wanted.items():
        assert spans[key][0] == stop
        assert spans[key][1:] == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_playground_computes_what_the_equations_say(
    visit: Visitor, tmp_path: Path, memory: str
) -> None:
    page = visit(written(tmp_path, told("stack"))).page
    ends = len(PUSH_ENDS[memory])
    gates = torch.rand(2, 30, ends, dtype=torch.float64).round(decimals=1).tolist()
    steps = [{"push": d, "pop": u} for d, u in zip(*gates, strict=True)]
    found = page.evaluate(f"steps => pushpop.simulate('{memory}', steps).steps", steps)
    replay = Replay(memory)
    for step, given in zip(found, steps, strict=True):
        moment = replay.step(given["push"], given["pop"])
        assert (step["bottom"], step["top"]) == pytest.approx((moment.bottom, moment.top))
        for mine, other in ((step["changed"], moment.changed),
                            *zip(step["reads"], moment.reads, strict=True)):  # fmt: skip
            weighty = [{k: x for k, x in part if x > 1e-9} for part in (mine, other)]
            assert weighty[0] == pytest.approx(weighty[1])


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
    page.locator("#other").select_option("svo-sov-deque")
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


def test_less_motion_is_granted(visit: Visitor, tmp_path: Path) -> None:
    address = written(tmp_path, told("stack"))
    durations = [
        visit(address, reduced_motion=wish).page.evaluate(
            "getComputedStyle(document.querySelector('.bar')).transitionDuration"
        )
        for wish in ("no-preference", "reduce")
    ]
    assert durations == ["0.12s", "0s"]


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["queue", "deque"])
def test_a_source_of_500_symbols_stays_responsive(
    visit: Visitor, tmp_path: Path, memory: str
) -> None:
    page = visit(written(tmp_path, told(memory, 500))).page
    drawn = page.evaluate(
        "(() => { const p = pushpop.players[0].panels[0]; p.redraw(); return p.drawn; })()"
    )
    assert drawn < 1000  # milliseconds, on a machine that may be busy with something else
    page.keyboard.press("Home")
    steps = []
    for _ in range(20):
        page.keyboard.press("ArrowRight")
        steps.append(page.evaluate("pushpop.players[0].stepped"))
    assert sorted(steps)[10] < 100
    page.get_by_label("wider columns").click()
    page.keyboard.press("End")
    total = page.evaluate("pushpop.players[0].panels[0].trace.steps.length")
    expect(page.locator(".what .count")).to_have_text(f"Step {total} of {total}")
