"""`pushpop evaluate --save` keeps accuracies by length with the run."""

import json
from pathlib import Path

import pytest

from pushpop.cli import main
from pushpop.experiments.records import read_lengths
from pushpop.training import train
from tests.experiments.test_report import refused
from tests.training.runs import tiny

Captured = pytest.CaptureFixture[str]


def test_lengths_are_kept_and_renewed(tmp_path: Path, capsys: Captured) -> None:
    run = tmp_path / "run"
    train(tiny(), run)
    main(["evaluate", str(run), "--lengths", "8,4", "--sequences", "5", "--save"])
    main(["evaluate", str(run), "--lengths", "6", "--sequences", "7", "--save"])
    found = read_lengths(run / "lengths.json")
    assert found["step"] == json.loads((run / "report.json").read_text())["kept_step"]
    assert [(row["length"], row["sequences"]) for row in found["rows"]] == [(4, 5), (6, 7), (8, 5)]
    train(tiny(steps=48), run)
    main(["evaluate", str(run), "--lengths", "4", "--sequences", "5", "--save"])
    assert [row["length"] for row in read_lengths(run / "lengths.json")["rows"]] in ([4], [4, 6, 8])


def test_only_figures_of_a_finished_runs_own_model_are_kept(
    tmp_path: Path, capsys: Captured
) -> None:
    run = str(tmp_path / "run")
    assert "not a finished run" in refused(["evaluate", run, "--save"], capsys)
    train(tiny(), run)
    for options, message in (
        (["--lengths", "4-8"], "lengths one by one, not of 4-8"),
        (["--lengths", "4", "--task", "copy"], "leave out copy"),
    ):
        assert message in refused(["evaluate", run, "--save", *options], capsys)
    assert not (tmp_path / "run" / "lengths.json").exists()
