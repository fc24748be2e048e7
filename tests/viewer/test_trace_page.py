"""Traces as pages, in a real browser."""

import runpy
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

from pushpop.memory import MEMORIES as MEMORIES_BY_NAME
from pushpop.viewer.export import page_data
from pushpop.viewer.intervals import Replay
from pushpop.viewer.layout import lay_out
from pushpop.viewer.tracing import Example, open_models, trace
from tests.models.examples import lively_model
from tests.viewer.conftest import PHONE, Visit
from tests.viewer.pages import MEMORIES, Visitor, place, told, written


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


def test_space_plays_and_pauses(visit: Visitor, tmp_path: Path) -> None:
    traced = told("stack")
    page = visit(written(tmp_path, traced)).page
    count = page.locator(".what .count")
    page.keyboard.press("Home")
    page.clock.install(time=0)
    page.clock.pause_at(1000)  # from here on time passes only when the test says so
    page.keyboard.press(" ")
    expect(page.get_by_label("pause")).to_be_visible()
    page.clock.run_for(750)
    expect(count).to_have_text(f"Step 3 of {len(traced.steps)}")
    page.keyboard.press(" ")
    expect(page.get_by_label("play", exact=True)).to_be_visible()
    page.clock.run_for(750)
    expect(count).to_have_text(f"Step 3 of {len(traced.steps)}")


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
    kind = MEMORIES_BY_NAME[memory]
    gates = torch.rand(2, 30, len(kind.push_ends), dtype=torch.float64).round(decimals=1).tolist()
    steps = [{"push": d, "pop": u} for d, u in zip(*gates, strict=True)]
    ends = {"memory": memory, "push_ends": kind.push_ends, "read_ends": kind.read_ends}
    found = page.evaluate(
        "([memory, steps]) => pushpop.simulate(memory, steps).steps", [ends, steps]
    )
    replay = Replay(kind.push_ends, kind.read_ends)
    for step, given in zip(found, steps, strict=True):
        moment = replay.step(given["push"], given["pop"])
        assert (step["bottom"], step["top"]) == pytest.approx((moment.bottom, moment.top))
        for mine, other in ((step["changed"], moment.changed),
                            *zip(step["reads"], moment.reads, strict=True)):  # fmt: skip
            weighty = [{k: x for k, x in part if x > 1e-9} for part in (mine, other)]
            assert weighty[0] == pytest.approx(weighty[1])


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
@pytest.mark.parametrize("memory", ["queue", "deque", "superposition", "tape"])
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


def test_the_gallery_has_a_trace_of_every_task_with_a_shipped_model(
    visit: Visitor, tmp_path: Path
) -> None:
    gallery = tmp_path / "gallery.html"
    script = Path(__file__).parents[2] / "docs" / "figures" / "traces.py"
    gallery.write_text(runpy.run_path(str(script))["gallery"](), "utf-8")
    assert gallery.stat().st_size < 1_500_000
    page = visit(gallery.as_uri(), offline=True).page
    tasks = {entry.task for entry in open_models([]).values()}
    titles = page.locator("article h2").all_text_contents()
    assert tasks <= {title.partition(",")[0] for title in titles}
    expect(page.locator("article").first.locator(".what .count")).to_be_visible()
