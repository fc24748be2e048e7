"""What docs/models.md shows."""

import ast
import re
from pathlib import Path

import pytest

from pushpop.experiments.paper import PAPER_MODELS
from pushpop.experiments.sizes import HIDDEN, PAPER_SIZES, count_parameters, paper_config
from tests.models.examples import VOCABULARY

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")


def test_the_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(first, "docs/models.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    assert printed[0].startswith("{'task': 'reverse'}")
    exec(compile(second, "docs/models.md", "exec"), {})
    (labels,) = ast.literal_eval(capsys.readouterr().out)
    assert len(labels.split()) == 4


def test_the_size_table_is_right() -> None:
    for model, (small, large) in PAPER_SIZES.items():
        cores = [
            count_parameters(paper_config(model, hidden), VOCABULARY).core for hidden in HIDDEN
        ]
        papers = [f"{paper:.1e}".replace("e+0", "e") for paper in (small, large)]
        cells = (
            f"| {PAPER_MODELS[model]} | {papers[0]} | {cores[0]:,} | {papers[1]} | {cores[1]:,} |"
        )
        assert cells in PAGE
