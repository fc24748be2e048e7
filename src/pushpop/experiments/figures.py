"""The figures of a report, as SVG: the same runs give the same bytes."""

import io
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from pushpop.experiments.paper import PAPER_MODELS, PAPER_TASKS
from pushpop.experiments.runs import RunRecord

INK = "#3a3f45"
"""Of text and axes, as in figures.mplstyle; in a page it becomes the colour of the page's text."""
PAPER = "fill: #ffffff"
"""What matplotlib lays under a figure and its panels."""
GREY = "#8d939a"
DOTTED = (0, (1, 3))
STYLES: dict[str, tuple[str, str, float, float, str]] = {
    # colour, marker, width of the line, size of the marker, line
    "stack": ("#d55e00", "o", 1.6, 7, "-"),
    "queue": ("#2b8cd6", "s", 1.6, 5, "-"),
    "deque": ("#0a9b72", "D", 1.6, 3, "-"),
    "superposition": ("#b0579c", "^", 1.2, 4, "-"),
    "tape": ("#8a6d1d", "v", 1.2, 4, "-"),
    "rnn1": (GREY, "x", 1.0, 3.5, ":"),
    "lstm1": (GREY, ".", 1.0, 3.5, "-"),
    "lstm2": (GREY, ".", 1.0, 3.5, "--"),
    "lstm4": (GREY, ".", 1.0, 3.5, "-."),
    "lstm8": (GREY, ".", 1.0, 3.5, ":"),
}
Runs = dict[str, list[RunRecord]]
"""The runs to show of each task."""
Curves = list[tuple[str, list[int], list[float]]]
"""A model, and what it has at each x."""


def convergence(runs: Runs) -> str | None:
    """Coarse accuracy at training and at test lengths against batches, a row of panels a task."""
    from matplotlib.ticker import LogLocator

    panels = []
    for task, group in runs.items():
        for lengths in ("train", "test") if any(run.tests for run in group) else ():
            curves = [
                (
                    run.model,
                    [int(test["step"]) for test in run.tests],
                    [float(test[lengths]["coarse"]) for test in run.tests],
                )
                for run in group
            ]
            panels.append((f"{PAPER_TASKS.get(task, task)}, {lengths}", curves))

    def finish(axes: Any, number: int) -> None:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")

    return _draw(panels, 1.9, "batches (logarithmic)", "coarse accuracy", finish)


