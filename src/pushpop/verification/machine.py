"""What a machine is made of, as far as figures and bug reports depend on it."""

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from pushpop.devices import gpu_name

PACKAGES = ("pushpop", "torch", "triton", "numba", "numpy")


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Versions, the processor and, of a GPU, its name, its driver and the CUDA of torch."""
    described: dict[str, Any] = {name: _version(name) for name in PACKAGES}
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


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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
