"""The Chomsky-hierarchy benchmark: the table of scores beside the published ones, and its figures.

The score of a run is its accuracy per symbol on the test lengths, which are drawn uniformly from 41
to 500: an estimate of the published score, the mean over all these lengths.
"""

import csv
import io
import json
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from statistics import mean
from typing import Any

from pushpop.experiments.figures import length_panels
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord
from pushpop.experiments.table import markdown_table
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


@dataclass(frozen=True)
class ScoreRow:
    """A line of table.json: a model on a task."""

    task: str
    model: str
    level: str
    seeds: int
    max: float
    mean: float
    chance: float
    parameters: int
    batches: int  # of the longest run
    test_lengths: str
    published_model: str | None
    published_max: float | None
    published_mean: float | None
    published_source: str | None


def is_chomsky(run: RunRecord) -> bool:
    """Whether a run is on a task of the benchmark."""
    return run.config.task.startswith(PREFIX)


@cache
def published() -> dict[str, Any]:
    """The published scores, and where they were read."""
    text = (files("pushpop.experiments") / "chomsky.json").read_text("utf-8")
    return dict(json.loads(text))


def score_rows(runs: list[RunRecord]) -> list[ScoreRow]:
    """A row for each task and model of which there is a finished run, in the paper's order."""
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        if run.report is not None:
            groups.setdefault((run.config.task.removeprefix(PREFIX), run.model), []).append(run)
    return [
        _row(level, task, model, groups[task, model])
        for level, tasks in LEVELS.items()
        for task in tasks
        for model in _in_order({model for found, model in groups if found == task})
    ]


def _row(level: str, task: str, model: str, runs: list[RunRecord]) -> ScoreRow:
    reports = [run.report for run in runs if run.report is not None]
    scores = [report["test"]["accuracy"] for report in reports]
    beside, known = COUNTERPARTS.get(model), published()
    theirs = None
    if beside is not None:
        theirs = known["mean"][task][known["models"].index(beside)] / 100
    return ScoreRow(
        task=task,
        model=model,
        level=level,
        seeds=len(runs),
        max=round(max(scores), 4),
        mean=round(mean(scores), 4),
        chance=_chance(PREFIX + task),
        parameters=max(report["parameters"] for report in reports),
        batches=max(run.step for run in runs),
        test_lengths=runs[0].config.test_lengths,
        published_model=beside,
        published_max=None,  # none that could be checked
        published_mean=None if theirs is None else round(theirs, 4),
        published_source=None if theirs is None else known["source"],
    )


def _chance(name: str) -> float:
    task = get_task(name)
    assert isinstance(task, ChomskyTask)
    return task.chance


def _in_order(models: set[str]) -> list[str]:
    known = list(COUNTERPARTS)
    return sorted(models, key=lambda name: (known.index(name) if name in known else 99, name))


def score_files(runs: list[RunRecord]) -> dict[str, str]:
    """The tables of a report, by file name."""
    rows = score_rows(runs)
    lines = ",\n".join(f" {json.dumps(asdict(row))}" for row in rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, [each.name for each in fields(ScoreRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return {
        "table.json": f"[\n{lines}\n]\n",
        "table.csv": out.getvalue(),
        "table.md": scores_markdown(rows),
    }


def scores_markdown(rows: list[ScoreRow]) -> str:
    """A line a task, a column a model: best seed / mean over seeds, or the one seed there is. Bold
    where the best seed has solved the task."""
    models = _in_order({row.model for row in rows})
    found = {(row.task, row.model): row for row in rows}
    body = []
    for task in dict.fromkeys(row.task for row in rows):
        one = next(row for row in rows if row.task == task)
        cells = [_cell(found.get((task, model))) for model in models]
        best, whose = best_published(task)
        theirs = f"{best:.3f} {whose[0] if len(whose) == 1 else f'{len(whose)} models'}"
        body.append((task, one.level, f"{one.chance:.2f}", *cells, theirs))
    headers = ("task", "level", "chance", *models, "best published mean")
    several = sorted({row.seeds for row in rows if row.seeds > 1})
    meaning = "of one seed"
    if several:
        counts = " to ".join(dict.fromkeys(map(str, (several[0], several[-1]))))
        meaning = f"best seed / mean over {counts} seeds"
    if several and any(row.seeds == 1 for row in rows):
        meaning += ", or one figure of one seed"
    lengths = ", ".join(sorted({row.test_lengths for row in rows}))
    return (
        f"{markdown_table(headers, body)}\nAccuracy per symbol on sources of {lengths} symbols, "
        f"{meaning}; bold: {SOLVED_ACCURACY} or more with the best seed. "
        f"Published: {published()['source']}.\n"
    )


def best_published(task: str) -> tuple[float, list[str]]:
    """The highest published mean on a task, and the models that have it."""
    known = published()
    best = max(known["mean"][task])
    pairs = zip(known["models"], known["mean"][task], strict=True)
    return best / 100, [name for name, mean in pairs if mean == best]


def _cell(row: ScoreRow | None) -> str:
    if row is None:
        return ""
    shown = f"{row.max:.3f} / {row.mean:.3f}" if row.seeds > 1 else f"{row.max:.3f}"
    return f"**{shown}**" if row.max >= SOLVED_ACCURACY else shown


def score_figures(runs: list[RunRecord]) -> dict[str, tuple[str, str]]:
    """For each level, a title and an SVG of accuracy against length, of the best seed of each."""
    found = {}
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
            found[f"accuracy-{level}"] = (title, length_panels(panels, "accuracy", chance))
    return found
