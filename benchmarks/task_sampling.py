"""How fast data is made: exact sampling against rejection, batches against training steps, and the
tasks of the Chomsky hierarchy a length at a time. Seconds are those of the processor.

Writes results/task_sampling.json. Nothing is measured unless the tests of the tasks pass.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import nn

from machine import write_results
from pushpop import Transducer, TransducerConfig
from pushpop.tasks import TASKS, Batch, GrammarTask, Vocabulary, batch_rng, batches, get_task
from pushpop.tasks.chomsky import ChomskyTask
from pushpop.tasks.grammar_sampling import Tables, compile_grammar

ROOT = Path(__file__).parent.parent
SEED = 0
TRAINING, TEST = (8, 64), (65, 128)
ROUNDS = 7


def reject(g: Tables, low: int, high: int, accepted: int) -> int:
    """Draw free derivations until enough have a source length in the range; how many it took.

    As quick as rejection can be: a derivation is given up once its source is sure to be too long,
    and no string is ever written down.
    """
    pending = np.empty(high + 16, np.int64)
    tries = 0
    while accepted > 0:
        tries += 1
        pending[0] = 0
        count, words = 1, 0
        while count > 0 and words + count <= high:
            count -= 1
            x = pending[count]
            u = random.random()
            rule = g.first_rule[x]
            while u >= g.weight[rule] and rule + 1 < g.first_rule[x + 1]:
                u -= g.weight[rule]
                rule += 1
            words += g.words[rule]
            for c in range(g.first_child[rule], g.first_child[rule + 1]):
                pending[count] = g.child[c]
                count += 1
        if count == 0 and words >= low:
            accepted -= 1
    return tries


reject_compiled = njit(reject)


def seconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def against_rejection(name: str, lengths: tuple[int, int]) -> dict[str, float]:
    """Pairs a second, each way, in turns; medians over the rounds."""
    task = get_task(name)
    assert isinstance(task, GrammarTask)
    tables = compile_grammar(task.grammar, task.vocabulary)
    low, high = lengths
    sizes = {"exact": 2_000, "compiled rejection": 100, "plain rejection": 4}
    actions: dict[str, Callable[[int], Any]] = {
        "exact": lambda count: task.sample(batch_rng(SEED, "bench", 0), count, lengths),
        "compiled rejection": lambda count: reject_compiled(tables, low, high, count),
        "plain rejection": lambda count: reject(tables, low, high, count),
    }
    for action in actions.values():
        action(1)
    rates: dict[str, list[float]] = {way: [] for way in actions}
    for _ in range(ROUNDS):
        for way, action in actions.items():
            size = sizes[way]
            rates[way].append(size / seconds(lambda: action(size)))  # noqa: B023
    result = {f"{way}, pairs per second": statistics.median(rates[way]) for way in rates}
    for way in ("compiled rejection", "plain rejection"):
        ratios = zip(rates["exact"], rates[way], strict=True)
        result[f"speed-up over {way}"] = statistics.median(ours / its for ours, its in ratios)
    result["tries per accepted pair"] = reject_compiled(tables, low, high, 500) / 500
    return result


class Step:
    """A training step of a Stack-LSTM, the cheapest model with a memory."""

    def __init__(self, vocabulary: Vocabulary, hidden: int, width: int) -> None:
        config = TransducerConfig(memory="stack", hidden=hidden, memory_width=width)
        self.model = Transducer(config, vocabulary)
        self.optimiser = torch.optim.RMSprop(self.model.parameters(), lr=1e-3)

    def run(self, batch: Batch) -> None:
        """Forward, backward, clip, update."""
        self.optimiser.zero_grad()
        self.model.loss(batch).backward()
        nn.utils.clip_grad_value_(self.model.parameters(), 1.0)
        self.optimiser.step()


def against_training(name: str, rounds: int = 24) -> dict[str, float]:
    """Milliseconds for a batch of ten, alone and as part of training Stack-LSTMs of two widths;
    for their steps; and the share of the time that goes into data. Means over whole rounds."""
    task = get_task(name)
    result = {}
    for low, high in (TRAINING, TEST):
        run = batches(task, seed=SEED, stream="bench", batch_size=10, lengths=(low, high))
        next(run)
        elapsed = seconds(lambda: [next(run) for _ in range(rounds)])  # noqa: B023
        result[f"batch {low}-{high}, ms"] = 1e3 * elapsed / rounds
    for hidden, width in ((48, 64), (256, 256)):
        step = Step(task.vocabulary, hidden, width)
        run = batches(task, seed=SEED, stream="bench", batch_size=10, lengths=TRAINING)
        step.run(next(run))
        drawing, training = 0.0, 0.0
        for _ in range(rounds):
            start = time.process_time()
            batch = next(run)
            drawn = time.process_time()
            step.run(batch)
            drawing += drawn - start
            training += time.process_time() - drawn
        result[f"batch 8-64 while training a Stack-LSTM {hidden}, ms"] = 1e3 * drawing / rounds
        result[f"step of a Stack-LSTM {hidden}, ms"] = 1e3 * training / rounds
        result[f"share of a Stack-LSTM {hidden} step"] = drawing / training
    return result


def of_one_length(lengths: tuple[int, ...] = (40, 500), size: int = 128) -> dict[str, Any]:
    """Pairs a second of the Chomsky hierarchy's tasks in batches of one length, as their protocol
    has them. All tasks take turns; medians over the rounds."""
    tasks = [task for task in map(get_task, TASKS) if isinstance(task, ChomskyTask)]
    rates: dict[str, dict[int, list[float]]] = {
        task.name: {length: [] for length in lengths} for task in tasks
    }
    for each in range(ROUNDS + 1):  # the first round compiles
        for task in tasks:
            for length in lengths:
                rng = batch_rng(SEED, "bench", each)
                elapsed = seconds(lambda: task.sample(rng, size, (length, length)))  # noqa: B023
                rates[task.name][length].append(size / elapsed)
    return {
        name: {
            f"length {length}, pairs per second": statistics.median(found[1:])
            for length, found in by_length.items()
        }
        for name, by_length in rates.items()
    }


def main() -> None:
    """Test, measure, write."""
    tests = [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/tasks"]
    if subprocess.run(tests, cwd=ROOT, check=False).returncode:
        sys.exit("the tests of the tasks fail: nothing measured")
    torch.set_num_threads(1)
    random.seed(SEED)
    torch.manual_seed(SEED)
    report = {
        "seed": SEED,
        "batch size": 10,
        "sampling": {
            f"{name} {low}-{high}": against_rejection(name, (low, high))
            for name in ("gender", "svo-sov")
            for low, high in (TEST, TRAINING)
        },
        "batches": {
            name: against_training(name)
            for name in TASKS
            if not isinstance(get_task(name), ChomskyTask)  # other models read those
        },
        "batches of 128 of one length": of_one_length(),
    }
    rounded = json.loads(json.dumps(report), parse_float=lambda text: float(f"{float(text):.4g}"))
    for group in ("sampling", "batches", "batches of 128 of one length"):
        for label, figures in rounded[group].items():
            print(f"{label}: " + ", ".join(f"{key} {value:g}" for key, value in figures.items()))
    write_results("task_sampling", rounded)


if __name__ == "__main__":
    main()
