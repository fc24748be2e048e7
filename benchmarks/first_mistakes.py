"""Where in its targets a model makes its first mistake.

python benchmarks/first_mistakes.py RUN        writes results/first_mistakes.json

RUN is the directory of a finished run, or of a model; it is tried on 500 sources of the test
lengths.
"""

import sys
from pathlib import Path
from typing import Any

from machine import write_results
from pushpop import Transducer
from pushpop.evaluation import score
from pushpop.tasks import Task, batch_rng, get_task

SOURCES, LENGTHS = 500, (65, 128)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    model = Transducer.from_pretrained(sys.argv[1])
    found = first_mistakes(model, get_task(model.metadata["training"]["task"]))
    print(found)
    write_results("first_mistakes", {"run": Path(sys.argv[1]).name, **found})


def first_mistakes(model: Transducer, task: Task) -> dict[str, Any]:
    """Wrong targets by the tenth that their first mistake lies in, and those of the last pair."""
    scores = score(model, task.sample(batch_rng(5, "mistakes", 0), SOURCES, LENGTHS))
    tenths, last_pair = [0] * 10, 0
    for first, counted in zip(scores.correct.tolist(), scores.symbols.tolist(), strict=True):
        if first < counted:
            symbols = counted - 1  # without the end symbol
            tenths[min(9, 10 * first // symbols)] += 1
            last_pair += first in (symbols - 2, symbols - 1)
    return {
        "sources": SOURCES,
        "lengths": list(LENGTHS),
        "wrong": sum(tenths),
        "first_mistake_by_tenth_of_the_target": tenths,
        "first_mistake_in_the_last_pair": last_pair,
    }


if __name__ == "__main__":
    main()
