"""The Chomsky-hierarchy benchmark: scores beside the published ones."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from pushpop.cli import main
from pushpop.experiments.chomsky import LEVELS, PUBLISHED, score_rows
from pushpop.experiments.presets import load_preset
from pushpop.experiments.report import make_report
from pushpop.experiments.runs import read_results
from pushpop.tasks import TASKS
from pushpop.tasks.chomsky import PREFIX
from pushpop.training import TrainConfig, train

RESULTS = Path(__file__).parents[2] / "results" / "chomsky"
SMALL = """
base: {train_lengths: 1-6, test_lengths: 7-12, embedding: 4, hidden: 5, memory_width: 4,
       steps: 4, report_every: 2, evaluate_every: 4, evaluate_sequences: 6}
rows:
  - {task: chomsky/parity, model: stack}
  - {task: chomsky/parity, model: rnn1}
  - {task: chomsky/stack-manipulation, model: stack}
  - {task: chomsky/stack-manipulation, model: rnn1}
grid: {seed: [0, 1]}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, two models, two seeds, trained for real."""
    folder = tmp_path_factory.mktemp("chomsky")
    (folder / "small.yaml").write_text(SMALL)
    out = folder / "runs"
    main(["sweep", str(folder / "small.yaml"), "--out", str(out), "--workers", "2"])
    run = out / "chomsky-parity-stack-seed0"
    main(["evaluate", str(run), "--lengths", "8,16", "--sequences", "5", "--save"])
    return out


def test_every_task_has_a_level_and_published_scores() -> None:
    tasks = {task for level in LEVELS.values() for task in level}
    assert {PREFIX + task for task in tasks} == {name for name in TASKS if PREFIX in name}
    assert PUBLISHED["mean"].keys() == tasks
    assert all(len(row) == len(PUBLISHED["models"]) for row in PUBLISHED["mean"].values())


def test_the_preset_is_one_setting_for_all_tasks() -> None:
    configs = [run.config for run in load_preset("chomsky").runs]
    assert len(configs) == 15 * 7 * 3
    assert {config.form for config in configs} == {"tagger"}
    first = configs[0]
    for config in configs:
        allowed = {"task", "memory", "cell", "seed", "push_bias", "pop_bias"}
        assert first.differences(config).keys() <= allowed


def test_a_run_by_itself_has_the_setting_of_the_sweep() -> None:
    for run in load_preset("chomsky").runs:
        alone = TrainConfig(
            run.config.task, run.config.memory, cell=run.config.cell, seed=run.config.seed
        )
        assert alone.recipe == "chomsky"
        assert alone.differences(run.config).keys() == {"evaluate_every"}


def test_the_kept_runs_have_the_setting_of_the_sweep() -> None:
    planned = {run.name: run.config for run in load_preset("chomsky").runs}
    kept = read_results(RESULTS)
    assert len(kept) == 229
    for run in kept:
        assert run.config.differences(planned[run.name]).keys() <= {"recipe"}


def test_the_kept_table_has_every_task_and_model() -> None:
    seeds = {(row["task"], row["model"]): row["seeds"] for row in score_rows(read_results(RESULTS))}
    for task in (task for level in LEVELS.values() for task in level):
        assert all(seeds[task, model] == 3 for model in ("stack", "queue", "deque", "lstm1"))
        assert all(seeds[task, model] >= 1 for model in ("rnn1", "superposition", "tape"))


def test_another_recipe_can_be_asked_for() -> None:
    config = TrainConfig("chomsky/parity", recipe="pushpop")
    assert (config.recipe, config.train_lengths, config.hidden) == ("pushpop", "1-64", 96)
    assert TrainConfig("chomsky/parity", train_lengths="1-20").train_lengths == "1-20"


def test_the_table_has_a_row_for_each_task_and_model(runs: Path) -> None:
    rows = json.loads(make_report(runs).files["table.json"])
    assert [(row["task"], row["model"]) for row in rows] == [
        ("parity", "rnn1"),
        ("parity", "stack"),
        ("stack-manipulation", "rnn1"),
        ("stack-manipulation", "stack"),
    ]
    stack = rows[3]
    scores = [
        json.loads((runs / f"chomsky-stack-manipulation-stack-seed{seed}/report.json").read_text())
        for seed in (0, 1)
    ]
    found = [report["test"]["accuracy"] for report in scores]
    assert (stack["seeds"], stack["batches"], stack["level"]) == (2, 4, "context-free")
    assert stack["max"] == pytest.approx(max(found), abs=1e-4)
    assert stack["mean"] == pytest.approx(sum(found) / 2, abs=1e-4)
    assert (stack["published_model"], stack["published_mean"]) == ("Stack-RNN", 0.938)
    assert (rows[0]["published_model"], rows[0]["published_mean"]) == ("RNN", 0.955)
    assert stack["published_source"]
    assert stack["chance"] == 0.5


def test_markdown_csv_and_a_figure_for_each_level_with_measured_lengths(runs: Path) -> None:
    files = make_report(runs).files
    assert "| parity | regular | 0.50 |" in files["table.md"]
    assert "best published mean" in files["table.md"]
    assert len(list(csv.DictReader(files["table.csv"].splitlines()))) == 4
    assert {name for name in files if name.endswith(".svg")} == {"accuracy-regular.svg"}
    assert ">chomsky/parity<" in files["accuracy-regular.svg"]


def test_a_task_that_a_seed_has_solved_is_bold(runs: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(runs, tmp_path / "copy")
    for name, accuracy in (("parity-rnn1-seed0", 0.99), ("parity-stack-seed0", 0.98)):
        path = copy / f"chomsky-{name}" / "report.json"
        report = json.loads(path.read_text())
        report["test"]["accuracy"] = accuracy
        path.write_text(json.dumps(report))
    table = make_report(copy).files["table.md"]
    line = next(line for line in table.splitlines() if line.startswith("| parity "))
    _, solved, unsolved, _ = line.rsplit("|", 4)[:4]
    assert solved.strip().startswith("**0.990 / ")
    assert unsolved.strip().startswith("0.980 / ")


def test_an_unfinished_run_is_left_out_with_a_word(runs: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(runs, tmp_path / "copy")
    (copy / "chomsky-parity-rnn1-seed0" / "report.json").unlink()
    report = make_report(copy)
    assert report.notes == ["unfinished runs are left out: 1"]
    seeds = {(row["task"], row["model"]): row["seeds"] for row in score_rows(read_results(copy))}
    assert seeds["parity", "rnn1"] == 1


def test_the_benchmark_stays_out_of_the_report_on_other_tasks(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "chomsky-parity-rnn1-seed0", tmp_path / "parity")
    config = TrainConfig(task="copy", embedding=4, hidden=4, memory_width=4, steps=1)
    train(config.override({"evaluate_sequences": 2, "test_lengths": "3-4"}), tmp_path / "copy")
    report = make_report(tmp_path)
    assert (
        "runs on Chomsky-hierarchy tasks are left out (they have their own table): 1"
        in report.notes
    )
    assert "parity" not in report.files["runs.csv"]
