"""The tour runs from the first cell to the last, and shows what it says."""

import json
import runpy

import pytest

from tests.docs.pages import ROOT


def outputs(cells: list[dict]) -> list[list[str]]:
    """What each code cell shows: its printed text, or that there is a picture."""
    return [
        ["picture" if "data" in shown else "".join(shown["text"]) for shown in cell["outputs"]]
        for cell in cells
        if cell["cell_type"] == "code"
    ]


@pytest.mark.slow
def test_the_tour_runs_and_its_stack_reverses_what_is_longer() -> None:
    kept = outputs(json.loads((ROOT / "examples" / "tour.ipynb").read_text("utf-8"))["cells"])
    found = outputs(runpy.run_path(str(ROOT / "docs" / "figures" / "tour.py"))["run"]().cells)
    # Trained figures may differ on another machine; what is computed by hand may not.
    assert [len(shown) for shown in found] == [len(shown) for shown in kept]
    assert found[:3] == kept[:3]
    (table,) = next(shown for shown in found if shown and "LSTM alone" in shown[0])
    for length, with_stack, alone in (row.split() for row in table.splitlines()[1:]):
        assert float(with_stack) >= float(alone), length
