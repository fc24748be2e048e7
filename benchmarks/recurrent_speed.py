"""How fast a recurrent layer with a memory is, against nn.LSTM and against itself step by step.

    python benchmarks/recurrent_speed.py        writes results/recurrent_speed.json

One thread, batch 10, 130 steps, input 64, memory 256, float32, forward+backward; hidden 256 and
512. All take turns in one run. "Generic" is the controller in plain torch and the memory's kernel a
step at a time. Nothing is reported unless fused and generic agree on these inputs.
`work` is the ratio of floating-point operations to nn.LSTM's: the limit of what can be reached.
"""

from functools import partial

import torch
from torch import Tensor, nn

from machine import interleave, write_results
from pushpop import MemoryRNN

T, B, INPUT, WIDTH = 130, 10, 64, 256
ROUNDS = {"lstm": 24, "fused": 24, "generic": 8}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = {}
    for hidden in (256, 512):
        x = torch.randn(T, B, INPUT)
        lstm = nn.LSTM(INPUT, hidden)
        layers = {}
        for memory in ("stack", "queue", "deque"):
            for backend in ("fused", "generic"):
                layer = MemoryRNN(INPUT, hidden, memory, WIDTH, output_size=64)
                if backend == "generic":
                    layer.backend = "reference"  # of the layer only: its memory keeps the kernels
                layers[f"{memory} {backend}"] = layer
            layers[f"{memory} generic"].load_state_dict(layers[f"{memory} fused"].state_dict())
            check_agreement(layers[f"{memory} fused"], layers[f"{memory} generic"], x)
        calls = {name: partial(train, layer, x) for name, layer in layers.items()}
        calls["nn.LSTM"] = partial(train, lstm, x)
        rounds = {name: ROUNDS[name.split()[-1].lower().removeprefix("nn.")] for name in calls}
        seconds = interleave(calls, rounds, warmup=2)
        figures[f"hidden {hidden}"] = {
            "milliseconds": {name: round(1e3 * s, 2) for name, s in seconds.items()},
            "times_nn_lstm": {
                memory: round(seconds[f"{memory} fused"] / seconds["nn.LSTM"], 2)
                for memory in ("stack", "queue", "deque")
            },
            "work": {memory: _work(memory, hidden) for memory in ("stack", "queue", "deque")},
            "times_faster_than_generic": {
                memory: round(seconds[f"{memory} generic"] / seconds[f"{memory} fused"], 2)
                for memory in ("stack", "queue", "deque")
            },
        }
        print(f"hidden {hidden}: {figures[f'hidden {hidden}']}")
    setting = {"T": T, "B": B, "input": INPUT, "memory_width": WIDTH, "output": 64, "threads": 1}
    write_results("recurrent_speed", {"setting": setting, **figures})


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
