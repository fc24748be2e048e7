"""Run a stack for three steps: the example of figure 1(a) in the paper.

python examples/worked_example.py
"""

import torch
from rich.console import Console
from rich.table import Table

from pushpop import NeuralStack

PUSH = (0.8, 0.5, 0.9)
POP = (0.0, 0.1, 0.9)


def main() -> None:
    """Print strengths and reads after each step, then gradients of a strength."""
    n_steps = len(PUSH)
    values = torch.eye(n_steps)[:, None]  # v1, v2, v3 are unit vectors, so a read shows its weights
    push = torch.tensor(PUSH)[:, None].requires_grad_()
    pop = torch.tensor(POP)[:, None].requires_grad_()
    stack = NeuralStack(width=n_steps)

    table = Table(title="A neural stack, step by step", title_justify="left")
    for heading in ("step", "push", "pop", "strengths, bottom to top", "read"):
        table.add_column(heading)
    state = None
    for t in range(n_steps):
        read, state = stack.step(values[t], push[t], pop[t], state)
        table.add_row(
            str(t + 1), f"{PUSH[t]:.1f}", f"{POP[t]:.1f}", _cells(state.values, state.strengths),
            _terms(read[0].tolist()),
        )  # fmt: skip
    console = Console()
    console.print(table)

    # Gradients flow through the stack: the final strength of v1 depends on earlier gates.
    gradients = torch.autograd.grad(state.strengths[0, 0], (push, pop))
    console.print("the strength left of v1 at the end, by gradient:")
    for name, gradient in zip(("push", "pop"), gradients, strict=True):
        console.print(f"  {name:4} at steps 1, 2, 3: {_numbers(gradient.flatten().tolist())}")


def _cells(values: torch.Tensor, strengths: torch.Tensor) -> str:
    names = (f"v{int(v.argmax()) + 1}" for v in values[0])
    return "  ".join(f"{n} {s:.1f}" for n, s in zip(names, strengths[0].tolist(), strict=True))


def _terms(weights: list[float]) -> str:
    return " + ".join(f"{w:.1f} v{i + 1}" for i, w in reversed(list(enumerate(weights))) if w > 0)


def _numbers(numbers: list[float]) -> str:
    return ", ".join(f"{x:+.0f}" if abs(x) > 1e-6 else "0" for x in numbers)


if __name__ == "__main__":
    main()
