"""Replace nn.LSTM by an LSTM with a stack in an ordinary PyTorch model, and compare.

    python examples/replace_lstm.py            about a minute on one core

The task: read symbols, then write them in reverse order. Both models are trained in the same way on
2 to 16 symbols, and tested on 16 symbols and on 64. Only the recurrent layer differs.
"""

import argparse
import time

import torch
from torch import Tensor, nn

import pushpop

SYMBOLS, BLANK = 16, 16
TRAINED, LONGER = 16, 64


class Reverser(nn.Module):
    """Embedding, recurrent layer, linear layer."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS + 1, 32)
        self.layer = layer
        self.output = nn.Linear(width, SYMBOLS)

    def forward(self, symbols: Tensor) -> Tensor:
        """Map symbols [time, batch] to logits [time, batch, SYMBOLS]."""
        hidden, _ = self.layer(self.embedding(symbols))
        return self.output(hidden)


def draw(length: int, batch: int) -> tuple[Tensor, Tensor]:
    """Draw inputs, the symbols and as many blanks, and the targets at the blanks."""
    symbols = torch.randint(SYMBOLS, (length, batch))
    blanks = torch.full((length, batch), BLANK)
    return torch.cat([symbols, blanks]), symbols.flip(0)


def train(model: Reverser, steps: int, longest: int = TRAINED) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        length = int(torch.randint(2, longest + 1, ()))
        inputs, targets = draw(length, 32)
        logits = model(inputs)[length:]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()


@torch.no_grad()
def accuracy(model: Reverser, length: int) -> float:
    """Return the share of right symbols in 500 sequences."""
    inputs, targets = draw(length, 500)
    return float((model(inputs)[length:].argmax(-1) == targets).float().mean())


LAYERS = {
    "nn.LSTM(32, 64)": lambda: nn.LSTM(32, 64),
    "pushpop.MemoryRNN(32, 64)": lambda: pushpop.MemoryRNN(32, 64, memory="stack"),
}


def compare(name: str, seed: int, steps: int) -> tuple[float, float]:
    """Train a model with the layer of this name; return its accuracy on both lengths."""
    torch.manual_seed(seed)
    model = Reverser(LAYERS[name](), 64)
    train(model, steps)
    return accuracy(model, TRAINED), accuracy(model, LONGER)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in LAYERS:
        began = time.monotonic()
        trained, longer = compare(name, options.seed, options.steps)
        seconds = time.monotonic() - began
        print(
            f"{name:26} {trained:.3f} at {TRAINED} symbols, {longer:.3f} at {LONGER}"
            f"   ({seconds:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
