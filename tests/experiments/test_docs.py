"""What docs/experiments.md shows."""

import re
from pathlib import Path

import yaml

from pushpop.experiments.presets import load_preset, preset_names, read_preset

PAGE = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text("utf-8")


def test_the_presets_are_listed_with_their_numbers_of_runs() -> None:
    listed = dict(re.findall(r"^\| `([\w-]+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert listed == {name: str(len(load_preset(name).runs)) for name in preset_names()}


def test_the_preset_that_is_shown_makes_the_runs_that_are_named() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    names = [run.name for run in read_preset(yaml.safe_load(shown), "shown", {}).runs]
    assert len(names) == 8
    assert (names[0], names[-1]) == ("copy-queue-lr0.003-seed0", "flip-queue-lr0.001-seed1")
    assert f"`{names[0]}` to `{names[-1]}`" in PAGE
