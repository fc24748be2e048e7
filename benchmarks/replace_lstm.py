"""What an LSTM and an LSTM with a stack reach in examples/replace_lstm.py, over five seeds.

python benchmarks/replace_lstm.py        writes results/replace_lstm.json
"""

import runpy
from pathlib import Path

import torch

from machine import write_results

SEEDS, STEPS = range(5), 1500


def main() -> None:
    torch.set_num_threads(1)
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "replace_lstm.py"))
    lengths = [example["TRAINED"], example["LONGER"]]
    rows = []
    for layer in example["LAYERS"]:
        for seed in SEEDS:
            accuracy = [round(a, 4) for a in example["compare"](layer, seed, STEPS)]
            print(layer, seed, accuracy, flush=True)
            rows.append({"layer": layer, "seed": seed, "accuracy": accuracy})
    write_results("replace_lstm", {"steps": STEPS, "lengths": lengths, "rows": rows})


if __name__ == "__main__":
    main()
