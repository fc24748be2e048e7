"""Give a trained nn.LSTM a memory, and train it further: it learns inputs that it failed on.

    python examples/from_lstm.py            two to three minutes on one core

The task of replace_lstm.py: write the symbols read in reverse order. An nn.LSTM is trained on 2 to
16 symbols. `MemoryRNN.from_lstm` makes a layer with a tape of it, which computes the same. Both are
then trained further in the same way, first on these lengths and then on 2 to 32 symbols.
"""

import argparse
import copy
from collections.abc import Iterator

import torch
from torch import nn

import pushpop
from replace_lstm import TRAINED, Reverser, accuracy, train

LENGTHS = (TRAINED, 32, 64)
STEPS, LONGER_STEPS = (1500, 1000), 500


def compare(seed: int, steps: tuple[int, int], longer: int) -> Iterator[tuple[str, list[float]]]:
    """Yield each stage and its accuracies: batches before and after, and then on longer inputs."""
    torch.manual_seed(seed)
    model = Reverser(nn.LSTM(32, 64), 64)
    train(model, steps[0])
    yield "nn.LSTM, trained", measure(model)
    extended = copy.deepcopy(model)
    extended.layer = pushpop.MemoryRNN.from_lstm(model.layer, memory="tape", memory_width=32)
    yield "MemoryRNN.from_lstm of it", measure(extended)
    for name, each in (("the nn.LSTM", model), ("the MemoryRNN", extended)):
        train(each, steps[1])
        train(each, longer, longest=LENGTHS[1])
        yield f"{name}, trained further", measure(each)


def measure(model: Reverser) -> list[float]:
    return [accuracy(model, length) for length in LENGTHS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, nargs=2, default=STEPS, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--longer-steps", type=int, default=LONGER_STEPS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'share of right symbols at':30}", *(f"{length:5}" for length in LENGTHS), "symbols")
    for stage, right in compare(options.seed, options.steps, options.longer_steps):
        print(f"{stage:30}", *(f"{share:5.3f}" for share in right), flush=True)


if __name__ == "__main__":
    main()
