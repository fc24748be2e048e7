"""Generation on one thread: pushpop's steps, a dense loop, and the matrix products of either alone.

    python benchmarks/generation.py RUN          writes results/generation.json

RUN is a language model of one layer with a memory and an LSTM, as benchmarks/molecules.py leaves
them. The dense loop is what generators of molecules have (Popova et al., 2018): a stack as deep as
the longest line, of which every step mixes three shifted copies; rows that have ended stay in the
batch. It has random weights of the same sizes and makes as many steps as the longest line of each
batch asks for. The products are those that any implementation of these layers must compute, for as
many symbols as were written: the controller, its two outputs, and the symbols' table.
"""

import argparse
import time
from statistics import median

import torch
from torch import Tensor, nn

from machine import write_results
from pushpop import MemoryRNN, Transducer
from pushpop.models import LanguageModel
from pushpop.models.decoding import TOGETHER


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="a run or a saved model")
    parser.add_argument("--count", type=int, default=10_000, help="lines to generate")
    parser.add_argument("--rounds", type=int, default=3, help="times that all take turns")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = Transducer.from_pretrained(options.run)
    assert isinstance(model, LanguageModel)
    lines = model.generate(options.count, seed=0)
    lengths = [len(line) for line in lines]
    symbols = sum(lengths) + len(lines)
    longest = [
        max(lengths[first : first + TOGETHER]) + 1 for first in range(0, len(lengths), TOGETHER)
    ]
    dense = DenseLoop(model)
    calls = {
        "pushpop": lambda: model.generate(options.count, seed=0),
        "dense loop": lambda: [dense.generate(TOGETHER, steps) for steps in longest],
        "products": lambda: dense.products(TOGETHER, symbols // TOGETHER),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for _ in range(options.rounds):
            for name, call in calls.items():
                began = time.perf_counter()
                call()
                seconds[name].append(time.perf_counter() - began)
    rows = {
        name: {
            "seconds": round(median(times), 3),
            "symbols_a_second": round(symbols / median(times)),
        }
        for name, times in seconds.items()
    }
    for name, row in rows.items():
        print(f"{name:12} {row['seconds']:8.2f} s {row['symbols_a_second']:10,} symbols a second")
    sizes = {
        "memory": model.config.memory, "hidden": model.config.hidden,
        "memory_width": model.config.memory_width, "embedding": model.config.embedding,
    }  # fmt: skip
    work = {"lines": len(lines), "symbols": symbols, "longest": max(longest), "threads": 1}
    write_results("generation", {**sizes, **work, "rows": rows})


class DenseLoop(nn.Module):
    """An LSTM with a stack of fixed depth, in plain torch, a step at a time."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        body, config = model.body, model.config
        assert isinstance(body, MemoryRNN)
        self.width = config.memory_width
        self.table = nn.Embedding(model.vocabulary.output_size, config.embedding)
        self.cell = nn.LSTMCell(config.embedding + self.width, config.hidden)
        self.controls = nn.Linear(config.hidden, self.width + 3)
        self.output = nn.Linear(config.hidden, config.embedding)

    @torch.no_grad()
    def generate(self, batch: int, steps: int) -> Tensor:
        """Ids [steps, batch]; the stack is as deep as there are steps."""
        stack = torch.zeros(batch, steps, self.width)
        nothing = torch.zeros(batch, 1, self.width)
        state = torch.zeros(batch, self.cell.hidden_size), torch.zeros(batch, self.cell.hidden_size)
        ids = torch.zeros(batch, dtype=torch.int64)
        drawn = []
        for _ in range(steps):
            state = self.cell(torch.cat([self.table(ids), stack[:, 0]], dim=1), state)
            controls = self.controls(state[0])
            push, pop, keep = controls[:, -3:].softmax(dim=1)[:, :, None, None].unbind(dim=1)
            pushed = torch.cat([controls[:, None, :-3].tanh(), stack[:, :-1]], dim=1)
            popped = torch.cat([stack[:, 1:], nothing], dim=1)
            stack = push * pushed + pop * popped + keep * stack
            logits = torch.tanh(self.output(state[0])) @ self.table.weight.T
            ids = torch.multinomial(logits.softmax(dim=1), 1)[:, 0]
            drawn.append(ids)
        return torch.stack(drawn)

    @torch.no_grad()
    def products(self, batch: int, steps: int) -> None:
        """The matrix products of so many steps."""
        cell, hidden = self.cell, torch.zeros(batch, self.cell.hidden_size)
        x = torch.zeros(batch, cell.input_size)
        for _ in range(steps):
            x @ cell.weight_ih.T
            hidden @ cell.weight_hh.T
            self.controls(hidden)
            self.output(hidden) @ self.table.weight.T


if __name__ == "__main__":
    main()
