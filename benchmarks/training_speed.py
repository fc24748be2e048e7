"""How many batches a second training makes, at the paper's size.

    python benchmarks/training_speed.py [--threads 1]        writes results/training_speed.json

Batches of 10 with sources of 8 to 64 symbols, 256 units, a memory 256 wide, recipe `paper`, seed 0:
the next batch is drawn, forward, backward, clipped, and the weights change. Models take turns, and
the median of their batches counts.
"""

import argparse

import torch

from machine import interleave, write_results
from pushpop.training import TrainConfig
from pushpop.training.data import make_data
from pushpop.training.parallel import Group
from pushpop.training.trainer import make_trainer

MODELS = (("copy", "queue"), ("reverse", "stack"), ("copy", "deque"))
BATCHES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    steps = {}
    for task, memory in MODELS:
        config = TrainConfig.from_dict({"task": task, "memory": memory, "seed": 0})
        steps[f"{task}, {memory}"] = make_trainer(config, Group(), make_data(config), None).step
    seconds = interleave(steps, dict.fromkeys(steps, BATCHES), warmup=3)
    figures = {name: round(1 / median, 2) for name, median in seconds.items()}
    print(figures)
    setting = {"batch": 10, "lengths": [8, 64], "hidden": 256, "width": 256, "threads": threads}
    write_results("training_speed", {"setting": setting, "batches_per_second": figures})


if __name__ == "__main__":
    main()
