"""The figures of a report, as SVG: the same runs give the same bytes."""

import io
import re
from collections.abc import Mapping
from typing import Any

from pushpop.experiments.paper import PAPER_MODELS, PAPER_TASKS
from pushpop.experiments.runs import RunRecord
from pushpop.experiments.tables import Choice

INK = "#3a3f45"
"""Of text and axes; in a page it becomes the colour of the page's text."""
PAPER = "fill: #ffffff"
"""What matplotlib lays under a figure and its panels."""
STYLES: dict[str, dict[str, Any]] = {
    "stack": {"color": "#d55e00", "marker": "o", "linewidth": 1.6, "markersize": 7},
    "queue": {"color": "#2b8cd6", "marker": "s", "linewidth": 1.6, "markersize": 5},
    "deque": {"color": "#0a9b72", "marker": "D", "linewidth": 1.6, "markersize": 3},
    "superposition": {"color": "#b0579c", "marker": "^", "linewidth": 1.2, "markersize": 4},
    "tape": {"color": "#8a6d1d", "marker": "v", "linewidth": 1.2, "markersize": 4},
    "rnn1": {"color": "#8d939a", "marker": "x", "linewidth": 1.0, "linestyle": ":"},
    "lstm1": {"color": "#8d939a", "marker": ".", "linewidth": 1.0, "linestyle": "-"},
    "lstm2": {"color": "#8d939a", "marker": ".", "linewidth": 1.0, "linestyle": "--"},
    "lstm4": {"color": "#8d939a", "marker": ".", "linewidth": 1.0, "linestyle": "-."},
    "lstm8": {"color": "#8d939a", "marker": ".", "linewidth": 1.0, "linestyle": ":"},
}
SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pushpop",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.markersize": 3.5,
    "lines.markerfacecolor": "none",  # so that curves on top of each other can be told apart
    "legend.frameon": False,
}


def convergence(choices: list[Choice], recipe: str) -> str | None:
    """Coarse accuracy at training and at test lengths against batches, a row of panels a task."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    runs = _by_task(choices, recipe)
    runs = {task: group for task, group in runs.items() if any(run.tests for run in group)}
    if not runs:
        return None
    with rc_context(SETTINGS):
        figure = Figure(figsize=(7, 1.9 * len(runs) + 0.9), layout="constrained")
        panels = figure.subplots(len(runs), 2, sharex=True, sharey=True, squeeze=False)
        for (task, group), (left, right) in zip(runs.items(), panels, strict=True):
            for panel, lengths in ((left, "train"), (right, "test")):
                for run in group:
                    steps = [record["step"] for record in run.tests]
                    values = [record[lengths]["coarse"] for record in run.tests]
                    panel.plot(
                        steps, values, label=PAPER_MODELS.get(run.model), **_style(run.model)
                    )
                panel.set_title(f"{PAPER_TASKS.get(task, task)}, {lengths}", fontsize=9)
                panel.set_xscale("log")
                panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
                panel.minorticks_off()
                panel.set_ylim(-0.04, 1.04)
                panel.grid(alpha=0.25, linewidth=0.5)
            left.set_ylabel("coarse accuracy")
        for panel in panels[-1]:
            panel.set_xlabel("batches (logarithmic)")
        _legend(figure, panels)
        return _svg(figure)


def accuracy_by_length(choices: list[Choice], recipe: str) -> str | None:
    """Coarse accuracy against the length of the source, a panel a task."""
    runs = _by_task(choices, recipe)
    runs = {task: [run for run in group if run.measured_lengths] for task, group in runs.items()}
    runs = {task: group for task, group in runs.items() if group}
    return length_panels(runs, "coarse") if runs else None


def length_panels(
    runs: dict[str, list[RunRecord]], grain: str, chance: Mapping[str, float] | None = None
) -> str:
    """Coarse accuracy, or a tagger's accuracy, against the length of the source: a panel a task,
    with a line where guessing is, if `chance` says so."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    what = "coarse accuracy" if grain == "coarse" else "accuracy per symbol"
    with rc_context(SETTINGS):
        rows = (len(runs) + 1) // 2
        figure = Figure(figsize=(7, 2.1 * rows + 0.9), layout="constrained")
        panels = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
        every = sorted(
            {n for group in runs.values() for run in group for n in run.measured_lengths}
        )
        for panel, (task, group) in zip(panels.flat, runs.items(), strict=False):
            for run in group:
                rows_found = sorted(run.measured_lengths.items())
                lengths = [length for length, _ in rows_found]
                values = [row[grain] for _, row in rows_found]
                name = PAPER_MODELS.get(run.model, run.model)
                panel.plot(lengths, values, label=name, **_style(run.model))
            if chance is not None:
                panel.axhline(chance[task], color=INK, linewidth=0.8, linestyle=(0, (1, 3)))
            low, high = group[0].config.training_range
            panel.axvspan(low, high, color=INK, alpha=0.12, linewidth=0)
            panel.set_title(PAPER_TASKS.get(task, task), fontsize=9)
            panel.set_xscale("log", base=2)
            panel.set_xticks(every, [f"{length:,}" for length in every], rotation=45)
            panel.minorticks_off()
            panel.set_ylim(-0.04, 1.04)
            panel.grid(alpha=0.25, linewidth=0.5)
        for number, panel in enumerate(panels.flat):
            panel.set_visible(number < len(runs))
            if number + 2 >= len(runs):  # nothing below it
                panel.set_xlabel("length of the source")
                panel.tick_params(labelbottom=True)
        for panel in panels[:, 0]:
            panel.set_ylabel(what)
        _legend(figure, panels)
        return _svg(figure)


