"""`pushpop evaluate --save` and sweeps keep accuracies by length with the run."""

import json
import shutil
from pathlib import Path

import pytest

from pushpop.cli import main
from pushpop.experiments.presets import load_preset
from pushpop.experiments.runs import read_lengths
from pushpop.experiments.sweep import plan
from pushpop.training import train
from tests.experiments.sweeps import write_preset
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


def swept_lengths(out: Path) -> dict[str, list[tuple[int, int]]]:
    found = {path.parent.name: read_lengths(path)["rows"] for path in out.glob("*/lengths.json")}
    return {run: [(row["length"], row["sequences"]) for row in rows] for run, rows in found.items()}


def test_a_sweep_measures_its_finished_runs(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "runs"
    preset = write_preset(tmp_path, measure={"lengths": [4, 8], "sequences": 5})
    sweep = ["sweep", preset, "--out", str(out), "--workers", "1"]
    main(sweep)
    both = [(4, 5), (8, 5)]
    assert swept_lengths(out) == {"copy-queue": both, "reverse-queue": both}
    swept = read_lengths(out / "copy-queue" / "lengths.json")
    shutil.move(out / "copy-queue" / "lengths.json", tmp_path / "lengths.json")
    main(["evaluate", str(out / "copy-queue"), "--lengths", "4,8", "--sequences", "5", "--save"])
    assert read_lengths(out / "copy-queue" / "lengths.json") == swept
    capsys.readouterr()
    main(sweep)
    assert "2 runs, 2 of them finished before" in capsys.readouterr().out


def test_lengths_added_to_a_preset_are_measured_without_training_again(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    sweep = ["sweep", write_preset(tmp_path), "--out", str(out), "--workers", "1"]
    main(sweep)
    assert swept_lengths(out) == {}
    before = (out / "copy-queue" / "metrics.jsonl").read_bytes()
    write_preset(tmp_path, measure={"lengths": [4], "sequences": 5})
    main(sweep)
    write_preset(tmp_path, measure={"lengths": [4, 6], "sequences": 7})
    main([*sweep, "--only", "task=copy"])
    assert swept_lengths(out) == {"copy-queue": [(4, 7), (6, 7)], "reverse-queue": [(4, 5)]}
    assert (out / "copy-queue" / "metrics.jsonl").read_bytes() == before


def test_a_measurement_that_was_stopped_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    preset = load_preset(write_preset(tmp_path, measure={"lengths": [4, 6, 8], "sequences": 5}))
    job = plan(preset, preset.runs, tmp_path / "runs")[0]
    train, evaluate = job.commands()
    main(train)
    assert (job.commands(), job.is_finished()) == ([evaluate], False)
    main([*evaluate[:3], "4", *evaluate[4:]])
    assert job.commands()[0][2:4] == ["--lengths", "6,8"]
    main(job.commands()[0])
    assert (job.commands(), job.is_finished()) == ([], True)
    assert swept_lengths(tmp_path / "runs") == {"copy-queue": [(4, 5), (6, 5), (8, 5)]}
