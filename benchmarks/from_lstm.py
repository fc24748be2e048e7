"""What a trained LSTM reaches with the tape of examples/from_lstm.py, over three seeds.

python benchmarks/from_lstm.py        writes results/from_lstm.json
"""

import runpy
import sys
from pathlib import Path

import torch

from machine import write_results

SEEDS = range(3)
EXAMPLES = Path(__file__).parents[1] / "examples"


def main() -> None:
    torch.set_num_threads(1)
    sys.path.insert(0, str(EXAMPLES))  # the example imports another
    example = runpy.run_path(str(EXAMPLES / "from_lstm.py"))
    steps, longer = example["STEPS"], example["LONGER_STEPS"]
    rows = []
    for seed in SEEDS:
        for stage, right in example["compare"](seed, steps, longer):
            rows.append({"seed": seed, "stage": stage, "accuracy": [round(a, 4) for a in right]})
            print(rows[-1], flush=True)
    figures = {"steps": [*steps, longer], "lengths": example["LENGTHS"], "rows": rows}
    write_results("from_lstm", figures)


if __name__ == "__main__":
    main()
