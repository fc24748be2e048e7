"""The Chomsky-hierarchy benchmark: the table of scores beside the published ones, and its figures.

The score of a run is its accuracy per symbol on the test lengths, which are drawn uniformly from 41
to 500: an estimate of the published score, the mean over all these lengths.
"""

import json
from functools import cache
from importlib.resources import files
from statistics import mean
from typing import Any

from pushpop.experiments.figures import length_panels
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord
from pushpop.experiments.tables import Row, Table
from pushpop.tasks import get_task
from pushpop.tasks.chomsky import PREFIX, ChomskyTask

LEVELS = {
    "regular": ("even-pairs", "modular-arithmetic", "parity", "cycle-navigation"),
    "context-free": (
        "stack-manipulation",
        "reverse",
        "modular-arithmetic-brackets",
        "solve-equation",
    ),
    "context-sensitive": (
        "duplicate",
        "missing-duplicate",
        "odds-first",
        "binary-addition",
        "binary-multiplication",
        "square-root",
        "bucket-sort",
    ),
}
"""The tasks by the level of the hierarchy that they are at, in the paper's order."""
COUNTERPARTS = {
    "rnn1": "RNN",
    "lstm1": "LSTM",
    "superposition": "Stack-RNN",
    "stack": "Stack-RNN",
    "queue": "Tape-RNN",
    "deque": "Tape-RNN",
    "tape": "Tape-RNN",
}
"""The published model that each of ours stands beside. The published tape is told the length of
its input; none of ours is."""


def is_chomsky(run: RunRecord) -> bool:
    """Whether a run is on a task of the benchmark."""
    return run.config.task.startswith(PREFIX)


@cache
def published() -> dict[str, Any]:
    """The published scores, and where they were read."""
    text = (files("pushpop.experiments") / "chomsky.json").read_text("utf-8")
    return dict(json.loads(text))


def score_rows(runs: list[RunRecord]) -> list[Row]:
    """A row for each task and model of which there is a finished run, in the paper's order."""
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        if run.report is not None:
            groups.setdefault((run.config.task.removeprefix(PREFIX), run.model), []).append(run)
    return [
        _score_row(level, task, model, groups[task, model])
        for level, tasks in LEVELS.items()
        for task in tasks
        for model in _in_order({model for trained, model in groups if trained == task})
    ]


def _score_row(level: str, task: str, model: str, runs: list[RunRecord]) -> Row:
    reports = [run.report for run in runs if run.report is not None]
    scores = [report["test"]["accuracy"] for report in reports]
    counterpart, known = COUNTERPARTS.get(model), published()
    theirs = None
    if counterpart is not None:
        theirs = known["mean"][task][known["models"].index(counterpart)] / 100
    best, average = round(max(scores), 4), round(mean(scores), 4)
    shown = f"{best:.3f} / {average:.3f}" if len(runs) > 1 else f"{best:.3f}"
    values = {
        "task": task,
        "model": model,
        "level": level,
        "seeds": len(runs),
        "max": best,
        "mean": average,
        "chance": _chance(PREFIX + task),
        "parameters": max(report["parameters"] for report in reports),
        "batches": max(run.step for run in runs),  # of the longest run
        "test_lengths": runs[0].config.test_lengths,
        "published_model": counterpart,
        "published_max": None,  # none that could be checked
        "published_mean": None if theirs is None else round(theirs, 4),
        "published_source": None if theirs is None else known["source"],
    }
    return Row((f"**{shown}**" if best >= SOLVED_ACCURACY else shown,), values)


def _chance(name: str) -> float:
    task = get_task(name)
    assert isinstance(task, ChomskyTask)
    return task.chance


def _in_order(models: set[str]) -> list[str]:
    known = list(COUNTERPARTS)
    return sorted(models, key=lambda name: (known.index(name) if name in known else 99, name))


def score_table(rows: list[Row]) -> Table:
    """A line a task, a column a model: best seed / mean over seeds, or the one seed there is. Bold
    where the best seed has solved the task."""
    models = _in_order({row["model"] for row in rows})
    cells = {(row["task"], row["model"]): row.cells for row in rows}
    lines = []
    for task, row in {row["task"]: row for row in rows}.items():
        scores = [cell for model in models for cell in cells.get((task, model), ("",))]
        best, whose = best_published(task)
        theirs = f"{best:.3f} {whose[0] if len(whose) == 1 else f'{len(whose)} models'}"
        lines.append(Row((task, row["level"], f"{row['chance']:.2f}", *scores, theirs)))
    several = sorted({row["seeds"] for row in rows if row["seeds"] > 1})
    meaning = "of one seed"
    if several:
        counts = " to ".join(dict.fromkeys(map(str, (several[0], several[-1]))))
        meaning = f"best seed / mean over {counts} seeds"
    if several and any(row["seeds"] == 1 for row in rows):
        meaning += ", or one figure of one seed"
    lengths = ", ".join(sorted({row["test_lengths"] for row in rows}))
    note = (
        f"Accuracy per symbol on sources of {lengths} symbols, {meaning}; bold: {SOLVED_ACCURACY} "
        f"or more with the best seed. Published: {published()['source']}."
    )
    headers = ("task", "level", "chance", *models, "best published mean")
    return Table("table", "", note, headers, lines)


def best_published(task: str) -> tuple[float, list[str]]:
    """The highest published mean on a task, and the models that have it."""
    known = published()
    best = max(known["mean"][task])
    pairs = zip(known["models"], known["mean"][task], strict=True)
    return best / 100, [name for name, mean in pairs if mean == best]


def score_figures(runs: list[RunRecord]) -> dict[str, tuple[str, str]]:
    """For each level, a title and an SVG of accuracy against length, of the best seed of each."""
    figures = {}
    for level, names in LEVELS.items():
        panels: dict[str, list[RunRecord]] = {}
        for task in (PREFIX + name for name in names):
            here = [run for run in runs if run.config.task == task]
            measured = [run for run in here if run.report is not None and run.measured_lengths]
            best: dict[str, RunRecord] = {}
            for run in sorted(measured, key=lambda run: run.report["test"]["accuracy"]):  # type: ignore[index]
                best[run.model] = run
            if best:
                panels[task] = [best[model] for model in _in_order(set(best))]
        if panels:
            title = f"Accuracy against length, {level} tasks"
            chance = {task: _chance(task) for task in panels}
            figures[f"accuracy-{level}"] = (title, length_panels(panels, "accuracy", chance))
    return figures
