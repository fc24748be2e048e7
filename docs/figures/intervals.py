"""Draw docs/figures/intervals.png: a stack, a queue and a deque as intervals on a line.

    python docs/figures/intervals.py

Every band is a cell, drawn from the states that the memories themselves return.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from pushpop import NeuralDeque, NeuralQueue, NeuralStack
from pushpop.memory import NeuralMemory

T = 9
# [push, pop] at each step; for the deque at the top and at the bottom.
STACK = ([0.8, 0.5, 0.9, 0.7, 0, 0, 0.6, 0, 0], [0, 0.1, 0.9, 0.2, 0.9, 0.6, 0, 0.5, 0.9])
QUEUE = ([0.8, 0.5, 0.9, 0.7, 0.6, 0, 0.4, 0, 0], [0, 0.1, 0.3, 0.6, 0.2, 0.9, 0.8, 0.6, 0.9])
DEQUE_TOP = ([0.8, 0.5, 0, 0.7, 0, 0.4, 0, 0, 0], [0, 0.1, 0.3, 0, 0.6, 0, 0.7, 0.2, 0.9])
DEQUE_BOTTOM = ([0, 0.6, 0.9, 0, 0.5, 0, 0.3, 0, 0], [0, 0, 0.2, 0.5, 0, 0.6, 0, 0.5, 0.9])


def main() -> None:
    """Draw the three panels and save them."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), constrained_layout=True)
    one_end = {"stack": (NeuralStack(T), STACK), "queue": (NeuralQueue(T), QUEUE)}
    for ax, (memory, (push, pop)) in zip(axes, one_end.values(), strict=False):
        values = torch.eye(T)[:, None]
        _draw(ax, memory, values, torch.tensor(push)[:, None], torch.tensor(pop)[:, None])
    values = torch.eye(2 * T).reshape(T, 1, 2, 2 * T)
    push, pop = (torch.tensor([DEQUE_TOP[i], DEQUE_BOTTOM[i]]).T[:, None] for i in range(2))
    _draw(axes[2], NeuralDeque(2 * T), values, push, pop)
    axes[0].set_ylabel("position on the line")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


def _draw(
    ax: Axes, memory: NeuralMemory, values: torch.Tensor, push: torch.Tensor, pop: torch.Tensor
) -> None:
    colours = plt.get_cmap("tab20").colors
    state, bottom = None, 0.0
    for t in range(T):
        if memory.kind != "stack" and state is not None:
            held = float(state.strengths.sum())
            taken_top = min(float(pop[t].flatten()[0]), held) if memory.kind == "deque" else 0.0
            bottom += min(float(pop[t].flatten()[-1]), held - taken_top)
        if memory.kind == "deque":
            bottom -= float(push[t].flatten()[1])
        with torch.no_grad():
            _, state = memory.step(values[t], push[t], pop[t], state)
        low = bottom
        for value, strength in zip(state.values[0], state.strengths[0].tolist(), strict=True):
            if strength == 0:
                continue
            cell = int(value.argmax())
            ax.add_patch(Rectangle((t + 0.06, low), 0.88, strength, facecolor=colours[cell % 20],
                                   alpha=0.75, edgecolor="white"))  # fmt: skip
            if strength > 0.16:
                ax.text(t + 0.5, low + strength / 2, _name(memory, cell), ha="center", va="center",
                        fontsize=8)  # fmt: skip
            low += strength
        _windows(ax, memory.kind, t, bottom, low)
    ax.set_xlim(0, T)
    ax.autoscale(axis="y")
    ax.set_xticks([t + 0.5 for t in range(T)], [str(t + 1) for t in range(T)])
    ax.set_xlabel("step")
    ax.set_title({"stack": "stack: all at the top", "queue": "queue: in at the top, out below",
                  "deque": "deque: both ends"}[memory.kind], loc="left")  # fmt: skip


def _windows(ax: Axes, kind: str, t: int, bottom: float, top: float) -> None:
    """A bracket beside the cells that each read looks at."""
    windows = []
    if kind != "queue":
        windows.append((max(bottom, top - 1), top, t + 0.06))
    if kind != "stack":
        windows.append((bottom, min(top, bottom + 1), t + 0.94))
    for low, high, x in windows:
        if high > low:
            ax.plot([x, x], [low, high], color="black", linewidth=2.2, solid_capstyle="butt")


def _name(memory: NeuralMemory, cell: int) -> str:
    if memory.kind != "deque":
        return f"v{cell + 1}"
    return f"{'tb'[cell % 2]}{cell // 2 + 1}"


if __name__ == "__main__":
    main()
