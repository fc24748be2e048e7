"""Does the start of a memory foretell what a run finds?

python benchmarks/drift.py [FOLDER]        writes results/drift.json and docs/figures/drift.png

FOLDER holds runs of the preset `drift` (by default results/drift). The push biases of each are
drawn again from its seed. What a start foretells was written down before the runs began: see
docs/initialisation.md.
"""

import sys
from collections import Counter
from math import ceil, exp, log
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from machine import write_results
from pushpop.experiments.report import share_interval
from pushpop.experiments.runs import RunRecord, read_results
from pushpop.training import TrainConfig
from pushpop.training.data import make_data
from pushpop.training.parallel import Group
from pushpop.training.trainer import Trainer

FOUND_BELOW = {"copy": 3.0, "reverse": 3.0, "gender": 1.1, "svo-sov": 1.5, "flip": 5.0}
"""The training perplexity below which a run has found its task."""
IN_ORDER = ("copy", "gender", "svo-sov", "flip")
"""Tasks that a queue finds and a stack does not; reversal is the other way round."""
DRAWS = 100_000


def main() -> None:
    root = Path(__file__).parents[1]
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "results" / "drift"
    runs = [describe(run) for run in read_results(folder) if run.report is not None]
    starts = sorted({run["start"] for run in runs})
    table = [row(runs, start, task) for start in starts for task in FOUND_BELOW]
    table = [cell for cell in table if cell["runs"]]
    shares = solved_shares(table)
    rights = {
        rule: sum(run[rule] == run["found"] for run in runs) for rule in ("by_sign", "by_sum")
    }
    print("| start | " + " | ".join(FOUND_BELOW) + " |")
    print("|---" * (1 + len(FOUND_BELOW)) + "|")
    for start in starts:
        cells = [f"{c['found']} of {c['runs']}" for c in table if c["start"] == start]
        print(f"| {start} | " + " | ".join(cells) + " |")
    for rule, right in rights.items():
        low, high = share_interval(right, len(runs))
        print(f"{rule}: {right} of {len(runs)} ({low:.3f}-{high:.3f})")
    for run in runs:
        if run["by_sum"] != run["found"]:
            print("missed:", {key: run[key] for key in ("task", "start", "seed", "drift", "found")})
    for share in shares:
        print(share)
    write_results(
        "drift",
        {
            "found_below": FOUND_BELOW,
            "foretold": rights,
            "table": table,
            "shares": shares,
            "runs": runs,
        },
    )
    draw(runs, root / "docs" / "figures" / "drift.png")


def describe(run: RunRecord) -> dict[str, Any]:
    """The start of a run, what it foretells, and what the run has found."""
    config = TrainConfig.from_saved(run.config.to_dict())
    assert run.report is not None
    push, pop = push_and_pop(config)
    drift = (push.sigmoid() - pop.sigmoid()).tolist()
    perplexity = run.report["perplexity"]
    return {
        "task": config.task,
        "memory": config.memory,
        "seed": config.seed,
        "push_bias": [round(bias, 4) for bias in push.tolist()],
        "drift": [round(d, 4) for d in drift],
        "start": start_of(config.memory, drift),
        "by_sign": foretell(config.task, config.memory, drift, by_sum=False),
        "by_sum": foretell(config.task, config.memory, drift, by_sum=True),
        "found": perplexity < FOUND_BELOW[config.task],
        "perplexity": perplexity,
        "train_coarse": run.report["train"]["coarse"],
        "test_coarse": run.report["test"]["coarse"],
    }


def push_and_pop(config: TrainConfig) -> tuple[torch.Tensor, torch.Tensor]:
    """The biases with which a run began."""
    gates = Trainer(config, Group(), make_data(config)).model.body.gates.bias
    push, pop = gates.detach().chunk(2)
    return push, pop


def start_of(memory: str, drift: list[float]) -> str:
    """The start of a memory in words."""
    growing = sum(d > 0 for d in drift)
    if memory != "deque":
        return f"{memory} that {'grows' if growing else 'drains'}"
    if growing == 1:
        return f"deque, one end each, sum {'above' if sum(drift) > 0 else 'below'} 0"
    return f"deque, both ends {'grow' if growing else 'drain'}"


