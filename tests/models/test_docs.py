"""What docs/models.md shows."""

from pathlib import Path

from pushpop.experiments.paper import (
    HIDDEN,
    PAPER_MODELS,
    PAPER_SIZES,
    count_parameters,
)
from tests.models.examples import VOCABULARY

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")


def test_the_size_table_is_right() -> None:
    for model, (small, large) in PAPER_SIZES.items():
        cores = [count_parameters(model, hidden, VOCABULARY).core for hidden in HIDDEN]
        papers = [f"{paper:.1e}".replace("e+0", "e") for paper in (small, large)]
        cells = (
            f"| {PAPER_MODELS[model]} | {papers[0]} | {cores[0]:,} | {papers[1]} | {cores[1]:,} |"
        )
        assert cells in PAGE