def accuracy_by_length(
    runs: Runs, grain: str = "coarse", chance: Mapping[str, float] | None = None
) -> str | None:
    """Coarse accuracy, or a tagger's accuracy, against the length of the source: a panel a task,
    with a line where guessing is, if `chance` says so."""
    runs = {task: [run for run in group if run.measured_lengths] for task, group in runs.items()}
    shown = [(task, group) for task, group in runs.items() if group]
    panels = []
    for task, group in shown:
        curves = []
        for run in group:
            rows = sorted(run.measured_lengths.items())
            curves.append((run.model, [n for n, _ in rows], [row[grain] for _, row in rows]))
        panels.append((PAPER_TASKS.get(task, task), curves))
    every = sorted({n for _, group in shown for run in group for n in run.measured_lengths})

    def finish(axes: Any, number: int) -> None:
        task, group = shown[number]
        if chance is not None:
            axes.axhline(chance[task], color=INK, linewidth=0.8, linestyle=DOTTED)
        axes.axvspan(*group[0].config.training_range, color=INK, alpha=0.12, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(every, [f"{length:,}" for length in every], rotation=45)

    what = "coarse accuracy" if grain == "coarse" else "accuracy per symbol"
    return _draw(panels, 2.1, "length of the source", what, finish)


def _draw(
    panels: list[tuple[str, Curves]],
    height: float,
    xlabel: str,
    ylabel: str,
    finish: Callable[[Any, int], None],
) -> str | None:
    """Two panels a row, with a legend below all of them; `finish` is given each with its number."""
    if not panels:
        return None
    from matplotlib.figure import Figure

    with _style():
        rows = (len(panels) + 1) // 2
        figure = Figure(figsize=(7, height * rows + 0.9), layout="constrained")
        grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
        for number, axes in enumerate(grid.flat):
            axes.set_visible(number < len(panels))
            if number + 2 >= len(panels):  # nothing below it
                axes.set_xlabel(xlabel)
                axes.tick_params(labelbottom=True)
            if number >= len(panels):
                continue
            title, curves = panels[number]
            for model, xs, ys in curves:
                axes.plot(xs, ys, label=PAPER_MODELS.get(model, model), **_line(model))
            finish(axes, number)
            axes.set_title(title, fontsize=9)
            axes.minorticks_off()
            axes.set_ylim(-0.04, 1.04)
            axes.grid(alpha=0.25, linewidth=0.5)
        for axes in grid[:, 0]:
            axes.set_ylabel(ylabel)
        lines = {
            line.get_label(): line
            for axes in grid.flat
            for line in axes.get_lines()
            if not str(line.get_label()).startswith("_")
        }
        order = [name for name in PAPER_MODELS.values() if name in lines]
        order += [name for name in lines if name not in order]
        figure.legend(
            [lines[name] for name in order], order, loc="outside lower center", ncols=4, fontsize=8
        )
        return _svg(figure)


def learning_curves(runs: list[RunRecord]) -> str:
    """Of runs on files, a row each: what validation says in the course of the training, and how
    right the model is by source length at its end."""
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(7, 2.1 * len(runs) + 0.3), layout="constrained")
        grid = figure.subplots(len(runs), 2, squeeze=False)
        for run, (left, right) in zip(runs, grid, strict=True):
            report = run.report or {}
            tests = [line for line in run.metrics if "valid" in line]
            lines = bool(tests) and "accuracy" not in tests[0]["valid"]
            grain, what = ("bits", "bits a symbol") if lines else ("accuracy", "accuracy")
            steps = [line["step"] for line in tests]
            left.plot(steps, [line["valid"][grain] for line in tests], **_line(run.model))
            if run.report is not None:
                left.axvline(run.kept_step, color=INK, linewidth=0.8, linestyle=DOTTED)
            left.set_title(f"{run.name}, dotted: the model that is kept", fontsize=9)
            left.set(xlabel="batches", ylabel=f"{what}, validation")
            parts = report.get("by_length", [])
            names = ["-".join(map(str, dict.fromkeys(part["lengths"]))) for part in parts]
            accuracies = [part["accuracy"] for part in parts]
            right.bar(names, accuracies, width=0.6, color=_line(run.model)["color"])
            if (alone := report.get("without_memory")) is not None:
                right.axhline(alone, color=INK, linewidth=0.8, linestyle=DOTTED)
                right.set_title("dotted: without memory", fontsize=9)
            right.set(xlabel="length of the source", ylabel="accuracy", ylim=(-0.04, 1.04))
            right.set_visible(bool(parts))
            if not lines:
                left.set_ylim(-0.04, 1.04)
            left.grid(alpha=0.25, linewidth=0.5)
        return _svg(figure)


def _style() -> Any:
    from matplotlib import rc_context

    return rc_context(fname=str(files("pushpop.experiments") / "figures.mplstyle"))


def _line(model: str) -> dict[str, Any]:
    names = ("color", "marker", "linewidth", "markersize", "linestyle")
    return dict(zip(names, STYLES.get(model, (GREY, "x", 1.0, 3.5, "-")), strict=True))


def _svg(figure: Any) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"[ \t]+\n", "\n", out.getvalue())


def inline(svg: str, label: str, prefix: str) -> str:
    """An SVG as part of a page: in the page's colours, light or dark, with names of its own."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(PAPER, "fill: none")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r'<svg\b([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg\b([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
