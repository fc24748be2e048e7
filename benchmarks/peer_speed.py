"""How fast MemoryRNN is against a stack-GRU as it is written in plain torch.

    python benchmarks/peer_speed.py [--rounds 12] [--threads 1]      writes results/peer_speed.json

The peer is the step loop that generators of molecules use: a GRU reads the input and the top of a
dense stack [B, depth, W], and softmax(push, pop, nothing) of its state shifts the whole stack. It
is written here plainly, with torch's own cell and no slower than it has to be. Ours is the same
work: a GRU of as many units, a superposition stack as wide (the same three shifts, of which none
falls off the end), and beside it the paper's stack. Forward and backward, float32. All take turns
in one run. Depth 50 with 100 steps in batches of 16 and 64; depth 400 with 400 steps in batches of
16, as the peer keeps some 15 GB for the backward pass of 64. 256 units, stack 64 wide, input 64.
"""

import argparse
from functools import partial

import torch
from torch import Tensor, nn

from machine import interleave, write_results
from pushpop import MemoryRNN

INPUT, HIDDEN, WIDTH = 64, 256, 64
SETTINGS = ((100, 50, 16), (100, 50, 64), (400, 400, 16))


class StackGRU(nn.Module):
    """A GRU that works a dense stack of a fixed depth, a step at a time."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.cell = nn.GRUCell(INPUT + WIDTH, HIDDEN)
        self.control = nn.Linear(HIDDEN, 3)
        self.value = nn.Linear(HIDDEN, WIDTH)
        self.output = nn.Linear(HIDDEN, INPUT)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [T, B, I] -> outputs [T, B, I] and the stack."""
        stack = x.new_zeros(x.shape[1], self.depth, WIDTH)
        h, outputs = x.new_zeros(x.shape[1], HIDDEN), []
        bottom = x.new_zeros(x.shape[1], 1, WIDTH)
        for x_t in x:
            h = self.cell(torch.cat([x_t, stack[:, 0]], 1), h)
            push, pop, keep = self.control(h).softmax(1)[..., None, None].unbind(1)
            pushed = torch.cat([torch.tanh(self.value(h))[:, None], stack[:, :-1]], 1)
            popped = torch.cat([stack[:, 1:], bottom], 1)
            stack = push * pushed + pop * popped + keep * stack
            outputs.append(h)
        return torch.tanh(self.output(torch.stack(outputs))), stack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    figures = {}
    for steps, depth, batch in SETTINGS:
        x = torch.randn(steps, batch, INPUT)
        layers = {
            "peer": StackGRU(depth),
            "superposition, GRU": MemoryRNN(INPUT, HIDDEN, "superposition", WIDTH, "gru", INPUT),
            "stack, GRU": MemoryRNN(INPUT, HIDDEN, "stack", WIDTH, "gru", INPUT),
            "stack, LSTM": MemoryRNN(INPUT, HIDDEN, "stack", WIDTH, "lstm", INPUT),
        }
        calls = {name: partial(train, layer, x) for name, layer in layers.items()}
        seconds = interleave(calls, dict.fromkeys(calls, options.rounds), warmup=2)
        figures[f"{steps} steps, depth {depth}, batch {batch}"] = {
            "milliseconds": {name: round(1e3 * s, 1) for name, s in seconds.items()},
            "times_faster_than_peer": {
                name: round(seconds["peer"] / s, 2) for name, s in seconds.items() if name != "peer"
            },
        }
        print(list(figures.items())[-1], flush=True)
    setting = {"input": INPUT, "hidden": HIDDEN, "width": WIDTH, "threads": options.threads}
    write_results("peer_speed", {"setting": setting, **figures})


def train(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """All gradients."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(layer(x)[0].sum(), [x, *layer.parameters()], allow_unused=True)


if __name__ == "__main__":
    main()
