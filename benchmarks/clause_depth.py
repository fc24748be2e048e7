"""SVO to SOV at 1,024 words: how many relative clauses are open at once before the main verb, and
how often the shipped models are right by that depth.

python benchmarks/clause_depth.py        writes results/clause_depth.json

The main verb is the first that closes no relative clause, so a model has to count open clauses to
know it. Sources of the training lengths are never nested deeply.
"""

from collections import Counter
from typing import Any

import torch

from machine import write_results
from pushpop import Transducer
from pushpop.evaluation import score
from pushpop.models import find_model
from pushpop.tasks import Pairs, batch_rng, get_task

TASK = get_task("svo-sov")
TRAINING, LONG, LONGER = (3, 64), (1024, 1024), (10_000, 10_000)
SEED, DRAWN = 3, {TRAINING: 10_000, LONG: 200, LONGER: 200}
MODELS = ("svo-sov-queue", "svo-sov-deque")
STEPS_AT_ONCE = 50_000


def main() -> None:
    torch.set_num_threads(1)
    drawn = {lengths: draw(lengths) for lengths in DRAWN}
    deepest = {
        f"{low}-{high}": max(map(depth, sources(pairs))) for (low, high), pairs in drawn.items()
    }
    trained_on = deepest[f"{TRAINING[0]}-{TRAINING[1]}"]
    result: dict[str, Any] = {"seed": SEED, "sources": list(DRAWN.values()), "deepest": deepest}
    for name in MODELS:
        result[name] = by_depth(
            Transducer.from_pretrained(find_model(name)), drawn[LONG], trained_on
        )
        print(name, result[name])
    print("deepest", deepest)
    write_results("clause_depth", result)


def draw(lengths: tuple[int, int]) -> Pairs:
    """Sources of these lengths; those of training as the recipe draws them, all equally often."""
    task = TASK.with_uniform_lengths() if lengths == TRAINING else TASK
    return task.sample(batch_rng(SEED, "depth", 0), DRAWN[lengths], lengths)


def sources(pairs: Pairs) -> list[list[str]]:
    """The words of each source."""
    return [TASK.vocabulary.decode_source(source) for source, _ in pairs]


def depth(source: list[str]) -> int:
    """The most relative clauses that are open at once before the main verb."""
    still_open = deepest = 0
    for word in source:
        if word == "rpi":
            still_open += 1
            deepest = max(deepest, still_open)
        elif word.startswith("vi"):
            if not still_open:
                break
            still_open -= 1
    return deepest


def by_depth(model: Transducer, pairs: Pairs, trained_on: int) -> dict[str, list[int]]:
    """Right targets and all of them, of sources nested as in training and of deeper ones."""
    scores = score(model, pairs, steps_at_once=STEPS_AT_ONCE)
    right, counted = Counter[str](), Counter[str]()
    for source, correct, symbols in zip(
        sources(pairs), scores.correct.tolist(), scores.symbols.tolist(), strict=True
    ):
        kind = "as in training" if depth(source) <= trained_on else "deeper"
        counted[kind] += 1
        right[kind] += correct == symbols
    return {kind: [right[kind], counted[kind]] for kind in sorted(counted)}


if __name__ == "__main__":
    main()
