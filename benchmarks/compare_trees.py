"""Whether a change made the kernels slower: two source trees, measured in turns in one run.

    python benchmarks/compare_trees.py OLD NEW [--rounds 60] [--only NAME]

OLD and NEW are checkouts (their `src` is imported). Each tree has a process of its own that runs a
case when it is asked to; the two are asked in turns, so that a slow moment of the machine falls on
both. One thread, float32, forward+backward. B=10, T=130: the memories alone at width 256, and
MemoryRNN with 256 hidden units and width 256. "ragged": 128 sequences of 1 to 80 steps, 64 units,
width 32. Printed is new / old: of the medians, of the minima (which a busy machine disturbs least),
and the quartiles of the rounds' own ratios.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

T, B, D, HIDDEN, INPUT = 130, 10, 256, 256, 64
KINDS = ("stack", "queue", "deque")
RAGGED_KINDS = (*KINDS, "superposition", "tape", "lstm")
NAMES = tuple(
    f"{what} {kind}"
    for what, kinds in (("memory", KINDS), ("rnn", KINDS), ("ragged", RAGGED_KINDS))
    for kind in kinds
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    names = [name for name in NAMES if options.only in name]
    trees = [Tree(options.old), Tree(options.new)]
    print(f"{'new / old':20}  median   minimum  quartiles of a round    old, ms")
    for name in names:
        for tree in trees:
            tree.measure(name)  # loads or compiles what the case needs
        seconds: list[list[float]] = [[], []]
        for turn in range(options.rounds):
            for which in (0, 1) if turn % 2 else (1, 0):
                seconds[which].append(trees[which].measure(name))
        print(_line(name, *seconds), flush=True)
    for tree in trees:
        tree.close()


def _line(name: str, old: list[float], new: list[float]) -> str:
    low, _, high = statistics.quantiles([b / a for a, b in zip(old, new, strict=True)], n=4)
    median = statistics.median(new) / statistics.median(old)
    return (
        f"{name:20} {median:7.3f}   {min(new) / min(old):7.3f}  {low:7.3f} ... {high:5.3f}"
        f"   {1e3 * min(old):12.2f}"
    )


class Tree:
    """A process that imports one tree's pushpop and measures what it is asked for."""

    def __init__(self, path: Path) -> None:
        source = path.resolve() / "src"
        if not (source / "pushpop").is_dir():
            raise SystemExit(f"{path} has no src/pushpop")
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(source), WORKER: "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def measure(self, name: str) -> float:
        """Seconds of one call, the best of a few."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{name}: the process ended with {self._process.wait()}")
        return float(answer)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


WORKER = "PUSHPOP_COMPARE_TREES_WORKER"
CALLS = {"memory": 8, "rnn": 2, "ragged": 2}  # in a row, of which the fastest counts


def _work() -> None:
    import torch

    torch.set_num_threads(1)
    cases: dict[str, Callable[[], None]] = {}
    for line in sys.stdin:
        name = line.strip()
        what, kind = name.split()
        if name not in cases:
            torch.manual_seed(0)
            cases[name] = {"memory": _memory, "rnn": _rnn, "ragged": _ragged}[what](kind)
            cases[name]()
        best = float("inf")
        for _ in range(CALLS[what]):
            start = time.process_time()
            cases[name]()
            best = min(best, time.process_time() - start)
        print(best, flush=True)


def _memory(kind: str) -> Callable[[], None]:
    import torch

    import pushpop

    memory = getattr(pushpop, f"Neural{kind.capitalize()}")(D)
    ends = (2,) if kind == "deque" else ()
    inputs = [torch.randn(T, B, *ends, D), torch.rand(T, B, *ends), torch.rand(T, B, *ends)]
    leaves = [x.requires_grad_() for x in inputs]
    grad = torch.randn(T, B, *ends, D)

    def call() -> None:
        torch.autograd.grad(memory(*leaves)[0], leaves, grad)

    return call


def _rnn(kind: str) -> Callable[[], None]:
    import torch

    import pushpop

    layer = pushpop.MemoryRNN(INPUT, HIDDEN, kind, D, output_size=INPUT)
    x = torch.randn(T, B, INPUT, requires_grad=True)
    leaves = [x, *layer.parameters()]

    def call() -> None:
        torch.autograd.grad(layer(x)[0].sum(), leaves)

    return call


def _ragged(kind: str) -> Callable[[], None]:
    import torch

    import pushpop

    layer: torch.nn.Module = pushpop.DeepLSTM(16, 64, 1)
    if kind != "lstm":
        layer = pushpop.MemoryRNN(16, 64, kind, 32, output_size=16)
    x = torch.randn(80, 128, 16, requires_grad=True)
    lengths = [1 + 5 * row % 80 for row in range(128)]
    leaves = [x, *layer.parameters()]

    def call() -> None:
        torch.autograd.grad(layer(x, lengths=lengths)[0].sum(), leaves)

    return call


if __name__ == "__main__":
    _work() if WORKER in os.environ else main()
