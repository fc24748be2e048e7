"""The Chomsky-hierarchy benchmark: scores beside the published ones, and what its figures show.

The score of a run is its accuracy per symbol on the test lengths, which are drawn uniformly from 41
to 500: an estimate of the published score, the mean over all these lengths. The published tape is
told the length of its input; none of ours is.
"""

import json
from importlib.resources import files
from statistics import mean
from typing import Any

from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord
from pushpop.tasks import get_task
from pushpop.tasks.chomsky import PREFIX, ChomskyTask

PUBLISHED = json.loads((files("pushpop.experiments") / "chomsky.json").read_text("utf-8"))
"""The published scores in per cent, and where they were read."""
LEVELS: dict[str, list[str]] = PUBLISHED["levels"]
"""The tasks by the level of the hierarchy that they are at, in the order of the publication."""
COUNTERPARTS: dict[str, str] = PUBLISHED["counterparts"]
"""The published model that each of ours stands beside."""


def is_chomsky(run: RunRecord) -> bool:
    """Whether a run is on a task of the benchmark."""
    return run.config.task.startswith(PREFIX)


def score_rows(runs: list[RunRecord]) -> list[dict[str, Any]]:
    """A row for each task and model of which there is a finished run, in the published order."""
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


def _score_row(level: str, task: str, model: str, runs: list[RunRecord]) -> dict[str, Any]:
    reports = [run.report for run in runs if run.report is not None]
    scores = [report["test"]["accuracy"] for report in reports]
    counterpart, theirs = COUNTERPARTS.get(model), None
    if counterpart is not None:
        theirs = round(PUBLISHED["mean"][task][PUBLISHED["models"].index(counterpart)] / 100, 4)
    return {
        "task": task,
        "model": model,
        "level": level,
        "seeds": len(runs),
        "max": round(max(scores), 4),
        "mean": round(mean(scores), 4),
        "chance": _chance(PREFIX + task),
        "parameters": max(report["parameters"] for report in reports),
        "batches": max(run.step for run in runs),  # of the longest run
        "test_lengths": runs[0].config.test_lengths,
        "published_model": counterpart,
        "published_max": None,  # none that could be checked
        "published_mean": theirs,
        "published_source": None if theirs is None else PUBLISHED["source"],
    }


def _chance(name: str) -> float:
    task = get_task(name)
    assert isinstance(task, ChomskyTask)
    return task.chance


def _in_order(models: set[str]) -> list[str]:
    known = list(COUNTERPARTS)
    return sorted(models, key=lambda name: (known.index(name) if name in known else 99, name))


def score_lines(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """A line a task, a column a model: best seed / mean over seeds, or the one seed there is, bold
    where the best seed has solved the task; and what that means in words."""
    scores: dict[str, dict[str, Any]] = {}
    for row in rows:
        shown = f"{row['max']:.3f}" + (f" / {row['mean']:.3f}" if row["seeds"] > 1 else "")
        solved = row["max"] >= SOLVED_ACCURACY
        scores.setdefault(row["task"], row | {"scores": {}})["scores"][row["model"]] = (
            f"**{shown}**" if solved else shown
        )
    models, lines = _in_order({row["model"] for row in rows}), []
    for task, row in scores.items():
        best = max(PUBLISHED["mean"][task])
        means = zip(PUBLISHED["models"], PUBLISHED["mean"][task], strict=True)
        whose = [name for name, mean in means if mean == best]
        line = {"task": task, "level": row["level"], "chance": f"{row['chance']:.2f}"}
        line |= {model: row["scores"].get(model, "") for model in models}
        theirs = f"{best / 100:.3f} {whose[0] if len(whose) == 1 else f'{len(whose)} models'}"
        lines.append(line | {"best published mean": theirs})
    several = sorted({row["seeds"] for row in rows if row["seeds"] > 1})
    meaning = "of one seed"
    if several:
        counts = " to ".join(dict.fromkeys(map(str, (several[0], several[-1]))))
        meaning = f"best seed / mean over {counts} seeds"
    if several and any(row["seeds"] == 1 for row in rows):
        meaning += ", or one figure of one seed"
    lengths = ", ".join(sorted({row["test_lengths"] for row in rows}))
    return lines, (
        f"Accuracy per symbol on sources of {lengths} symbols, {meaning}; bold: {SOLVED_ACCURACY} "
        f"or more with the best seed. Published: {PUBLISHED['source']}."
    )


def score_panels(
    runs: list[RunRecord],
) -> dict[str, tuple[dict[str, list[RunRecord]], str, dict[str, float]]]:
    """What `accuracy_by_length` is given to draw a level: the best seed of each model by task, the
    figure to show, and chance."""
    measured = [run for run in runs if run.report is not None and run.measured_lengths]
    figures = {}
    for level, names in LEVELS.items():
        panels = {}
        for task in (PREFIX + name for name in names):
            here = [run for run in measured if run.config.task == task]
            here.sort(key=lambda run: run.report["test"]["accuracy"])  # type: ignore[index]
            best = {run.model: run for run in here}
            if best:
                panels[task] = [best[model] for model in _in_order(set(best))]
        if panels:
            figures[f"accuracy-{level}"] = panels, "accuracy", {t: _chance(t) for t in panels}
    return figures
