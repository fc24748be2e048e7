"""Memories as language models of formal languages: how far from the true distribution, by length.

    python benchmarks/formal_languages.py        writes results/formal_languages.json
    python benchmarks/formal_languages.py --languages reversal --memories stack,none --seeds 0

A training set has 10,000 lines, their lengths uniform over those from 40 to 80 that the language
has, each line uniform over all lines of its length: so the true distribution p is known exactly.
Models are tested on lines of one length at a time, up to 160, by two figures in nats a symbol (the
end counts as one):

- difference: the mean of log p(line) - log q(line), where q is the model's. It is the cross entropy
  beyond that of the true distribution; 0 is perfect. Beyond 80, p is what it would be if the length
  were as likely as one in training.
- forced: the mean of -log q over the symbols that the language leaves no choice about, given what
  goes before: the second half of a marked reversal, the kind of a bracket that closes, all after
  the first b of a^n b^n. A model that uses its memory well has 0, at any length.

What is done is never done again; several of these can run at a time. Runs are kept in
runs/formal-languages.
"""

import argparse
import fcntl
import json
from abc import ABC, abstractmethod
from functools import cache
from math import comb, log
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from machine import RESULTS, describe_machine
from pushpop import Transducer
from pushpop.files import write_file
from pushpop.models import LanguageModel
from pushpop.tasks import Pairs, batch_rng
from pushpop.training import TrainConfig, train
from pushpop.training.view import PlainView

PATH = RESULTS / "formal_languages.json"
TRAINED = range(40, 81)
TESTED = range(40, 161, 20)
LINES, TEST_LINES = 10_000, 100
MEMORIES = ("stack", "queue", "deque", "superposition", "none")
OPTIONS: dict[str, Any] = {
    "form": "lm",
    "target_symbols": "chars",
    "embedding": 16,
    "hidden": 64,
    "memory_width": 16,
    "dropout": 0.0,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "steps": 10_000,
    "epochs": 20,
}
"""Beside the recipe `lm`."""
UNITS = {"none": 72, "deque": 57}
"""Units of models other than 64, for as many parameters as the others have."""


