"""Traces of memories with positions, and of memories without a picture, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from pushpop.viewer import positions
from pushpop.viewer.export import page_data
from pushpop.viewer.layout import gate_rows
from pushpop.viewer.tracing import Trace
from tests.viewer import toys
from tests.viewer.conftest import PHONE, Visit
from tests.viewer.pages import MEMORIES, Visitor, fits, keep, place, told, written

POSITIONED = ["superposition", "tape"]


def mixture(traced: Trace, shares: tuple[tuple[int, float], ...]) -> str:
    return " + ".join(f"{weight:.2f} {traced.cells[cell].symbol}" for cell, weight in shares)


@pytest.mark.parametrize("memory", POSITIONED)
def test_a_trace_file_works_without_a_network(visit: Visitor, tmp_path: Path, memory: str) -> None:
    address = written(tmp_path, told(memory))
    visited: Visit = visit(address, offline=True)
    expect(visited.page.locator(".what .count")).to_contain_text("Step 10 of")
    expect(visited.page.locator(".legend")).to_contain_text("position 0, which is read")
    expect(visited.page.locator(".legend")).to_contain_text(f"below {positions.SMALLEST}")
    assert [url for url in visited.requests if not url.startswith("data:")] == [address]


@pytest.mark.parametrize("memory", POSITIONED)
def test_a_step_tells_the_gates_by_name_and_the_mixture_that_is_read(
    visit: Visitor, tmp_path: Path, memory: str
) -> None:
    traced = told(memory)
    page = visit(written(tmp_path, traced)).page
    for t in (3, 10):
        page.get_by_label("step", exact=True).fill(str(t))
        step = traced.steps[t]
        expect(page.locator(".gates dt")).to_have_text(list(traced.gate_names))
        expect(page.locator(".gates .number")).to_have_text([f"{x:.3f}" for x in step.gates])
        expect(page.locator(".sum code")).to_have_text(mixture(traced, step.reads[0][:12]))
        nearest = sorted(step.places, key=lambda one: abs(one.position))[:13]
        shown = sorted(nearest, key=lambda one: -one.position)
        expect(page.locator(".places .number")).to_have_text([f"{one.total:.2f}" for one in shown])


@pytest.mark.parametrize("memory", POSITIONED)
def test_a_position_tells_what_lies_there_when_hovered(
    visit: Visitor, tmp_path: Path, memory: str
) -> None:
    traced = told(memory)
    page = visit(written(tmp_path, traced)).page
    t = 6
    lowest = min(
        (one for one in traced.steps[t].places if one.shares), key=lambda one: one.position
    )
    cell, weight = lowest.shares[0]
    page.mouse.move(*place(page, t, lowest.position - 0.5 + weight / 2))
    tip = page.locator(".tip")
    number = str(lowest.position).replace("-", "−")
    expect(tip).to_contain_text(f"position {number} after step {t + 1}: ")
    expect(tip).to_contain_text(f"{weight:.2f} {traced.cells[cell].symbol}")
    expect(tip).to_contain_text(f"written at step {cell + 1} with weight")
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()


@pytest.mark.parametrize("memory", POSITIONED)
def test_the_table_has_the_gates_by_name_and_the_reads(
    visit: Visitor, tmp_path: Path, memory: str
) -> None:
    traced = told(memory)
    page = visit(written(tmp_path, traced)).page
    page.locator(".numbers summary").click()
    heads = page.locator(".numbers th").all_text_contents()
    assert heads == ["step", "reads", *traced.gate_names, "read", "writes", "p"]
    cells = page.locator(".numbers tbody tr").nth(3).locator("td").all_text_contents()
    step = traced.steps[3]
    assert cells[:5] == ["4", step.symbol, *(f"{gate:.3f}" for gate in step.gates)]
    assert cells[5] == mixture(traced, step.reads[0])


@pytest.mark.parametrize("memory", [*MEMORIES, *POSITIONED])
def test_the_page_has_the_gates_in_the_rows_of_the_pictures(
    visit: Visitor, tmp_path: Path, memory: str
) -> None:
    traced = told(memory)
    page = visit(written(tmp_path, traced)).page
    found = page.evaluate("trace => pushpop.gateRows(trace)", page_data(traced))
    rows = [[(bar["gate"], bar["sort"], bar["way"]) for bar in row["bars"]] for row in found]
    wanted = gate_rows(traced)
    assert rows == [[(bar.gate, bar.sort, bar.way) for bar in row] for row in wanted]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("memory", POSITIONED)
def test_nothing_is_cut_off_on_a_phone(
    visit: Visitor, tmp_path: Path, memory: str, scheme: str
) -> None:
    page = visit(written(tmp_path, told(memory)), viewport=PHONE, color_scheme=scheme).page
    assert fits(page)
    keep(page, f"{memory}-390-{scheme}", tmp_path)


@pytest.mark.usefixtures("toy_memories")
def test_a_memory_without_a_picture_has_its_gates_and_a_sentence(
    visit: Visitor, tmp_path: Path
) -> None:
    traced = told(toys.Trail.kind)
    page = visit(written(tmp_path, traced)).page
    expect(page.locator(".legend")).to_have_text(traced.note)
    expect(page.locator(".gates dt")).to_have_text("keep")
    expect(page.locator(".memory")).to_have_count(0)
    page.mouse.move(*place(page, 3, None))
    expect(page.locator(".tip")).to_be_hidden()
