"""A report from run directories alone."""

import csv
import gzip
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pushpop.cli import main
from pushpop.experiments.paper import verdict
from pushpop.experiments.report import (
    Report,
    make_report,
    marks,
    put_into_page,
    share_interval,
)
from pushpop.experiments.runs import pack, read_packed, read_results
from pushpop.training.config import DEFAULTS
from tests.experiments.fabricated import fabricate

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
PACKED = sorted((ROOT / "results").rglob("runs.jsonl.gz"))


def fabricate_results(folder: Path) -> Path:
    """Three rows of the paper, one unfinished, and one of ours."""
    queue = {"task": "copy", "memory": "queue"}
    curve = [(40.0, 0.1, 0.0), (1.01, 1.0, 0.995)]
    fabricate(folder / "runs" / "copy-queue", curve, lengths={128: 1.0, 1024: 0.5}, **queue)
    lstm = {"task": "copy", "memory": "none", "layers": 2}
    fabricate(folder / "runs" / "copy-lstm2", [(60.0, 0.2, 0.1)], finished=False, **lstm)
    stack = {"task": "reverse", "memory": "stack", "seed": 4}
    fabricate(folder / "runs" / "reverse-stack", [(3.0, 0.5, 0.25)], **stack)
    ours: dict[str, Any] = {"task": "copy", "memory": "deque", "recipe": "pushpop"}
    ours |= {"hidden": 48, "memory_width": 64}
    fabricate(folder / "runs" / "ours", [(1.0, 1.0, 1.0)], lengths={128: 1.0, 256: 0.75}, **ours)
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return fabricate_results(tmp_path / "results")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a report on such results."""
    return make_report(fabricate_results(tmp_path_factory.mktemp("results"))).files


def line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def refused(args: list[str], capsys: Captured) -> str:
    with pytest.raises(SystemExit) as left:
        main(args)
    assert left.value.code == 2
    return capsys.readouterr().err


def test_the_markdown_table_reads_so(files: dict[str, str]) -> None:
    lines = files["table.md"].splitlines()
    paper = ("paper's train", "paper's test")
    head = (
        "task",
        "model",
        "train",
        "test",
        *paper,
        "verdict",
        "batches",
        "solved at",
        "size",
        "rate",
        "seed",
    )
    top = [line(*head), line("---", "---", *["---:"] * 10)]
    missing = ("0.62 / 0.87", "0.00 / 0.38", "", "missing", "", "", "", "")
    unfinished = ("0.20 / 0.60", "0.10 / 0.55", "0.80 / 0.95", "0.00 / 0.47", "", "1,000 so far")
    assert lines[:6] == [
        "**With the recipe `paper`**",
        "",
        *top,
        line("Sequence copying", "1-layer LSTM", "", "", *missing),
        line("Sequence copying", "2-layer LSTM", *unfinished, "", "256", "0.001", "0"),
    ]
    perfect = "1.00 / 1.00"
    finished = (perfect, "0.99 / 1.00", perfect, perfect, "= solved", "2,000", "2,000", "256/256")
    finished += ("0.001", "0")
    assert line("Sequence copying", "Queue-LSTM", *finished) in lines
    ours = (*[perfect] * 4, "= solved", "1,000", "1,000", "48/64", "0.003", "0")
    assert lines[39:-1] == [
        "",
        "**With the recipe `pushpop`**",
        "",
        *top,
        line("Sequence copying", "DeQue-LSTM", *ours),
        "",
    ]
    assert lines[-1] == (
        "Accuracies are coarse / fine. Sources have 8-64 symbols in training and 65-128 in "
        "testing (recipe `paper`), or 1-64 symbols in training and 65-128 in testing (recipe "
        "`pushpop`). Solved at: the first test with a coarse accuracy of 0.99 or more on both "
        "lengths, in batches. Size: width of the controller / of the memory. Verdict, = or ≠ the "
        "paper's, by coarse accuracy: solved is 0.97 or more in training and 0.95 or more in "
        "testing, training only 0.97 or more and 0.05 or less, neither 0.05 or less in both, in "
        "part all else. Of 2 finished rows under the paper's recipe, 1 have its verdict; 1 are "
        "within 0.05 of its coarse accuracies in training and in testing, 1 of its four figures."
    )


def test_the_json_table_has_35_rows_of_the_paper_and_ours_below(files: dict[str, str]) -> None:
    rows = json.loads(files["table.json"])
    assert [row["recipe"] for row in rows] == ["paper"] * 35 + ["pushpop"]
    assert len({(row["task"], row["model"]) for row in rows[:35]}) == 35
    assert [row["status"] for row in rows].count("missing") == 32
    by_run = {row["run"]: row for row in rows}
    assert by_run["runs/copy-queue"] == {
        "task": "copy",
        "model": "queue",
        "recipe": "paper",
        "status": "finished",
        "run": "runs/copy-queue",
        "candidates": 1,
        "size": "256/256",
        "learning_rate": 0.001,
        "seed": 0,
        "train_lengths": "8-64",
        "test_lengths": "65-128",
        "batches": 2000,
        "train_coarse": 1.0,
        "train_fine": 1.0,
        "test_coarse": 0.995,
        "test_fine": 0.9975,
        "steps_to_solve": 2000,
        "perplexity": 1.01,
        "paper_train_coarse": 1.0,
        "paper_train_fine": 1.0,
        "paper_test_coarse": 1.0,
        "paper_test_fine": 1.0,
        "verdict": "solved",
        "paper_verdict": "solved",
        "folder": "runs",
        "rung": None,
        "rungs": [],
    }
    assert by_run["runs/copy-lstm2"]["status"] == "unfinished"
    missing = rows[0]
    assert (missing["paper_test_fine"], missing["test_fine"], missing["run"]) == (0.38, None, None)


@pytest.mark.parametrize(
    ("train", "test", "found"),
    [
        (0.97, 0.95, "solved"),
        (1.0, 0.94, "in part"),
        (0.97, 0.05, "training only"),
        (0.96, 0.96, "in part"),
        (0.96, 0.0, "in part"),
        (0.05, 0.05, "neither"),
        (0.05, 0.06, "in part"),
    ],
)
def test_a_verdict_says_on_which_lengths_a_task_is_solved(
    train: float, test: float, found: str
) -> None:
    assert verdict(train, test) == found


def test_the_grammars_rows_can_be_judged_on_the_grammars_own_lengths(tmp_path: Path) -> None:
    small = {"hidden": 64, "memory_width": 64, "memory": "queue"}
    for task in ("copy", "gender", "svo-sov"):
        lengths = {"train_lengths": "3-16", "test_lengths": "17-32"}
        fabricate(tmp_path / "mini" / task, [(1.1, 0.9, 0.0)], task=task, **lengths, **small)
    own = {"train_lengths": "1-32", "test_lengths": "1-32"}
    fabricate(tmp_path / "natural" / "gender", [(1.2, 1.0, 1.0)], task="gender", **own, **small)
    main(["report", str(tmp_path / "mini"), "--grammars", str(tmp_path / "natural")])
    rows = {row["task"]: row for row in json.loads((tmp_path / "mini/table.json").read_text())
            if row["run"]}  # fmt: skip
    found = {task: (row["run"], row["verdict"]) for task, row in rows.items()}
    assert found == {
        "copy": ("mini/copy", "in part"),
        "svo-sov": ("mini/svo-sov", "in part"),
        "gender": ("natural/gender", "solved"),
    }
    table = (tmp_path / "mini" / "table.md").read_text()
    assert "The grammars' rows are judged on the grammars' own lengths (`natural`)." in table
    assert "| 1,000 |  | 64/64 | 0.001 | 0 | mini |" in table
    assert "Of 3 finished rows under the paper's recipe, 1 have its verdict" in table


def test_a_row_of_a_sweep_with_halving_is_finished_with_its_last_rung(tmp_path: Path) -> None:
    last = [(100.0, 0.0, 0.0), (1.1, 1.0, 0.9), (1.0, 1.0, 0.99)]
    for task, ends in (("copy", (1, 1, 2, 3)), ("flip", (1, 1, 1, 2)), ("reverse", (1,))):
        for seed, batches in enumerate(ends):
            run = tmp_path / f"{task}{seed}"
            fabricate(run, last[:batches], task=task, memory="queue", seed=seed, push_bias="drift")
    rows = {row["task"]: row for row in make_report(tmp_path).rows if row["run"]}
    assert {task: (row["status"], row["rung"]) for task, row in rows.items()} == {
        "copy": ("finished", 3),
        "flip": ("unfinished", 2),
        "reverse": ("unfinished", 1),
    }
    assert (rows["copy"]["run"], rows["copy"]["candidates"]) == ("copy3", 4)
    assert rows["copy"]["rungs"] == [1000, 2000, 3000]
    table = make_report(tmp_path).files["table.md"]
    assert "| = solved | 3,000 | 3,000 | 256/256 | 0.001 | 3 | 4 | 3 |" in table
    assert "|  | 2,000 so far |  | 256/256 | 0.001 | 3 | 4 | 2 |" in table
    assert "Of 1 finished rows under the paper's recipe, 1 have its verdict" in table


def test_csv_and_latex_say_the_same(files: dict[str, str]) -> None:
    rows = list(csv.DictReader(files["table.csv"].splitlines()))
    assert len(rows) == 36
    assert rows[35]["learning_rate"] == "0.003"
    assert "Sequence copying & 1-layer LSTM &  &  & 0.62 / 0.87 &" in files["table.tex"]
    assert files["table.tex"].count("\\\\\n") == 1 + 2 + 36
    runs = list(csv.DictReader(files["runs.csv"].splitlines()))
    assert [run["run"] for run in runs] == [
        "runs/copy-lstm2",
        "runs/copy-queue",
        "runs/ours",
        "runs/reverse-stack",
    ]
    assert {run["role"] for run in runs} == {"chosen"}


def test_lengths_have_a_table(files: dict[str, str]) -> None:
    assert files["lengths.md"].splitlines()[2:6] == [
        "| task | model | recipe | 128 | 256 | 1,024 |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        "| Sequence copying | Queue-LSTM | paper | 1.00 / 1.00 |  | 0.50 / 0.75 |",
        "| Sequence copying | DeQue-LSTM | pushpop | 1.00 / 1.00 | 0.75 / 0.88 |  |",
    ]
    assert "seeds.md" not in files


def test_lengths_of_an_earlier_model_are_left_out_with_a_word(results: Path) -> None:
    path = results / "runs" / "ours" / "lengths.json"
    path.write_text(path.read_text().replace("1000", "500"))
    report = make_report(results)
    assert report.notes == [
        "runs/ours: lengths.json is of the model after batch 500, the run's is after 1000: left out"
    ]
    assert "pushpop" not in report.files["lengths.md"]


def test_seeds_of_the_same_run_are_counted_together(results: Path) -> None:
    for seed in (1, 2, 3):
        fabricate(
            results / "seeds" / f"seed{seed}",
            [(2.0, 1.0, 1.0 if seed > 1 else 0.5)] * seed,
            task="reverse",
            hidden=32,
            seed=seed,
            pop_bias=0,
            until_solved=True,
        )
    assert (
        "| Sequence reversal | Stack-LSTM | paper | 32/256 | 0.001 | pop_bias 0.0 | 2 of 3 "
        "| 0.21-0.94 | 1,000 / 1,000 / 1,000 | 3,000 | 60 / 60 / 60 |\n"
        in make_report(results).files["seeds.md"]
    )


@pytest.mark.parametrize(
    ("successes", "trials", "interval"),
    [(5, 5, (0.5655, 1.0)), (0, 5, (0.0, 0.4345)), (48, 50, (0.8654, 0.9890))],
)
def test_shares_have_wilsons_interval(
    successes: int, trials: int, interval: tuple[float, float]
) -> None:
    assert share_interval(successes, trials) == pytest.approx(interval, abs=1e-4)


def test_a_run_counts_by_the_model_that_it_kept(results: Path) -> None:
    for seed, end in ((1, 1.0), (2, 0.5)):
        curve = [(1.5, 1.0, 1.0), (1.0, 1.0, end)]
        fabricate(results / "seeds" / f"seed{seed}", curve, task="flip", seed=seed, hidden=32)
    line = next(x for x in make_report(results).files["seeds.md"].splitlines() if "flipping" in x)
    assert "| 1 of 2 |" in line


def test_all_rows_together_are_those_under_the_recipes_own_options(tmp_path: Path) -> None:
    for task in ("copy", "reverse", "flip"):
        for seed in (0, 1):
            usual = {"hidden": 96, "memory_width": 64} if task != "flip" else {}
            run = tmp_path / f"{task}{seed}"
            curve = [(1.0, 1.0, float(seed or task == "copy"))]
            options: dict[str, Any] = {"task": task, "recipe": "pushpop", "seed": seed}
            fabricate(run, curve, **options, **usual)
    going = {**options, "task": "copy", "seed": 2, "hidden": 96, "memory_width": 64}
    fabricate(tmp_path / "on", [(1.0, 1.0, 1.0)], finished=False, **going)
    lines = make_report(tmp_path).files["seeds.md"].splitlines()
    (together,) = (line for line in lines if line.startswith("| all"))
    assert together == (
        "| all |  | pushpop |  |  |  | 3 of 4, 1 going on | 0.30-0.95 | 1,000 / 1,000 / 1,000 "
        "| 1,000 | 60 / 60 / 60 |"
    )


def test_a_tagger_does_not_stand_for_a_transducer(tmp_path: Path) -> None:
    for form in ("tagger", "transducer"):
        perplexity = 1.0 if form == "tagger" else 2.0
        fabricate(tmp_path / form, [(perplexity, 1.0, 1.0)], task="flip", memory="queue", form=form)
    chosen = [row for row in make_report(tmp_path).rows if row["run"]]
    assert [row["run"] for row in chosen] == ["transducer"]


def test_recipes_and_lengths_of_their_own_do_not_ask_for_all_rows_of_the_paper(
    tmp_path: Path,
) -> None:
    ours: dict[str, Any] = {"task": "copy", "memory": "deque", "recipe": "pushpop"}
    fabricate(tmp_path / "ours" / "copy", [(1.0, 1.0, 1.0)], **ours)
    rows = make_report(tmp_path / "ours").rows
    assert [(row["recipe"], row["task"], row["train_lengths"]) for row in rows] == [
        ("pushpop", "copy", "1-64")
    ]
    short = {"task": "gender", "memory": "queue", "train_lengths": "5-9", "test_lengths": "5-9"}
    fabricate(tmp_path / "short" / "gender", [(1.0, 1.0, 1.0)], **short)
    assert {row["task"] for row in make_report(tmp_path / "short").rows} == {"gender"}


def test_runs_on_files_of_pairs_are_left_out_with_a_word(results: Path) -> None:
    fabricate(results / "words", [(1.0, 1, 1)], task="words.tsv")
    report = make_report(results)
    assert report.notes == ["runs on files of pairs are left out: 1"]
    assert "words" not in report.files["runs.csv"]


def test_runs_on_files_alone_are_reported_with_learning_curves(tmp_path: Path) -> None:
    path = fabricate(tmp_path / "words", [(1.0, 1, 1)], task="words.tsv")
    valid = [{"step": step, "valid": {"accuracy": step / 100}} for step in (10, 50)]
    (path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in valid))
    parts = [{"lengths": [2, 2], "accuracy": 1.0}, {"lengths": [3, 7], "accuracy": 0.5}]
    told = {"by_length": parts, "without_memory": 0.25, "valid": {"accuracy": 0.5}}
    report = json.loads((path / "report.json").read_text())
    (path / "report.json").write_text(json.dumps(report | told))
    fabricate(tmp_path / "going", [(1.0, 1, 1)], finished=False, task="lines.txt")
    made = make_report(tmp_path)
    assert "| words | deque |" in made.files["table.md"]
    assert "| 50.0% |  | 25.0% |" in made.files["table.md"]
    for text in (">accuracy, validation<", ">3-7<", ">2<", ">dotted: without memory<"):
        assert text in made.files["learning.svg"]
    assert made.files == make_report(tmp_path).files


def test_the_same_runs_give_the_same_bytes(files: dict[str, str], results: Path) -> None:
    assert make_report(results).files == files


def test_the_page_needs_nothing_else(files: dict[str, str]) -> None:
    page = files["report.html"]
    assert not re.findall(r'(?:src|href)="(?!#)|url\((?!#)|@import|<script|<link', page)
    assert page.count("<svg ") == 4
    rule = "For every recipe, task and model, the run with the lowest average training perplexity"
    assert rule in page
    assert "Test accuracy plays no part." in page
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {"convergence.svg", "convergence-pushpop.svg", "accuracy-by-length.svg"} <= files.keys()


def test_figures_in_the_page_have_its_colours_light_or_dark(files: dict[str, str]) -> None:
    assert "fill: #ffffff" in files["convergence.svg"]
    page = files["report.html"]
    assert "#ffffff" not in page
    assert page.count("currentColor") > 100
    assert "`" not in page


def test_a_line_that_is_being_written_does_not_count(files: dict[str, str], results: Path) -> None:
    with open(results / "runs" / "copy-lstm2" / "metrics.jsonl", "a") as log:
        log.write('{"step": 2000, "perpl')
    assert make_report(results).files == files


def test_a_broken_file_is_named(results: Path, capsys: Captured) -> None:
    log = results / "runs" / "ours" / "metrics.jsonl"
    log.write_text(log.read_text() + "nonsense\n")
    assert refused(["report", str(results)], capsys) == (
        f"pushpop: {log}:2: 'nonsense', expected a JSON object with a step\n"
    )
    log.unlink()
    lengths = log.parent / "lengths.json"
    lengths.write_text("{}")
    assert f"pushpop: {lengths}: expected a step and" in refused(["report", str(results)], capsys)


def test_a_report_needs_no_torch(results: Path) -> None:
    code = (
        "import sys; from pushpop.cli import main; main(['report', sys.argv[1]]); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(results)], check=False).returncode == 0


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: Captured) -> None:
    assert "no run in it" in refused(["report", str(tmp_path)], capsys)
    assert "no such folder" in refused(["report", str(tmp_path / "nothing")], capsys)


def test_the_command_writes_the_files_and_prints_the_table(
    files: dict[str, str], results: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "out"
    main(["report", str(results), "--out", str(out)])
    assert {path.name: path.read_text() for path in out.iterdir()} == files
    assert capsys.readouterr().out == files["table.md"]


def test_without_matplotlib_there_are_tables_only(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = make_report(results)
    assert report.notes == ["no figures: they need matplotlib (pip install 'pushpop[plot]')"]
    assert not [name for name in report.files if name.endswith(".svg")]


def test_tables_go_into_a_page_between_their_marks(
    files: dict[str, str], results: Path, tmp_path: Path, capsys: Captured
) -> None:
    page = tmp_path / "page.md"
    (begin, end), (lengths, after) = (marks(results, name) for name in ("table.md", "lengths.md"))
    assert begin == "<!-- results/table.md -->"
    page.write_text(f"before\n{lengths}\n{after}\n{begin}\nold\n{end}\nend\n")
    main(["report", str(results), "--page", str(page)])
    table, of_lengths = files["table.md"], files["lengths.md"]
    wanted = f"before\n{lengths}\n{of_lengths}{after}\n{begin}\n{table}{end}\nend\n"
    assert page.read_text() == wanted
    assert not put_into_page(make_report(results), results, page)
    page.write_text(f"{begin}\nold\n")
    message = refused(["report", str(results), "--page", str(page)], capsys)
    assert f"{page}: {begin}: expected once, with a line {end} after it" in message
    page.write_text("no marks\n")
    message = refused(["report", str(results), "--page", str(page)], capsys)
    assert f"{page}: expected a line {begin} and, after it, a line {end}" in message


def test_collected_runs_are_small_and_give_the_same_report(
    results: Path, tmp_path: Path, capsys: Captured
) -> None:
    run = results / "runs" / "copy-queue"
    (run / "checkpoints").mkdir()
    (run / "model.safetensors").write_bytes(b"big")
    head = '{"step": %d, "perplexity": 50.0, "learning_rate": 0.001, "longest": 64}\n'
    log = run / "metrics.jsonl"
    log.write_text("".join(head % step for step in range(1, 999)) + log.read_text())
    before = make_report(results)
    copies = tmp_path / "copies"
    for _ in range(2):
        main(["report", str(results), "--collect", str(copies)])
    assert "4 runs copied into" in capsys.readouterr().out
    assert make_report(copies).files == before.files
    assert [path.name for path in copies.iterdir()] == ["runs.jsonl.gz"]
    (packed,) = (run for run in read_packed(copies / "runs.jsonl.gz") if "queue" in run.name)
    assert len(packed.metrics) < 400


def test_the_same_runs_are_packed_into_the_same_bytes(results: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        main(["report", str(results), "--collect", str(tmp_path / name)])
    packed = tmp_path / "one" / "runs.jsonl.gz"
    before = packed.read_bytes()
    assert (tmp_path / "other" / "runs.jsonl.gz").read_bytes() == before
    main(["report", str(tmp_path / "other"), "--collect", str(tmp_path / "one")])
    assert packed.read_bytes() == before


def test_a_packed_run_is_the_run(results: Path, tmp_path: Path) -> None:
    lengths = results / "runs" / "ours" / "lengths.json"  # a perplexity may be more than a float
    lengths.write_text(lengths.read_text().replace('"fine"', '"perplexity": Infinity, "fine"'))
    main(["report", str(results), "--collect", str(tmp_path / "packed")])
    copy = {run.name: run for run in read_results(tmp_path / "packed")}
    for run in read_results(results):
        assert replace(copy[run.name], path=run.path) == run


def test_runs_are_added_to_those_packed_before_and_renewed(results: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    for folder in (results, fabricate_results(tmp_path / "again")):
        main(["report", str(folder), "--collect", str(packed)])
        shutil.rmtree(folder / "runs" / "copy-queue")
        fabricate(folder / "runs" / "new", [(1.0, 1.0, 1.0)], task="flip")
    report = packed.parent / "again" / "runs" / "ours" / "report.json"
    report.write_text(report.read_text().replace('"seconds": 60.0', '"seconds": 61.0'))
    main(["report", str(tmp_path / "again"), "--collect", str(packed)])
    runs = {run.name: run for run in read_packed(packed / "runs.jsonl.gz")}
    names = ("copy-lstm2", "copy-queue", "new", "ours", "reverse-stack")
    assert list(runs) == [f"runs/{name}" for name in names]
    assert runs["runs/ours"].report is not None
    assert runs["runs/ours"].report["seconds"] == 61


def test_a_folder_may_have_packed_runs_beside_directories(results: Path, tmp_path: Path) -> None:
    before = make_report(results).files
    main(["report", str(results), "--collect", str(tmp_path)])
    shutil.rmtree(results / "runs" / "copy-queue")
    shutil.rmtree(results / "runs" / "ours")
    shutil.copy(tmp_path / "runs.jsonl.gz", results)
    assert make_report(results).files == before


def test_runs_are_not_packed_beside_their_own_directories(results: Path, capsys: Captured) -> None:
    message = refused(["report", str(results), "--collect", str(results)], capsys)
    assert "is a run directory, expected a folder for packed runs" in message


def test_a_broken_packed_file_is_named(results: Path, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "packed" / "runs.jsonl.gz"
    main(["report", str(results), "--collect", str(path.parent)])
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    no_width = lines[1].replace(b'"hidden": 256', b'"hidden": 0')
    broken = {
        "not a file of packed runs": path.read_bytes()[:-9],
        ":3: not a packed run": gzip.compress(lines[0] + lines[1] + b"{}\n"),
        ":2: hidden is 0": gzip.compress(lines[0] + no_width),
    }
    for what, data in broken.items():
        path.write_bytes(data)
        message = refused(["report", str(path.parent)], capsys)
        assert message.startswith(f"pushpop: {path}")
        assert what in message


def test_another_run_is_not_overwritten_by_a_copy(
    results: Path, tmp_path: Path, capsys: Captured
) -> None:
    fabricate(tmp_path / "other" / "runs" / "ours", [(1, 1, 1)], seed=9)
    main(["report", str(tmp_path / "other"), "--collect", str(tmp_path / "copies")])
    message = refused(["report", str(results), "--collect", str(tmp_path / "copies")], capsys)
    assert "holds another run than" in message


PAGES = ("README.md", "docs/results.md", "docs/chomsky.md")
MARKED = [
    (page, *mark)
    for page in PAGES
    for mark in re.findall(r"^<!-- ([\w-]+)/(\S+) -->$", (ROOT / page).read_text("utf-8"), re.M)
]


@cache
def report_on(name: str) -> Report:
    """The report on a folder of results/, or on all of it."""
    return make_report(ROOT / "results" / ("" if name == "results" else name))


@pytest.mark.parametrize(("page", "folder", "table"), MARKED)
def test_pages_have_the_tables_of_the_results(page: str, folder: str, table: str) -> None:
    begin, end = marks(ROOT / folder, table)
    text = (ROOT / page).read_text("utf-8").partition(f"{begin}\n")[2].partition(end)[0]
    assert text == report_on(folder).files[table]


@pytest.mark.parametrize("path", PACKED, ids=lambda path: path.parent.name)
def test_results_are_as_collect_packs_them(path: Path) -> None:
    head, *rows = gzip.decompress(path.read_bytes()).splitlines()
    again_head, *again_rows = gzip.decompress(pack(read_packed(path))).splitlines()
    assert again_rows == rows
    wanted, again = json.loads(head), json.loads(again_head)
    added = again["options"].keys() - wanted["options"].keys()  # since the runs were packed
    wanted["options"] |= {name: DEFAULTS[name] for name in added}
    assert again == wanted


def test_results_are_few_files_and_nothing_that_a_report_makes() -> None:
    files = [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert len(files) <= 60
    made = {"report.html", "runs.csv", *(f"table.{form}" for form in ("md", "csv", "tex", "json"))}
    assert not made & {path.name for path in files}


def test_every_row_of_the_paper_is_a_finished_run_at_a_quarter_of_its_size() -> None:
    rows = json.loads(report_on("mini").files["table.json"])
    assert len({(row["task"], row["model"]) for row in rows}) == len(rows) == 35
    assert {row["status"] for row in rows} == {"finished"}


def test_every_row_of_the_paper_is_a_finished_run() -> None:
    rows = json.loads(report_on("results").files["table.json"])
    paper = [row for row in rows if row["recipe"] == "paper"]
    assert len({(row["task"], row["model"]) for row in paper}) == len(paper) == 35
    assert {row["status"] for row in rows} == {"finished"}
    assert {row["recipe"] for row in rows} == {"paper", "pushpop"}
