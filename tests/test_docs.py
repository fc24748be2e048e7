"""What the examples and docs/own-data.md show is what happens; tests/docs has the other pages."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from pushpop.training import TrainConfig

ROOT = Path(__file__).parents[1]


def test_the_worked_example_shows_the_papers_numbers() -> None:
    command = [sys.executable, str(ROOT / "examples" / "worked_example.py")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for part in (
        "v1 0.7  v2 0.5",
        "0.5 v2 + 0.5 v1",
        "v1 0.3  v3 0.9",
        "0.9 v3 + 0.1 v1",
        "push at steps 1, 2, 3: +1, +1, 0",
        "pop  at steps 1, 2, 3: 0, -1, -1",
    ):
        assert part in shown


def test_the_example_that_replaces_an_lstm_runs_and_the_readme_has_its_figures() -> None:
    script = ROOT / "examples" / "replace_lstm.py"
    command = [sys.executable, str(script), "--steps", "2"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split("(")[0] for line in shown.splitlines()] == ["nn.LSTM", "pushpop.MemoryRNN"]
    rows = json.loads((ROOT / "results" / "replace_lstm.json").read_text("utf-8"))["rows"]
    readme = (ROOT / "README.md").read_text("utf-8")
    for layer, when in (("nn.LSTM(32, 64)", "before"), ("pushpop.MemoryRNN(32, 64)", "after")):
        accuracies = [row["accuracy"] for row in rows if row["layer"] == layer]
        trained, longer = (sum(column) / len(column) for column in zip(*accuracies, strict=True))
        assert f"# {when}: {trained:.2f} right at 16" in readme
        assert f"{longer:.2f} at 64" in readme


def test_the_example_that_gives_a_trained_lstm_a_memory_runs_and_its_figures_are_shown() -> None:
    script = ROOT / "examples" / "from_lstm.py"
    command = [sys.executable, str(script), "--steps", "2", "2", "--longer-steps", "1"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = json.loads((ROOT / "results" / "from_lstm.json").read_text("utf-8"))["rows"]
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    assert [line[:30].rstrip() for line in shown.splitlines()[1:]] == stages
    page = (ROOT / "docs" / "layers.md").read_text("utf-8")
    for stage in stages:
        accuracies = [row["accuracy"] for row in rows if row["stage"] == stage]
        means = [f"{sum(column) / len(column):.2f}" for column in zip(*accuracies, strict=True)]
        assert f"| {stage} | {' | '.join(means)} |" in page, stage


def test_the_example_of_own_pairs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(ROOT / "examples" / "own_pairs.py"))
    for verb, ending, form in (
        ("stop", "ed", "stopped"),
        ("cry", "ed", "cried"),
        ("tie", "ing", "tying"),
        ("play", "ing", "playing"),
        ("wash", "s", "washes"),
    ):
        assert example["inflect"](verb, ending) == form
    example["main"](epochs=1)
    assert "48 of verbs that the model has not seen" in capsys.readouterr().out
    assert (tmp_path / "inflector" / "config.json").exists()


def test_the_example_of_molecules_runs_and_its_molecules_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(ROOT / "examples" / "molecules.py"))
    kept = (ROOT / "examples" / "molecules.smi").read_text().splitlines()
    assert example["made"](len(kept)) == kept
    assert len(set(kept)) == len(kept) == 1000
    example["main"](["--epochs", "1", "--count", "9", "--memory", "stack"])
    assert "some of the molecules that it writes:" in capsys.readouterr().out
    assert (tmp_path / "runs" / "molecules-stack" / "config.json").exists()


def test_molecules_are_told_apart_by_what_is_wrong() -> None:
    pytest.importorskip("rdkit")
    example = runpy.run_path(str(ROOT / "examples" / "molecules.py"))
    wrong = [
        example["what_is_wrong"](text) for text in ("CC(=O)O", "CC(=O", "C1CC", "C(C)(C)(C)(C)C")
    ]
    assert wrong == ["", "syntax", "syntax", "chemistry"]
    assert example["judge"](["CC", "C(", "CC", "N"]).startswith("valid: 75.0% of 4 molecules; ")


OWN_DATA = (ROOT / "docs" / "own-data.md").read_text("utf-8")


def test_the_figures_of_own_pairs_are_the_measured_ones() -> None:
    measured = json.loads((ROOT / "results" / "g2p.json").read_text())["means"]
    names = {"ice": "Icelandic", "hun": "Hungarian", "dut": "Dutch"}
    shares = ("dev_accuracy", "dev_word_error_rate", "dev_symbol_error_rate")
    rows = [
        [names[row["language"]], row["variant"], str(row["seeds"])]
        + [f"{100 * row[share]:.1f} %" for share in shares]
        for row in measured
    ]
    shown = re.findall(r"^\| (?:Icelandic|Hungarian|Dutch) \|.*$", OWN_DATA, re.MULTILINE)
    assert shown == [f"| {' | '.join(row)} |" for row in rows]


def test_the_speed_of_own_pairs_is_the_measured_one() -> None:
    measured = json.loads((ROOT / "results" / "own_data_speed.json").read_text())
    for name, seconds in measured["seconds"].items():
        assert f"| {name} | {seconds:.1f} | {measured['processor_seconds'][name]:.1f} |" in OWN_DATA


def test_the_table_of_the_recipe_for_pairs_is_right(tmp_path: Path) -> None:
    few, many = tmp_path / "few.tsv", tmp_path / "many.tsv"
    few.write_text("a\tb\n" * 1999)
    many.write_text("a\tb\n" * 2000)
    recipe, of_many = (TrainConfig.from_dict({"task": str(path)}) for path in (few, many))
    table = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", OWN_DATA, re.MULTILINE)
    assert len(table) > 5
    for names, values in table:
        options = re.findall(r"\w+", names)
        plain = json.loads(json.dumps(recipe.to_dict()))
        assert values == ", ".join(f"{plain[option]}".lower() for option in options), names
    changed = [getattr(of_many, name) for name in recipe.differences(of_many) if name != "task"]
    assert f"{', '.join(map(str, changed))} from 2,000 pairs on" in OWN_DATA


GPU = (ROOT / "docs" / "gpu.md").read_text("utf-8")


def test_the_estimates_for_gpus_are_those_that_were_made() -> None:
    found = json.loads((ROOT / "results" / "gpu_estimates.json").read_text())
    for name, estimate in found["estimates"].items():
        assert f"| {name} | {estimate['ms']:g} |" in GPU
    assumed = found["assumed"]
    assert f"{assumed['launch_us']:g} us a launch from Python" in GPU
    assert f"{assumed['graph_us']:g} us a small\nkernel in a CUDA graph" in GPU
    assert f"{assumed['latency_us']:g} us a load" in GPU
    assert f"{assumed['gigabytes_a_second']:,.0f} GB/s" in GPU


def test_what_is_said_of_races_is_what_was_found() -> None:
    found = json.loads((ROOT / "results" / "gpu_races.json").read_text())
    assert found["wrong"] == 0
    assert sum(kernel["races"] for kernel in found["kernels"].values()) == 0
    counts = {
        each: [row["found"] for row in found["barriers"]].count(each)
        for each in ("races", "failures", "nothing")
    }
    assert f"{len(found['kernels'])} kernels in {found['runs']} runs: no race" in GPU
    barriers = f"{len(found['barriers'])} barriers"
    assert f"Removing any of {counts['races']} of the {barriers} causes a race" in GPU
    assert f"any of {counts['failures']} others a kernel that fails" in GPU
