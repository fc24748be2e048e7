"""How fast layers with a superposition stack or a tape are by kernels, against step by step.

    python benchmarks/moving_cells.py           writes results/moving_cells.json

One thread, the sizes of the Chomsky-hierarchy benchmark (batch 128, input 16, 64 units, memory 32),
float32, forward and backward; a stack and `nn.LSTM` beside them. All take turns in one run, and
nothing is reported unless both ways agree on these inputs. `kept_megabytes` is what the forward
pass saves for the backward pass.
"""

from functools import partial

import torch
from torch import Tensor, nn

from machine import interleave, write_results
from pushpop import MemoryRNN
from recurrent_speed import check_agreement, train

B, INPUT, HIDDEN, WIDTH = 128, 16, 64, 32
MOVING = ("superposition", "tape")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = {}
    for steps in (20, 40, 80, 160):
        x = torch.randn(steps, B, INPUT)
        layers: dict[str, nn.Module] = {
            "nn.LSTM": nn.LSTM(INPUT, HIDDEN),
            "stack": MemoryRNN(INPUT, HIDDEN, "stack", WIDTH),
        }
        for memory in MOVING:
            fused = MemoryRNN(INPUT, HIDDEN, memory, WIDTH, backend="fused")
            plain = MemoryRNN(INPUT, HIDDEN, memory, WIDTH, backend="reference")
            plain.load_state_dict(fused.state_dict())
            check_agreement(fused, plain, x)
            layers[memory], layers[f"{memory} step by step"] = fused, plain
        calls = {name: partial(train, layer, x) for name, layer in layers.items()}
        seconds = interleave(calls, dict.fromkeys(calls, 7), warmup=2)
        figures[f"{steps} steps"] = {
            "milliseconds": {name: round(1e3 * s, 1) for name, s in seconds.items()},
            "times_faster_than_step_by_step": {
                memory: round(seconds[f"{memory} step by step"] / seconds[memory], 2)
                for memory in MOVING
            },
            "kept_megabytes": {name: round(_kept(layers[name], x) / 1e6, 1) for name in layers},
        }
        print(f"{steps} steps: {figures[f'{steps} steps']}")
    setting = {"B": B, "input": INPUT, "hidden": HIDDEN, "memory_width": WIDTH, "threads": 1}
    write_results("moving_cells", {"setting": setting, **figures})


def _kept(layer: nn.Module, x: Tensor) -> int:
    """The bytes of all storages that a forward pass saves for the backward pass."""
    storages: dict[int, int] = {}
    alive: list[Tensor] = []

    def save(tensor: Tensor) -> Tensor:
        alive.append(tensor)  # so that no two share an address
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        layer(x)
    return sum(storages.values())


if __name__ == "__main__":
    main()
