"""Whether the implementations agree on this machine (agreement.py), how fast each is here, forward
and backward, beside `nn.LSTM`, and what the machine is made of."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pushpop.devices import gpu_name
from pushpop.layers import MemoryRNN
from pushpop.memory import MEMORIES, Memory
from pushpop.memory.kinds import KINDS
from pushpop.verification.agreement import STEP_BY_STEP, layer_backends, set_backend

PACKAGES = ("pushpop", "torch", "triton", "numba", "numpy")


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Versions, the processor and, of a GPU, its name, its driver and the CUDA of torch."""
    described: dict[str, Any] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            described[name] = version(name)
    described |= {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
    }
    if device.type == "cuda":
        described |= {
            "gpu": gpu_name(device),
            "capability": ".".join(map(str, torch.cuda.get_device_capability(device))),
            "cuda": torch.version.cuda,
            "driver": _driver(),
        }
    return described


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _driver() -> str | None:
    """The driver's version, if nvidia-smi can be asked."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.split("\n")[0].strip()
    return None


class Setting:
    """What is timed: the paper's sizes, or small ones that take seconds."""

    def __init__(self, quick: bool) -> None:
        self.steps, self.rows = (16, 4) if quick else (130, 10)
        self.width = self.hidden = 16 if quick else 256
        self.inputs = 8 if quick else 64
        self.rounds = 3 if quick else 5

    def to_dict(self) -> dict[str, int]:
        return dict(vars(self))


def time_memories(device: torch.device, setting: Setting) -> dict[str, dict[str, float]]:
    """Milliseconds of each backend of the paper's memories, by memory."""
    milliseconds = {}
    for kind in KINDS:
        memory = MEMORIES[kind](setting.width)
        draw = partial(torch.rand, setting.steps, setting.rows, device=device)
        values, gates = draw(memory.values, setting.width) - 0.5, draw(memory.gates)
        calls = {
            backend: partial(_train_memory, MEMORIES[kind](setting.width, backend), values, gates)
            for backend in memory.backends(device, torch.float32)
        }
        milliseconds[kind] = interleave(calls, device, setting.rounds)
    return milliseconds


def time_layers(device: torch.device, setting: Setting) -> dict[str, float]:
    """Milliseconds of `MemoryRNN` with its kernels and step by step, and of `nn.LSTM`."""
    x = torch.randn(setting.steps, setting.rows, setting.inputs, device=device)
    lstm = nn.LSTM(setting.inputs, setting.hidden, device=device)
    calls: dict[str, Callable[[], Any]] = {"nn.LSTM": partial(_train_layer, lstm, x)}
    for kind in KINDS:
        sizes = (setting.inputs, setting.hidden, kind, setting.width)
        for backend in (*layer_backends(MemoryRNN(*sizes).to(device), x), STEP_BY_STEP):
            rnn = MemoryRNN(*sizes).to(device)
            set_backend(rnn, backend)
            calls[f"{kind} {backend}"] = partial(_train_layer, rnn, x)
    return interleave(calls, device, setting.rounds)


def interleave(
    calls: Mapping[str, Callable[[], Any]], device: torch.device, rounds: int
) -> dict[str, float]:
    """The median milliseconds of each call. They take turns, so that a slow moment of the machine
    falls on all of them; the first turn, which compiles, does not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            _wait_for(device)
            start = time.perf_counter()
            call()
            _wait_for(device)
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}


def _wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _train_memory(memory: Memory[Any], values: Tensor, gates: Tensor) -> None:
    leaves = [x.detach().requires_grad_() for x in (values, gates)]
    reads, _ = memory.run(leaves[0], leaves[1], None)
    torch.autograd.grad(reads.sum(), leaves)


def _train_layer(layer: nn.Module, x: Tensor) -> None:
    output, _ = layer(x)
    torch.autograd.grad(output.sum(), list(layer.parameters()), allow_unused=True)
