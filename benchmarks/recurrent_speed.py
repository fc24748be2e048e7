"""How fast a recurrent layer with a memory is, against nn.LSTM and against itself step by step.

    python benchmarks/recurrent_speed.py        writes results/recurrent_speed.json
    python benchmarks/recurrent_speed.py --threads 2        results/recurrent_speed_2_threads.json

Batch 10, 130 steps, input 64, memory 256, float32, forward+backward; hidden 256 and 512. All take
turns in one run. "Generic" is the controller in plain torch and the memory's kernel a step at a
time. Nothing is reported unless fused and generic agree on these inputs. Then batches of 128, fused
and nn.LSTM only. `work` is the ratio of floating-point operations to nn.LSTM's: the limit of what
can be reached.
"""

import argparse
from functools import partial

import torch
from torch import Tensor, nn

from machine import interleave, write_results
from pushpop import MemoryRNN

T, B, INPUT, WIDTH = 130, 10, 64, 256
LARGE_BATCH = 128
ROUNDS = {"lstm": 24, "fused": 24, "generic": 8}
LARGE_ROUNDS = 8
MEMORIES = ("stack", "queue", "deque")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    figures = {}
    for hidden in (256, 512):
        for batch in (B, LARGE_BATCH):
            name = f"hidden {hidden}" + (f", batch {batch}" if batch != B else "")
            figures[name] = measure(hidden, batch)
            print(f"{name}: {figures[name]}", flush=True)
    setting = {
        "T": T, "B": B, "input": INPUT, "memory_width": WIDTH, "output": 64, "threads": threads
    }  # fmt: skip
    file = "recurrent_speed" + (f"_{threads}_threads" if threads > 1 else "")
    write_results(file, {"setting": setting, **figures})


def measure(hidden: int, batch: int) -> dict[str, dict[str, float]]:
    x = torch.randn(T, batch, INPUT)
    layers: dict[str, nn.Module] = {}
    for memory in MEMORIES:
        layers[f"{memory} fused"] = MemoryRNN(INPUT, hidden, memory, WIDTH, output_size=64)
        if batch == B:
            generic = MemoryRNN(INPUT, hidden, memory, WIDTH, output_size=64)
            generic.backend = "reference"  # of the layer only: its memory keeps the kernels
            generic.load_state_dict(layers[f"{memory} fused"].state_dict())
            check_agreement(layers[f"{memory} fused"], generic, x)
            layers[f"{memory} generic"] = generic
    layers["nn.LSTM"] = nn.LSTM(INPUT, hidden)
    calls = {name: partial(train, layer, x) for name, layer in layers.items()}
    rounds = dict.fromkeys(calls, LARGE_ROUNDS)
    if batch == B:
        rounds = {name: ROUNDS[name.split()[-1].lower().removeprefix("nn.")] for name in calls}
    seconds = interleave(calls, rounds, warmup=2)
    figures = {
        "milliseconds": {name: round(1e3 * s, 2) for name, s in seconds.items()},
        "times_nn_lstm": {
            memory: round(seconds[f"{memory} fused"] / seconds["nn.LSTM"], 2) for memory in MEMORIES
        },
        "work": {memory: _work(memory, hidden) for memory in MEMORIES},
    }
    if batch == B:
        figures["times_faster_than_generic"] = {
            memory: round(seconds[f"{memory} generic"] / seconds[f"{memory} fused"], 2)
            for memory in MEMORIES
        }
    return figures


def train(layer: nn.Module, x: Tensor) -> list[Tensor]:
    """The output and all gradients."""
    x = x.detach().requires_grad_()
    output, _ = layer(x)
    return [output.detach(), *torch.autograd.grad(output.sum(), [x, *layer.parameters()])]


def check_agreement(fused: nn.Module, generic: nn.Module, x: Tensor) -> None:
    """Measure nothing unless both ways give the same."""
    for found, wanted in zip(train(fused, x), train(generic, x), strict=True):
        error = float((found - wanted).abs().max() / wanted.abs().max())
        if error > 1e-3:
            raise SystemExit(f"fused and generic differ by {error}; nothing measured")


def _work(memory: str, hidden: int) -> float:
    """Multiplications a step, in units of nn.LSTM's."""
    ends = 2 if memory == "deque" else 1
    read = ends * WIDTH
    ours = 4 * hidden * (INPUT + read + hidden) + hidden * (read + 2 * ends + 64)
    return round(ours / (4 * hidden * (INPUT + hidden)), 2)


if __name__ == "__main__":
    main()