def foretell(task: str, memory: str, drift: list[float], by_sum: bool) -> bool:
    """Whether a run finds its task, by the sign of each drift, or by their sum too."""
    growing = sum(d > 0 for d in drift)
    if memory == "deque":
        queue = growing == 1 and (sum(drift) > 0 or not by_sum)
        stack = growing == 2
    else:
        queue, stack = memory == "queue" and growing == 1, memory == "stack" and growing == 1
    return queue if task in IN_ORDER else stack


def row(runs: list[dict[str, Any]], start: str, task: str) -> dict[str, Any]:
    """How many runs with a start have found a task."""
    here = [run for run in runs if (run["start"], run["task"]) == (start, task)]
    found = sum(run["found"] for run in here)
    low, high = share_interval(found, len(here)) if here else (0.0, 1.0)
    foretold = bool(here and here[0]["by_sum"])
    return {
        "start": start,
        "task": task,
        "runs": len(here),
        "found": found,
        "interval": [round(low, 3), round(high, 3)],
        "foretold_by_sum": foretold,
    }


def solved_shares(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each memory and task, the share of draws that find it, and the draws that make 99 %.

    The share of a start among all draws is exact up to sampling; that of the runs with such a start
    that find the task is measured.
    """
    generator = torch.Generator().manual_seed(0)
    pop = torch.tensor(-1.0)
    bias = torch.randn(DRAWS, 2, generator=generator) + pop
    drift = bias.sigmoid() - pop.sigmoid()
    shares = []
    for memory in ("stack", "queue", "deque"):
        ends = drift if memory == "deque" else drift[:, :1]
        draws = Counter(start_of(memory, d) for d in ends.tolist())
        for task in FOUND_BELOW:
            cells = [c for c in table if c["task"] == task and c["start"] in draws]
            if sum(draws[c["start"]] for c in cells) < 0.99 * DRAWS:
                continue  # a start that no run had
            share = sum(draws[c["start"]] / DRAWS * c["found"] / c["runs"] for c in cells)
            needed = None if share == 0 else 1 if share > 0.99 else ceil(log(0.01) / log(1 - share))
            shares.append(
                {"memory": memory, "task": task, "share": round(share, 3), "draws_for_99": needed}
            )
    return shares


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """The plane of a deque's two push biases, a dot a run, a panel a task."""
    plt.rcParams.update({"font.size": 9})
    figure, axes = plt.subplots(1, 5, figsize=(13, 3.1), sharey=True, constrained_layout=True)
    titles = ("copy", "reverse", "gender", "svo-sov", "flip")
    grid = torch.linspace(-4.5, 2.5, 200)
    border = 1 / (1 + exp(1))
    for ax, task in zip(axes, titles, strict=True):
        here = [run for run in runs if (run["memory"], run["task"]) == ("deque", task)]
        for found, colour, label in ((False, "#c9c4bb", "not found"), (True, "#0b7a75", "found")):
            points = [sorted(r["push_bias"]) for r in here if r["found"] == found]
            ax.scatter(
                [p[0] for p in points],
                [p[1] for p in points],
                color=colour,
                edgecolor="black",
                linewidth=0.4,
                s=28,
                label=label,
                zorder=3,
            )
        ax.axvline(-1, color="black", linewidth=0.8)
        ax.axhline(-1, color="black", linewidth=0.8)
        other = 2 * border - grid.sigmoid()  # where the two drifts cancel
        known = (other > 0.001) & (other < 0.999)
        ax.plot(grid[known], other[known].logit(), color="black", linewidth=0.8, linestyle=":")
        ax.plot([-4.5, 2.5], [-4.5, 2.5], color="0.8", linewidth=0.8)
        ax.set(title=task, xlim=(-4.5, 1.5), ylim=(-3, 2.5), xlabel="push bias of the one end")
    axes[0].set_ylabel("push bias of the other (larger)")
    axes[0].legend(loc="upper left", frameon=False, handletextpad=0.1)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