def learning_curves(runs: list[RunRecord]) -> str:
    """Of runs on files, a row each: what validation says in the course of the training, and how
    right the model is by source length at its end."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):
        figure = Figure(figsize=(7, 2.1 * len(runs) + 0.3), layout="constrained")
        for run, (left, right) in zip(
            runs, figure.subplots(len(runs), 2, squeeze=False), strict=True
        ):
            tests = [line for line in run.metrics if "valid" in line]
            lines = bool(tests) and "accuracy" not in tests[0]["valid"]
            grain, what = ("bits", "bits a symbol") if lines else ("accuracy", "accuracy")
            steps = [line["step"] for line in tests]
            left.plot(steps, [line["valid"][grain] for line in tests], **_style(run.model))
            if run.report is not None:
                left.axvline(run.kept_step, color=INK, linewidth=0.8, linestyle=(0, (1, 3)))
            left.set_title(f"{run.name}, dotted: the model that is kept", fontsize=9)
            left.set(xlabel="batches", ylabel=f"{what}, validation")
            parts = (run.report or {}).get("by_length", [])
            names = ["-".join(map(str, dict.fromkeys(part["lengths"]))) for part in parts]
            accuracies = [part["accuracy"] for part in parts]
            right.bar(names, accuracies, width=0.6, color=_style(run.model)["color"])
            if (alone := (run.report or {}).get("without_memory")) is not None:
                right.axhline(alone, color=INK, linewidth=0.8, linestyle=(0, (1, 3)))
                right.set_title("dotted: without memory", fontsize=9)
            right.set(xlabel="length of the source", ylabel="accuracy", ylim=(-0.04, 1.04))
            right.set_visible(bool(parts))
            if not lines:
                left.set_ylim(-0.04, 1.04)
            left.grid(alpha=0.25, linewidth=0.5)
        return _svg(figure)


def inline(svg: str, label: str, prefix: str) -> str:
    """An SVG as part of a page: in the page's colours, light or dark, with names of its own."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(PAPER, "fill: none")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r'<svg\b([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg\b([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _by_task(choices: list[Choice], recipe: str) -> dict[str, list[RunRecord]]:
    """The chosen runs of a recipe."""
    runs: dict[str, list[RunRecord]] = {}
    for choice in choices:
        if choice.recipe == recipe and choice.run is not None:
            runs.setdefault(choice.task, []).append(choice.run)
    return runs


def _style(model: str) -> dict[str, Any]:
    return STYLES.get(model, {"color": "#8d939a", "marker": "x", "linewidth": 1.0})


def _legend(figure: Any, panels: Any) -> None:
    """One legend for all panels, below them."""
    lines = {
        line.get_label(): line
        for panel in panels.flat
        for line in panel.get_lines()
        if not str(line.get_label()).startswith("_")
    }
    order = [name for name in PAPER_MODELS.values() if name in lines]
    order += [name for name in lines if name not in order]
    figure.legend(
        [lines[name] for name in order], order, loc="outside lower center", ncols=4, fontsize=8
    )


def _svg(figure: Any) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"[ \t]+\n", "\n", out.getvalue())
