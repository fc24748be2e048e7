"""What a file of pairs costs to read, and words to predict from.

    python benchmarks/own_data_speed.py        writes results/own_data_speed.json

8,000 made-up pairs of 4 to 12 letters and as many sounds; a model of the recipe's sizes that has
not learnt anything, so predictions are held to 12 symbols. Medians of three; `transduce` is the
whole command, with Python's start and all imports in it. All of it is done on one thread, so that
processor time says what it costs where other programs run beside it.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from machine import interleave, write_results
from pushpop import Transducer
from pushpop.tasks.pairs import PairsData, vocabulary_of
from pushpop.tasks.pairs_file import PairsFile
from pushpop.training import TrainConfig

PAIRS, WORDS, LONGEST, ROUNDS = 8000, 1000, 12, 3


def main() -> None:
    torch.set_num_threads(1)  # as the command does
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyzáéíóú"
    words = ["".join(rng.choices(letters, k=rng.randint(4, LONGEST))) for _ in range(PAIRS)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.tsv"
        path.write_text("".join(f"{word}\t{' '.join(word)}\n" for word in words), "utf-8")

        def load() -> PairsData:
            file = PairsFile(path)
            return PairsData(file.pairs, vocabulary_of(file.pairs), 16)

        file = PairsFile(path)
        config = TrainConfig.from_dict({"task": str(path)})
        model = Transducer(config.model, vocabulary_of(file.pairs), text=file.form)
        model.save_pretrained(Path(folder) / "model")
        some = words[:WORDS]
        calls: dict[str, Callable[[], Any]] = {
            "load 8,000 pairs": load,
            "predict 1,000 words": lambda: model.decode(some, max_length=LONGEST),
            "the same, beam 5": lambda: model.decode(some, beam=5, max_length=LONGEST),
            "pushpop transduce, 1,000 words": lambda: _command(Path(folder) / "model", some),
        }
        seconds = interleave(calls, dict.fromkeys(calls, ROUNDS))
        processor = {name: _processor_seconds(call) for name, call in calls.items()}
    for name, figure in seconds.items():
        print(f"{name:32} {figure:.2f} s, {processor[name]:.2f} s of processor time")
    setting = {
        "threads": 1,
        "rounds": ROUNDS,
        "model": config.model.to_dict(),
        "max_length": LONGEST,
    }
    rounded = {name: round(figure, 3) for name, figure in seconds.items()}
    figures = {"setting": setting, "seconds": rounded, "processor_seconds": processor}
    write_results("own_data_speed", figures)


def _processor_seconds(call: Callable[[], Any]) -> float:
    """The median of what the process and those that it starts use."""
    found = []
    for _ in range(ROUNDS):
        before = sum(os.times()[:4])
        call()
        found.append(sum(os.times()[:4]) - before)
    return round(median(found), 3)


def _command(model: Path, words: list[str]) -> None:
    command = [sys.executable, "-m", "pushpop.cli", "transduce", str(model)]
    subprocess.run(
        [*command, "--max-length", str(LONGEST)],
        input="\n".join(words).encode(),
        stdout=subprocess.DEVNULL,
        check=True,
    )


if __name__ == "__main__":
    main()
