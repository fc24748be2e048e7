"""How a model adds binary numbers when the second is as long as the first or longer, or shorter.

python benchmarks/addition_lengths.py RUN        writes results/addition_lengths.json

RUN is the directory of a finished run on chomsky/binary-addition. It is tried on 1,000 sources of
the training lengths, from 3 symbols on (shorter ones hold one number), and 1,000 of the test
lengths.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from machine import write_results
from pushpop import Tagger
from pushpop.evaluation import score
from pushpop.tasks import LengthRange, batch_rng, get_task
from pushpop.tasks.base import places

TASK, SOURCES, LENGTHS = "chomsky/binary-addition", 1000, ((3, 40), (41, 500))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    model = Tagger.from_pretrained(sys.argv[1])
    found = [row for lengths in LENGTHS for row in by_second(model, lengths)]
    for row in found:
        print(row)
    write_results("addition_lengths", {"run": Path(sys.argv[1]).name, "rows": found})


def by_second(model: Tagger, lengths: LengthRange) -> list[dict[str, Any]]:
    """Accuracy on sources whose second number has fewer digits than the first, and on others."""
    task = get_task(TASK)
    pairs = task.sample(batch_rng(5, "addition", 0), SOURCES, lengths)
    scores = score(model, task.scored(pairs))
    rows, positions = places(pairs.source_lengths)
    (plus,) = task.vocabulary.encode_source(["2"])
    first = np.zeros(SOURCES, np.int64)
    first[rows[pairs.source == plus]] = positions[pairs.source == plus]  # digits before the 2
    shorter = pairs.source_lengths - 1 - first < first
    found = []
    for name, chosen in (("not shorter", ~shorter), ("shorter", shorter)):
        right, symbols = scores.right[chosen], scores.symbols[chosen]
        found.append({
            "lengths": list(lengths),
            "second_number": name,
            "sources": int(chosen.sum()),
            "accuracy": round(float(np.mean(right / symbols)), 4),
            "coarse": round(float(np.mean(right == symbols)), 4),
        })  # fmt: skip
    return found


if __name__ == "__main__":
    main()
