"""Draw docs/figures/gpu.png: how the walk lies on a GPU, from what the walk itself leaves.

    python docs/figures/gpu.py

The grid of programs; the live cells of one row, which name rows of the table of pushed values; and
the log of its pops, from which the backward pass undoes the steps. The numbers are those of the
kernels on the CPU, which have the same layout.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from pushpop.memory.backends import walk
from pushpop.memory.operators import WalkInput, WalkOutput

PUSH = [0.8, 0.5, 0.9, 0.7, 0.6, 0.4]
POP = [0.0, 0.1, 0.9, 0.2, 0.0, 0.7]
T, ROWS, WARPS = len(PUSH), 4, 4
COLOURS = [(*colour, 0.7) for colour in plt.get_cmap("tab20").colors]
GREY = "0.93"


def main() -> None:
    """Run a stack over six steps and draw what is left."""
    push, pop = (torch.tensor(gates).view(T, 1, 1) for gates in (PUSH, POP))
    nothing = torch.zeros(1, 0, 1), torch.zeros(1, 0)
    out = walk(WalkInput(0, torch.zeros(T, 1, 1, 1), push, pop, *nothing))
    plt.rcParams.update({"font.size": 9})
    figure, axes = plt.subplots(
        1, 3, figsize=(12.5, 4.3), constrained_layout=True, width_ratios=[1, 1.05, 1.15]
    )
    for ax, title in zip(
        axes,
        ("grid: a program a row", "layout: the live cells of a row", "log: the pops of a row"),
        strict=True,
    ):
        ax.set_title(title, loc="left")
        ax.set_axis_off()
        ax.set_xlim(0, 10)
        ax.set_ylim(0, 10)
    draw_grid(axes[0])
    draw_cells(axes[1], out)
    draw_log(axes[2], out)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


def draw_grid(ax: Axes) -> None:
    """Programs side by side; each goes through all steps with its threads across D."""
    for row in range(ROWS):
        bottom = 7.3 - 2.1 * row
        _box(ax, 1.6, bottom, 6.8, 1.5, GREY)
        ax.text(1.35, bottom + 0.75, f"row {row}", ha="right", va="center")
        for warp in range(WARPS):
            _box(ax, 1.8 + 1.62 * warp, bottom + 0.65, 1.54, 0.65, "white")
            if row == 0:
                ax.text(2.57 + 1.62 * warp, bottom + 0.97, f"warp {warp}", ha="center",
                        va="center", fontsize=8)  # fmt: skip
        ax.text(5, bottom + 0.32, "for t in 0 .. T - 1: pop, push, read", ha="center", va="center",
                fontsize=8)  # fmt: skip
    _arrow(ax, (1.8, 9.15), (8.2, 9.15), "<->")
    ax.text(5, 9.3, "the D numbers of a value", ha="center", va="bottom", fontsize=8)
    ax.text(5, 0.45, "rows share nothing; with two or more warps\nbarriers order scalars",
            ha="center", va="center", fontsize=8)  # fmt: skip


def draw_cells(ax: Axes, out: WalkOutput) -> None:
    """Strengths and row ids from lo to hi, and the table that the ids point into."""
    count = int(out.counts[0])
    ids, s = out.row_ids[0, :count].tolist(), out.strengths[0, :count].tolist()
    for place in range(T):
        live = place < count
        for y, text in (
            (7.6, f"{s[place]:.1f}" if live else ""),
            (6.6, str(ids[place]) if live else ""),
        ):
            colour = COLOURS[ids[place]] if live else GREY
            _box(ax, 1.5 + 1.35 * place, y, 1.25, 0.85, colour, text)
    for name, y in (("s", 8.02), ("ids", 7.02)):
        ax.text(1.3, y, name, ha="right", va="center")
    ax.text(1.5, 8.65, "lo", ha="center", va="bottom", fontsize=8)
    ax.text(1.45 + 1.35 * count, 8.65, "hi", ha="center", va="bottom", fontsize=8)
    for place in range(T):
        bottom = 4.3 - 0.72 * place
        _box(ax, 3.4, bottom, 5.6, 0.6, COLOURS[place] if place in ids else GREY)
        ax.text(3.25, bottom + 0.3, str(place), ha="right", va="center", fontsize=8)
        ax.text(6.2, bottom + 0.3, f"value pushed at step {place + 1}", ha="center", va="center",
                fontsize=8)  # fmt: skip
    ax.text(2.6, 2.5, "pushed", ha="right", va="center")
    ax.text(6.2, 5.55, "an id is a row of the table of values:\nnothing is copied", ha="center",
            va="center", fontsize=8)  # fmt: skip


def draw_log(ax: Axes, out: WalkOutput) -> None:
    """The dropped cells in order, and of every step how many it dropped and what it trimmed."""
    dropped, trimmed = out.dropped[:, 0].tolist(), out.trimmed_from[:, 0].tolist()
    n_logged = sum(dropped)
    ids, s = out.log_row_ids[0, :n_logged].tolist(), out.log_strengths[0, :n_logged].tolist()
    heads = ("step", "pop", "dropped", "trimmed_from")
    for column, head in enumerate(heads):
        ax.text(1.1 + 2.35 * column, 9.35, head, ha="center", va="center", fontsize=8)
    taken = 0
    for step in range(T):
        y = 8.3 - 0.85 * step
        cells = [str(step + 1), f"{POP[step]:.1f}", str(dropped[step]),
                 f"{trimmed[step]:.1f}" if trimmed[step] >= 0 else "-"]  # fmt: skip
        for column, text in enumerate(cells):
            used = column == 2 and dropped[step]
            colour = COLOURS[ids[taken]] if used else GREY
            _box(ax, 0.05 + 2.35 * column, y, 2.1, 0.7, colour, text)
        taken += dropped[step]
    for place in range(T):
        there = place < n_logged
        for y, text in (
            (1.95, f"{s[place]:.1f}" if there else ""),
            (1.1, str(ids[place]) if there else ""),
        ):
            colour = COLOURS[ids[place]] if there else GREY
            _box(ax, 2.6 + 1.2 * place, y, 1.1, 0.7, colour, text)
    for name, y in (("log_strengths", 2.3), ("log_ids", 1.45)):
        ax.text(2.45, y, name, ha="right", va="center", fontsize=8)
    _arrow(ax, (9.6, 0.75), (2.6, 0.75), "-|>")
    ax.text(6.1, 0.25, "the backward pass takes from the end", ha="center", va="center", fontsize=8)


def _box(
    ax: Axes, x: float, y: float, width: float, height: float, colour: object, text: str = ""
) -> None:
    shown = Rectangle((x, y), width, height, facecolor=colour, edgecolor="0.6", linewidth=0.8)
    ax.add_patch(shown)
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center")


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    style: str,
    colour: object = "0.35",
) -> None:
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=10, color=colour))


if __name__ == "__main__":
    main()
