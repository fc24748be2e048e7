"""What docs/training.md shows."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from pushpop.training import TrainConfig

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")


def test_the_snippet_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/training.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_table_of_options_is_right() -> None:
    for field in fields(TrainConfig):
        default = field.metadata["default"]
        default = "none" if default is None else str(default).lower()
        assert f"| `{field.name}` | {default} | {field.metadata['help']} |" in PAGE
