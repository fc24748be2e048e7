"""How the shipped models do at every length from their task's shortest to 16, on the training and
the test lengths, and far beyond.

python benchmarks/shipped_lengths.py [MODEL...]        writes results/shipped_lengths.json

Without names, all shipped models; a folder of a model or a run will do too, and is then only
printed. About two minutes a model on one thread.
"""

import sys
from typing import Any

import torch

from machine import write_results
from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.evaluation import score
from pushpop.models import find_model, shipped_models
from pushpop.tasks import LengthRange, Task, batch_rng, get_task

SHORT = range(1, 17)
RANGES = {"8-64": (8, 64), "65-128": (65, 128), "1024": (1024, 1024), "10000": (10_000, 10_000)}
SEQUENCES = {"8-64": 1000, "65-128": 1000, "1024": 200, "10000": 100}
AT_EACH_SHORT_LENGTH = 200
SEED = 77
STEPS_AT_ONCE = 400_000  # 20 sequences of 10,000 symbols and their targets


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in sys.argv[1:] or shipped_models():
        model = Transducer.from_pretrained(find_model(name))
        rows.append({"model": name, **measure(model, get_task(model.metadata["training"]["task"]))})
        print(rows[-1], flush=True)
    if not sys.argv[1:]:
        write_results("shipped_lengths", {"seed": SEED, "sequences": SEQUENCES, "models": rows})


def measure(model: Transducer, task: Task) -> dict[str, Any]:
    """Coarse accuracy by length; the lengths that the task does not have are left out."""
    short = {}
    for length in SHORT:
        try:
            short[str(length)] = coarse(model, task, (length, length), AT_EACH_SHORT_LENGTH)
        except InputError:  # no sentence has this length
            continue
    beyond = {name: coarse(model, task, RANGES[name], SEQUENCES[name]) for name in RANGES}
    return {"least_up_to_16": min(short.values()), **beyond, "short": short}


def coarse(model: Transducer, task: Task, lengths: LengthRange, sequences: int) -> float:
    """The share of targets that are right from beginning to end."""
    pairs = task.sample(batch_rng(SEED, "shipped", lengths[0]), sequences, lengths)
    return score(model, pairs, steps_at_once=STEPS_AT_ONCE).coarse


if __name__ == "__main__":
    main()
