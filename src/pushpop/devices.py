"""Devices by name: which names there are, and what they stand for on this machine."""

import re
from typing import TYPE_CHECKING, Any

from pushpop.errors import InputError

if TYPE_CHECKING:
    import torch

NAMES = ("cpu", "cuda", "mps", "auto")
WITHOUT = "; --device cpu goes without one"


def read_device(name: str, value: Any) -> str:
    """The name of a device, as it is given; whether the device is there takes torch to say."""
    if isinstance(value, str) and (value in NAMES or re.fullmatch(r"cuda:(0|[1-9]\d?)", value)):
        return value
    raise InputError(f"{name} is {value!r}, expected cpu, cuda, cuda:N, mps or auto")


def resolve_device(asked: str, processes: int = 1) -> str:
    """What a name stands for here: cpu, cuda:N or mps; `InputError` if that is not there.

    auto is a GPU of CUDA where there is one, else the CPU: it has kernels, and the GPU of an Apple
    machine has none. Where so many processes of this machine train together, cuda stays cuda, a
    GPU each.
    """
    import torch

    asked = read_device("device", asked)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "auto":
        asked = "cuda" if gpus >= processes else "cpu"
    kind, _, number = asked.partition(":")
    if processes > 1 and (number or kind == "mps"):
        raise InputError(
            f"device is {asked!r} with {processes} processes: expected --device cpu, or --device "
            "cuda for a GPU each"
        )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise InputError(f"device is 'mps', and torch finds no GPU of Apple's{WITHOUT}")
    if kind == "cuda":
        needed = max(processes, int(number or 0) + 1)
        if gpus < needed:
            raise InputError(
                f"device is {asked!r}, and torch finds {gpus} GPUs: expected {needed} or more"
                f"{WITHOUT}"
            )
        return asked if processes > 1 else f"cuda:{number or 0}"
    return asked


def find_device(asked: str, rank: int = 0) -> "torch.device":
    """The device of that name; cuda is the GPU of a process's rank on its machine."""
    import torch

    return torch.device(resolve_device(f"cuda:{rank}" if rank and asked == "cuda" else asked))


def widest_float(device: "torch.device") -> "torch.dtype":
    """float64, but on an Apple machine's GPU, which has none."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


def gpu_name(device: "str | torch.device") -> str | None:
    """What a GPU of CUDA calls itself; `None` for other devices."""
    import torch

    return torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else None
