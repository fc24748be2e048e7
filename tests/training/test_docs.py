"""What docs/training.md shows."""

from dataclasses import fields
from pathlib import Path

from pushpop.training import TrainConfig

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")


def test_the_table_of_options_is_right() -> None:
    for field in fields(TrainConfig):
        default = field.metadata["default"]
        default = "none" if default is None else str(default).lower()
        assert f"| `{field.name}` | {default} | {field.metadata['help']} |" in PAGE
