"""Whether the implementations agree on this machine (agreement.py), how fast each is here, forward
and backward, beside `nn.LSTM`, and what the machine is made of."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pushpop.devices import gpu_name
from pushpop.layers import MemoryRNN
from pushpop.memory import MEMORIES
from pushpop.memory.kinds import KINDS
from pushpop.verification.agreement import STEP_BY_STEP, layer_backends, set_backend

PACKAGES = ("pushpop", "torch", "triton", "numba", "numpy")


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Versions, the processor and, of a GPU, its name, its driver and the CUDA of torch."""
    installed = {each.name: each.version for each in distributions()}
    described = {
        **{name: installed.get(name) for name in PACKAGES},
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


@dataclass(frozen=True)
class Setting:
    """What is timed: the paper's sizes."""

    steps: int = 130
    rows: int = 10
    width: int = 256
    hidden: int = 256
    inputs: int = 64
    rounds: int = 5


QUICK = Setting(steps=16, rows=4, width=16, hidden=16, inputs=8, rounds=3)


def time_memories(device: torch.device, setting: Setting) -> dict[str, dict[str, float]]:
    """Milliseconds of each backend of the paper's memories, by memory."""
    milliseconds = {}
    for kind in KINDS:
        memory = MEMORIES[kind](setting.width)
        draw = partial(torch.rand, setting.steps, setting.rows, device=device)
        values, gates = draw(memory.values, setting.width) - 0.5, draw(memory.gates)
        leaves = [values.requires_grad_(), gates.requires_grad_()]
        calls = {
            name: partial(_train, MEMORIES[kind](setting.width, name).run, (*leaves, None), leaves)
            for name in memory.backends(device, torch.float32)
        }
        milliseconds[kind] = interleave(calls, device, setting.rounds)
    return milliseconds


def time_layers(device: torch.device, setting: Setting) -> dict[str, float]:
    """Milliseconds of `MemoryRNN` with its kernels and step by step, and of `nn.LSTM`."""
    x = torch.randn(setting.steps, setting.rows, setting.inputs, device=device)
    layers: dict[str, nn.Module] = {"nn.LSTM": nn.LSTM(setting.inputs, setting.hidden)}
    for kind in KINDS:
        sizes = (setting.inputs, setting.hidden, kind, setting.width)
        for backend in (*layer_backends(MemoryRNN(*sizes).to(device), x), STEP_BY_STEP):
            layers[f"{kind} {backend}"] = rnn = MemoryRNN(*sizes)
            set_backend(rnn, backend)
    calls = {
        name: partial(_train, layer.to(device), (x,), list(layer.parameters()))
        for name, layer in layers.items()
    }
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


def _train(run: Callable[..., Any], inputs: tuple[Any, ...], leaves: list[Tensor]) -> None:
    output, _ = run(*inputs)
    torch.autograd.grad(output.sum(), leaves, allow_unused=True)
