"""Smaller tables of a report: sizes, accuracy against length, success over seeds, all runs."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import median

from pushpop.experiments.paper import PAPER_MODELS, PAPER_TASKS
from pushpop.experiments.presets import identity
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord
from pushpop.experiments.selection import Choice, nonstandard_options, usual_options
from pushpop.experiments.sizes import size_rows

SHOWN = {
    "task",
    "recipe",
    "memory",
    "cell",
    "form",
    "layers",
    "hidden",
    "memory_width",
    "push_bias",
    "pop_bias",
    "seed",
    "train_lengths",
    "test_lengths",
    "learning_rate",
    "steps",
}
"""Options that are a column of runs.csv."""
SIZES = ("hidden", "memory_width", "learning_rate")
Lines = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Summary:
    """A table: a title, a sentence, headers and lines; written under its name."""

    name: str
    title: str
    note: str
    headers: tuple[str, ...]
    lines: Lines


def size_table() -> Summary:
    """The paper's model sizes beside ours."""
    lines = [
        (row.model, str(row.hidden), row.paper, f"{row.size.core:,}", row.off)
        for row in size_rows()
    ]
    return Summary(
        "sizes",
        "Model sizes",
        "Parameters of the recurrent core, as the paper counts them: without embeddings and "
        "initial states.",
        ("model", "hidden", "paper", "ours", "off"),
        lines,
    )


def length_table(choices: list[Choice]) -> Summary:
    """Accuracy at single lengths, far beyond those of training."""
    runs = [choice.run for choice in choices if choice.run and choice.run.measured_lengths]
    lengths = sorted({length for run in runs for length in run.measured_lengths})
    lines = []
    for run in runs:
        found = run.measured_lengths
        figures = [
            f"{found[n]['coarse']:.2f} / {found[n]['fine']:.2f}" if n in found else ""
            for n in lengths
        ]
        lines.append((*_names(run), run.config.recipe, *figures))
    return Summary(
        "lengths",
        "Accuracy at single lengths",
        "Coarse / fine accuracy on sources of exactly so many symbols.",
        ("task", "model", "recipe", *(f"{length:,}" for length in lengths)),
        lines,
    )


def seed_table(runs: list[RunRecord]) -> Summary:
    """Of runs that differ in nothing but the seed, how many solve their task."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(_without_seed(run), []).append(run)
    lines = []
    for group in groups.values():
        if len(group) < 2:
            continue
        one = group[0].config
        options = (one.recipe, group[0].size, f"{one.learning_rate:g}", nonstandard_options(one))
        lines.append((*_names(group[0]), *options, *_success(group)))
    lines += _all_together(list(groups.values()))
    return Summary(
        "seeds",
        "Success over seeds",
        "Runs that differ in nothing but the seed. Solved: the model that the run kept has a "
        f"coarse accuracy of {SOLVED_ACCURACY} or more on both lengths, on fresh draws; beside it "
        "the 95 % interval of that share (Wilson's). At: the first such test, in batches. Batches: "
        "of the longest run. Seconds of a whole run. Three figures: least / median / most.",
        (
            *("task", "model", "recipe", "size", "rate", "other options"),
            *("solved", "95 %", "at", "batches", "seconds"),
        ),
        lines,
    )


def _all_together(groups: list[list[RunRecord]]) -> list[tuple[str, ...]]:
    """A line for each recipe with several rows of seeds, all under the recipe's own options."""
    found: dict[str, list[list[RunRecord]]] = {}
    for group in groups:
        config = group[0].config
        usual = usual_options(config)
        own = all(getattr(config, name) == usual[name] for name in SIZES)
        if len(group) > 1 and own and not nonstandard_options(config):
            found.setdefault(config.recipe, []).append(group)
    return [
        ("all", "", recipe, "", "", "", *_success([run for group in rows for run in group]))
        for recipe, rows in found.items()
        if len(rows) > 1
    ]


def share_interval(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z, share = 1.96, successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _success(runs: list[RunRecord]) -> tuple[str, ...]:
    """How many solve their task, the interval of that share, when, the most batches, seconds."""
    finished = [run for run in runs if run.report is not None]
    solved = sum(run.solved for run in finished)
    low, high = share_interval(solved, len(finished)) if finished else (0.0, 1.0)
    going = f", {len(runs) - len(finished)} going on" if len(finished) < len(runs) else ""
    when = [run.solved_at for run in finished if run.solved and run.solved_at is not None]
    seconds = [float(run.report["seconds"]) for run in finished if run.report is not None]
    return (
        f"{solved} of {len(finished)}{going}",
        f"{low:.2f}-{high:.2f}",
        _spread(when),
        f"{max(run.step for run in runs):,}",
        _spread(seconds),
    )


def _spread(values: Sequence[float]) -> str:
    """Least, middle and largest."""
    if not values:
        return ""
    return f"{min(values):,.0f} / {median(values):,.0f} / {max(values):,.0f}"


def all_runs_csv(runs: list[RunRecord], choices: list[Choice]) -> str:
    """A line a run."""
    chosen = {choice.run.name for choice in choices if choice.run is not None}
    candidates = {run.name for choice in choices for run in choice.candidates}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    options = [name for name in runs[0].config.to_dict() if name in SHOWN]
    grains = [f"{part}_{grain}" for part in ("train", "test") for grain in ("coarse", "fine")]
    head = ("run", "role", *options, "batches", "finished", "kept_step", *grains)
    writer.writerow([*head, "steps_to_solve", "perplexity"])
    for run in runs:
        role = "chosen" if run.name in chosen else "candidate" if run.name in candidates else ""
        values = run.config.to_dict()
        found = run.accuracies
        figures = [
            round(found[name.split("_")[0]][name.split("_")[1]], 4) if found else ""
            for name in grains
        ]
        line = [run.name, role, *(values[name] for name in options), run.step]
        line += [run.report is not None, run.kept_step, *figures, run.solved_at]
        writer.writerow([*line, None if run.perplexity is None else round(run.perplexity, 4)])
    return out.getvalue()


def _names(run: RunRecord) -> tuple[str, str]:
    return PAPER_TASKS.get(run.config.task, run.config.task), PAPER_MODELS.get(run.model, run.model)


def _without_seed(run: RunRecord) -> str:
    return identity(replace(run.config, seed=0))
