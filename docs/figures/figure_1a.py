"""Draw docs/figures/figure_1a.png: the paper's example of a stack at work, with its numbers.

python docs/figures/figure_1a.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from pushpop.memory import NeuralStack
from pushpop.viewer.intervals import Moment, Replay
from pushpop.viewer.layout import hue_of, rgb

PUSH = (0.8, 0.5, 0.9)
POP = (0.0, 0.1, 0.9)


def main() -> None:
    """Draw the stack after each of the three steps and save the picture."""
    figure, ax = plt.subplots(figsize=(7.6, 3.7), constrained_layout=True)
    stack, strengths = Replay(NeuralStack.push_ends, NeuralStack.read_ends), {}
    for t, (push, pop) in enumerate(zip(PUSH, POP, strict=True)):
        moment = stack.step([push], [pop])
        strengths.update(moment.changed)
        _step(ax, t, moment, {cell: strengths[cell] for cell in stack.cells})
    ax.set(xlim=(-0.6, 3), ylim=(-0.42, 1.68))
    for y, text in ((1.46, "pop"), (1.34, "push"), (-0.14, "strengths"), (-0.34, "read")):
        ax.text(-0.55, y, text, color="#5d5d68", va="center")
    ax.axis("off")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


def _step(ax: Axes, t: int, moment: Moment, cells: dict[int, float]) -> None:
    middle = t + 0.5
    ax.text(middle, 1.46, f"{POP[t]:.1f}", ha="center", va="center", color="#b4490f")
    ax.text(middle, 1.34, f"{PUSH[t]:.1f}", ha="center", va="center", color="#0b6e75")
    low, window = 0.0, moment.top - 1
    for cell, strength in cells.items():
        hue, high = hue_of(cell, len(PUSH)), low + strength
        place, thickest = 0.0, 0.0
        for bottom, top, bright in (
            (low, min(high, window), False),
            (max(low, window), high, True),
        ):
            if top - bottom > thickest:
                place, thickest = (bottom + top) / 2, top - bottom
            if top > bottom:
                ax.add_patch(
                    Rectangle((t + 0.14, bottom), 0.72, top - bottom, facecolor=rgb(hue, bright))
                )
        ax.text(middle, place, f"v{cell + 1}   {strength:.1f}", ha="center", va="center")
        low = high
    bottom = max(0.0, window)
    ax.add_patch(
        Rectangle((t + 0.14, bottom), 0.72, low - bottom, fill=False, edgecolor="#1c1c22", lw=1.8)
    )
    shown = "  ".join(f"v{cell + 1} {strength:.1f}" for cell, strength in cells.items())
    read = " + ".join(f"{weight:.1f} v{cell + 1}" for cell, weight in reversed(moment.reads[0]))
    ax.text(middle, -0.14, shown, ha="center", va="center")
    ax.text(middle, -0.34, read, ha="center", va="center", weight="bold")
    ax.text(middle, 1.6, f"step {t + 1}", ha="center", va="center", color="#5d5d68")


if __name__ == "__main__":
    main()
