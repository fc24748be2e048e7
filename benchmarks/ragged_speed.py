"""What padding costs: a batch of sequences of several lengths, against the same batch padded.

    python benchmarks/ragged_speed.py           writes results/ragged_speed.json

One thread, the sizes of the Chomsky-hierarchy benchmark (batch 128, input 16, 64 units, memory 32),
float32, forward and backward; lengths evenly spread from 1 to 80, so that half of all steps are
real. "Ragged" is given the lengths, "padded" is not and runs 80 steps of every row. `nn.LSTM` is
packed by torch (`pack_padded_sequence`, `pad_packed_sequence`). All take turns in one run.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from machine import interleave, write_results
from pushpop import DeepLSTM, MemoryRNN

T, B, INPUT, HIDDEN, WIDTH = 80, 128, 16, 64, 32
MEMORIES = ("stack", "queue", "deque", "superposition", "tape")
LENGTHS = [1 + 5 * row % T for row in range(B)]
ROUNDS = 15


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(T, B, INPUT)
    layers: dict[str, nn.Module] = {
        memory: MemoryRNN(INPUT, HIDDEN, memory, WIDTH) for memory in MEMORIES
    }
    layers["DeepLSTM"] = DeepLSTM(INPUT, HIDDEN, 1)
    calls = {}
    for name, layer in layers.items():
        check_agreement(layer, x)
        calls[f"{name} ragged"] = partial(train, layer, x, LENGTHS)
        calls[f"{name} padded"] = partial(train, layer, x)
    calls["nn.LSTM packed"] = partial(train_packed, nn.LSTM(INPUT, HIDDEN), x)
    seconds = interleave(calls, dict.fromkeys(calls, ROUNDS), warmup=2)
    figures = {
        "milliseconds": {name: round(1e3 * s, 1) for name, s in seconds.items()},
        "ragged_over_padded": {
            name: round(seconds[f"{name} ragged"] / seconds[f"{name} padded"], 2) for name in layers
        },
        "ragged_over_nn_lstm_packed": {
            name: round(seconds[f"{name} ragged"] / seconds["nn.LSTM packed"], 2) for name in layers
        },
    }
    print(figures)
    setting = {
        "T": T, "B": B, "input": INPUT, "hidden": HIDDEN, "memory_width": WIDTH, "threads": 1,
        "real_steps": round(sum(LENGTHS) / (T * B), 3),
    }  # fmt: skip
    write_results("ragged_speed", {"setting": setting, **figures})


def check_agreement(layer: nn.Module, x: Tensor) -> None:
    """A ragged batch gives what its rows give one by one."""
    with torch.no_grad():
        together, _ = layer(x, lengths=LENGTHS)
        for row in (0, 1, B - 1):
            alone, _ = layer(x[: LENGTHS[row], row : row + 1])
            torch.testing.assert_close(
                together[: LENGTHS[row], row], alone[:, 0], atol=1e-5, rtol=1e-4
            )


def train(layer: nn.Module, x: Tensor, lengths: list[int] | None = None) -> None:
    """One forward and backward pass."""
    layer.zero_grad()
    layer(x, lengths=lengths)[0].sum().backward()


def train_packed(lstm: nn.LSTM, x: Tensor) -> None:
    """The same of torch's own layer."""
    lstm.zero_grad()
    packed = pack_padded_sequence(x, torch.tensor(LENGTHS), enforce_sorted=False)
    pad_packed_sequence(lstm(packed)[0])[0].sum().backward()


if __name__ == "__main__":
    main()
