"""How much earlier do models with a memory converge?

    python benchmarks/convergence.py [FOLDER]    writes results/convergence.json and
                                                 docs/figures/convergence.png

FOLDER holds the paper's rows (by default results/mini). For each task: the batches after which the
best memory first reaches the lowest training perplexity that any LSTM of the same folder reaches,
beside the batches that the LSTM needs for it. A row is the run that a report shows.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from machine import write_results
from pushpop.experiments.paper import PAPER_TASKS, choose
from pushpop.experiments.runs import read_results

COLOURS = {"stack": "#b5442c", "queue": "#0b7a75", "deque": "#6b4fa0"}
FLOOR = 0.0005
"""Perplexity minus 1 below which nothing is drawn."""

Curve = list[tuple[int, float]]


def main() -> None:
    root = Path(__file__).parents[1]
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "results" / "mini"
    curves: dict[str, dict[str, Curve]] = {}
    chosen = [row.run for row in choose(read_results(folder)) if row.run is not None]
    for run in sorted(chosen, key=lambda run: run.name):
        reported = [(r["step"], r["perplexity"]) for r in run.metrics if "perplexity" in r]
        curves.setdefault(run.config.task, {})[run.model] = reported
    rows = [compare(task, curves[task]) for task in PAPER_TASKS]
    for row in rows:
        print(row)
    write_results("convergence", {"folder": folder.name, "rows": rows})
    draw(curves, root / "docs" / "figures" / "convergence.png")


def compare(task: str, models: dict[str, Curve]) -> dict[str, Any]:
    """Batches of the first memory and of the first LSTM to the best LSTM's perplexity."""
    limit = min(lowest(curve) for model, curve in models.items() if model.startswith("lstm"))
    reached = {model: first_below(curve, limit) for model, curve in models.items()}
    memory = min(
        (model for model in COLOURS if reached.get(model) is not None),
        key=lambda model: reached[model] or 0,
    )
    lstm = next(m for m in models if m.startswith("lstm") and reached[m] is not None)
    batches = {"memory": reached[memory], "lstm": reached[lstm]}
    ratio = round((batches["lstm"] or 0) / (batches["memory"] or 1), 1)
    return {
        "task": task,
        "perplexity": round(limit, 4),
        "memory": memory,
        "memory_batches": batches["memory"],
        "lstm": lstm,
        "lstm_batches": batches["lstm"],
        "times_earlier": ratio,
    }


def lowest(curve: Curve) -> float:
    return min(perplexity for _, perplexity in curve)


def first_below(curve: Curve, limit: float) -> int | None:
    """The first batch whose perplexity is at a limit or below, or None."""
    return next((step for step, perplexity in curve if perplexity <= limit), None)


def draw(curves: dict[str, dict[str, Curve]], path: Path) -> None:
    """Training perplexity against batches, a panel a task."""
    plt.rcParams.update({"font.size": 9})
    figure, axes = plt.subplots(1, 5, figsize=(13, 2.9), sharey=True, constrained_layout=True)
    for ax, (task, title) in zip(axes, PAPER_TASKS.items(), strict=True):
        for model, curve in sorted(curves[task].items()):
            colour = COLOURS.get(model, "#b9b3a8")
            label = model if model in COLOURS else "LSTM, 1 to 8 layers"
            steps, perplexities = zip(*curve, strict=True)
            above = [max(perplexity - 1, FLOOR) for perplexity in perplexities]
            repeated = label in ax.get_legend_handles_labels()[1]
            width = 1.3 if model in COLOURS else 0.9
            ax.plot(steps, above, color=colour, linewidth=width, label=None if repeated else label)
        ax.set(title=title, xscale="log", yscale="log", xlabel="batches")
    axes[0].set_ylabel("training perplexity − 1")
    axes[3].legend(frameon=False, loc="lower left", fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