class Language(ABC):
    """A formal language that can be sampled exactly, each line of a length as likely as another."""

    @abstractmethod
    def has(self, length: int) -> bool:
        """Whether there are lines of this length."""

    @abstractmethod
    def log_count(self, length: int) -> float:
        """The logarithm of the number of lines of this length."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, length: int) -> str:
        """One of them, each equally likely."""

    @abstractmethod
    def forced(self, line: str) -> list[bool]:
        """Where the language leaves no choice, for each symbol of a line and its end."""

    def lengths(self) -> list[int]:
        """The lengths of lines in training."""
        return [length for length in TRAINED if self.has(length)]

    def log_probability(self, length: int) -> float:
        """Of each line of a length, as it is in training."""
        return -self.log_count(length) - log(len(self.lengths()))


class MarkedReversal(Language):
    """w # reversed(w), w in {0, 1}*: a deterministic language."""

    def has(self, length: int) -> bool:
        return length % 2 == 1

    def log_count(self, length: int) -> float:
        return length // 2 * log(2)

    def draw(self, rng: np.random.Generator, length: int) -> str:
        half = _bits(rng, length // 2)
        return f"{half}#{half[::-1]}"

    def forced(self, line: str) -> list[bool]:
        middle = line.index("#")
        return [place > middle for place in range(len(line) + 1)]


class Reversal(Language):
    """w reversed(w): where the middle is has to be guessed."""

    def has(self, length: int) -> bool:
        return length % 2 == 0

    def log_count(self, length: int) -> float:
        return length // 2 * log(2)

    def draw(self, rng: np.random.Generator, length: int) -> str:
        half = _bits(rng, length // 2)
        return half + half[::-1]

    def forced(self, line: str) -> list[bool]:
        return [False] * (len(line) + 1)


class Dyck(Language):
    """Brackets of two kinds that nest, at most so deep."""

    def __init__(self, depth: int | None = None) -> None:
        self.depth = depth
        self._ways = cache(self._count)

    def _count(self, open_brackets: int, left: int) -> int:
        """Ways to go on with so many brackets open and so many symbols left, kinds apart."""
        if open_brackets < 0 or open_brackets > left:
            return 0
        if self.depth is None:  # the ballot numbers
            closing, opening = (left + open_brackets) // 2, (left - open_brackets) // 2
            if (left + open_brackets) % 2:
                return 0
            return comb(left, opening) - (comb(left, closing + 1) if opening else 0)
        if open_brackets > self.depth:
            return 0
        if not left:
            return 1
        return self._ways(open_brackets + 1, left - 1) + self._ways(open_brackets - 1, left - 1)

    def has(self, length: int) -> bool:
        return length % 2 == 0

    def log_count(self, length: int) -> float:
        return log(self._ways(0, length)) + length // 2 * log(2)

    def draw(self, rng: np.random.Generator, length: int) -> str:
        line, closing = [], []
        for left in range(length, 0, -1):
            opens = self._ways(len(closing) + 1, left - 1)
            if rng.random() * self._ways(len(closing), left) < opens:
                kind = int(rng.random() * 2)
                line.append("(["[kind])
                closing.append(")]"[kind])
            else:
                line.append(closing.pop())
        return "".join(line)

    def forced(self, line: str) -> list[bool]:
        """The kind of a bracket that closes; that one closes is not."""
        return [symbol in ")]" for symbol in line] + [False]


class Counting(Language):
    """a^n b^n."""

    def has(self, length: int) -> bool:
        return length % 2 == 0

    def log_count(self, length: int) -> float:
        return 0.0

    def draw(self, rng: np.random.Generator, length: int) -> str:
        return "a" * (length // 2) + "b" * (length // 2)

    def forced(self, line: str) -> list[bool]:
        return [place > len(line) // 2 for place in range(len(line) + 1)]


LANGUAGES: dict[str, Language] = {
    "marked reversal": MarkedReversal(),
    "reversal": Reversal(),
    "dyck": Dyck(),
    "dyck of depth 5": Dyck(5),
    "a^n b^n": Counting(),
}


def _bits(rng: np.random.Generator, count: int) -> str:
    return "".join("01"[int(number * 2)] for number in rng.random(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="separated by commas")
    parser.add_argument("--memories", default=",".join(MEMORIES), help="the same")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=0, help="fewer batches, to try it out")
    parser.add_argument("--runs", type=Path, default=Path("runs/formal-languages"))
    parser.add_argument("--note", default="", help="what else the machine was doing, for the file")
    options = parser.parse_args()
    for seed in map(int, options.seeds.split(",")):
        for language in options.languages.split(","):
            for memory in options.memories.split(","):
                if (language, memory, seed) not in {key(row) for row in saved_rows()}:
                    row = measure(language, memory, seed, options.runs, options.steps)
                    print(json.dumps(row), flush=True)
                    if not options.steps:
                        add(row, options.note)
    show(saved_rows())


def measure(name: str, memory: str, seed: int, runs: Path, steps: int = 0) -> dict[str, Any]:
    """Train a model, or finish a run that was stopped, and test it at each length."""
    language = LANGUAGES[name]
    path = runs / f"{name.replace(' ', '-').replace('^', '')}.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, "".join(f"{line}\n" for line in drawn_lines(language)).encode())
    given = {**OPTIONS, "task": str(path), "memory": memory, "seed": seed}
    given["hidden"] = UNITS.get(memory, OPTIONS["hidden"])
    if steps:
        given["steps"] = steps
    folder = runs / f"{path.stem}-{memory}-seed{seed}{f'-{steps}' if steps else ''}"
    report = train(TrainConfig.from_dict(given), folder, PlainView())
    model = Transducer.from_pretrained(folder)
    assert isinstance(model, LanguageModel)
    return {
        "language": name,
        "memory": memory,
        "seed": seed,
        "parameters": report["parameters"],
        "batches": report["step"],
        "seconds": round(report["seconds"]),
        "lengths": [test(model, language, length) for length in tested_lengths(language)],
    }


def drawn_lines(language: Language) -> list[str]:
    """The lines of the training set, the same ones for all models."""
    rng = batch_rng(0, "formal languages", 0)
    lengths = language.lengths()
    drawn = (lengths[int(number * len(lengths))] for number in rng.random(LINES))
    return [language.draw(rng, length) for length in drawn]


def tested_lengths(language: Language) -> list[int]:
    """The lengths of the tests: those that the language has, or one more."""
    return [length if language.has(length) else length + 1 for length in TESTED]


@torch.no_grad()
def test(model: LanguageModel, language: Language, length: int) -> dict[str, Any]:
    """The two figures at a length."""
    rng = batch_rng(1, "formal languages", length)
    lines = [language.draw(rng, length) for _ in range(TEST_LINES)]
    numbers = [model.vocabulary.encode_target(line).tolist() for line in lines]
    batch = model.make_batch(Pairs.of([((), line) for line in numbers]))
    logits = model.eval()(batch.inputs)[0].double()  # [T, B, C]
    scores = logits.log_softmax(dim=-1).gather(2, batch.outputs[..., None])[..., 0]
    forced = torch.tensor([language.forced(line) for line in lines]).T
    if isinstance(language, Dyck):  # given that a bracket closes, of which kind
        closing = [1 + model.vocabulary.target.index(symbol) for symbol in ")]"]
        closes = logits.log_softmax(dim=-1)[..., closing].logsumexp(dim=-1)
        forced_scores = (scores - closes)[forced]
    else:
        forced_scores = scores[forced]
    difference = (language.log_probability(length) - scores.sum(dim=0)) / (length + 1)
    return {
        "length": length,
        "difference": round(float(difference.mean()), 5),
        "forced": round(-float(forced_scores.mean()), 5) if forced.any() else None,
    }


def key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["language"], row["memory"], row["seed"]


def saved_rows() -> list[dict[str, Any]]:
    """What has been measured."""
    rows: list[dict[str, Any]] = json.loads(PATH.read_text())["rows"] if PATH.exists() else []
    return rows


def add(row: dict[str, Any], note: str) -> None:
    """Put a row into the file, whatever others put there meanwhile."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / ".formal_languages.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = sorted([*saved_rows(), row], key=key)
        data = {"machine": describe_machine(), "note": note, "options": OPTIONS, "rows": rows}
        write_file(PATH, f"{json.dumps(data, indent=1)}\n".encode())


def show(rows: list[dict[str, Any]]) -> None:
    """A Markdown table a figure, as docs/language-models.md has them: means over seeds at the
    length nearest to 80, and at that nearest to 160."""
    for figure in ("difference", "forced"):
        print(f"\n| {figure} |", " | ".join(MEMORIES), "|")
        print("|---" * (1 + len(MEMORIES)) + "|")
        for language in LANGUAGES:
            cells = [language]
            for memory in MEMORIES:
                mine = [row["lengths"] for row in rows if key_of_pair(row) == (language, memory)]
                ends = [[tests[TESTED.index(n)][figure] for tests in mine] for n in (80, 160)]
                cells.append(
                    "" if None in ends[0] or not mine
                    else " / ".join(f"{mean(values):.3f}" for values in ends)
                )  # fmt: skip
            print("|", " | ".join(cells), "|")
    seeds = {
        len([row for row in rows if key_of_pair(row) == pair]) for pair in map(key_of_pair, rows)
    }
    print("seeds:", *sorted(seeds))


def key_of_pair(row: dict[str, Any]) -> tuple[str, str]:
    return row["language"], row["memory"]


if __name__ == "__main__":
    main()
