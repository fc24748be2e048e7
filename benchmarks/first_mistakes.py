"""Where in its targets a model makes its first mistake.

python benchmarks/first_mistakes.py RUN        writes results/first_mistakes.json

RUN is the directory of a finished run, or of a model. On 500 sources of the test lengths the
model is given the right target and names each next symbol, which finds the first mistake of
greedy decoding: up to it both see the same.
"""

import sys
from pathlib import Path
from typing import Any

import torch

from machine import write_results
from pushpop import Transducer
from pushpop.tasks import draw_batch, get_task

SOURCES, LENGTHS = 500, (65, 128)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    model = Transducer.from_pretrained(sys.argv[1])
    found = first_mistakes(model, get_task(model.metadata["training"]["task"]))
    print(found)
    write_results("first_mistakes", {"run": Path(sys.argv[1]).name, **found})


@torch.no_grad()
def first_mistakes(model: Transducer, task: Any) -> dict[str, Any]:
    """Wrong targets by the tenth that their first mistake lies in, and those of the last pair."""
    batch = draw_batch(
        task, seed=5, stream="mistakes", index=0, batch_size=SOURCES, lengths=LENGTHS
    )
    logits, _ = model.eval()(batch.inputs, batch.lengths)
    guess = logits.argmax(-1)
    tenths, last_pair = [0] * 10, 0
    for row in range(SOURCES):
        asked = batch.mask[:, row]
        wrong = (guess[asked, row] != batch.outputs[asked, row]).nonzero().flatten()
        if len(wrong):
            first, symbols = int(wrong[0]), int(asked.sum()) - 1  # without the end symbol
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
