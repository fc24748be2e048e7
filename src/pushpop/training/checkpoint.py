"""Stop and resume: signals that ask a run to stop, and checkpoints that it goes on from.

Of Ctrl-C and SIGTERM the first asks a run to stop and save, the second leaves at once. A run that
was started by a sweep stops too when the sweep is no more.

A checkpoint is a safetensors file, whole or not there at all, and never unpickled. It holds the
tensors of the model (`model.*`) and of the optimiser (`optimiser.*`), and in its header, as text,
everything else as JSON and the SHA-256 of the file with the digest's own 64 characters set to
zeros. So any bit that changes, the digest's included, is noticed.

A file is written under another name, flushed and renamed. The two latest and the one with the best
average training perplexity are kept. Which ones there are is told without torch.
"""

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from pushpop.errors import InputError, naming, reading, writing
from pushpop.files import write_file

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

FORMAT = "pushpop checkpoint 1"
NAME = re.compile(r"step-(\d{8,})\.safetensors")
DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
ZEROS = b"0" * 64


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a run needs to go on: tensors by name, and plain values."""

    tensors: "dict[str, Tensor]"
    data: dict[str, Any]

    def part(self, prefix: str) -> "dict[str, Tensor]":
        """The tensors whose names begin with a prefix, without it."""
        size = len(prefix)
        return {name[size:]: x for name, x in self.tensors.items() if name.startswith(prefix)}


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}.safetensors"


def saved_steps(folder: Path) -> list[int]:
    """The steps of which a folder has checkpoints, the latest first."""
    with reading(folder):
        try:
            names = [NAME.fullmatch(name) for name in os.listdir(folder)]
        except FileNotFoundError:
            return []
    return sorted((int(match[1]) for match in names if match), reverse=True)


def save(folder: Path, step: int, checkpoint: Checkpoint, best: int | None = None) -> Path:
    """Write a checkpoint, then remove those that are neither among the two latest nor `best`."""
    path = checkpoint_path(folder, step)
    with writing(path, "; earlier checkpoints are as they were"):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(path, pack(checkpoint))
    kept = {best, *[k for k in saved_steps(folder) if k <= step][:2]}
    for other in saved_steps(folder):
        if other < step and other not in kept:
            with suppress(OSError):
                checkpoint_path(folder, other).unlink()
    for left_behind in folder.glob(".step-*.writing"):  # by saves that were killed
        with suppress(OSError):
            left_behind.unlink()
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint; `InputError` if it is not whole and unchanged."""
    with reading(path):
        data = path.read_bytes()
    with naming(path):
        return unpack(data)


def load_latest(
    folder: Path, warn: Callable[[str], None], set_aside: bool = False
) -> tuple[int, Checkpoint] | None:
    """The latest checkpoint that is whole, with its step; `warn` is told of broken ones.

    With `set_aside`, broken ones are renamed so that nothing takes them for checkpoints again.
    """
    broken = 0
    for step in saved_steps(folder):
        try:
            checkpoint = load(checkpoint_path(folder, step))
        except InputError as error:
            broken += 1
            warn(f"{error}; using the checkpoint before it")
            if set_aside:
                path = checkpoint_path(folder, step)
                with suppress(OSError):
                    os.replace(path, path.with_name(f"{path.name}.broken"))
            continue
        return step, checkpoint
    if broken:
        raise InputError(f"{folder}: {broken} checkpoints, and every one is broken")
    return None


def pack(checkpoint: Checkpoint) -> bytes:
    """The bytes of a checkpoint's file."""
    from safetensors.torch import save as pack_tensors

    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()
    }
    text = json.dumps(checkpoint.data, allow_nan=False)
    header = {"format": FORMAT, "data": text, "sha256": ZEROS.decode()}
    blank = pack_tensors(tensors, metadata=header)
    place = _digest_place(blank)
    return blank[: place.start(1)] + sha256(blank).hexdigest().encode() + blank[place.end(1) :]


def unpack(data: bytes) -> Checkpoint:
    """Undo `pack`."""
    from safetensors import SafetensorError
    from safetensors.torch import load as parse_tensors

    place = _digest_place(data)
    blank = data[: place.start(1)] + ZEROS + data[place.end(1) :]
    digest, wanted = sha256(blank).hexdigest(), place[1].decode()
    if digest != wanted:
        raise InputError(f"SHA-256 is {digest}, the file says {wanted}: it is damaged")
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])["__metadata__"]
    if header.get("format") != FORMAT:
        raise InputError(f"format is {header.get('format')!r}, expected {FORMAT!r}")
    try:
        return Checkpoint(dict(parse_tensors(data)), json.loads(header["data"]))
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"not a checkpoint: {error}") from None


def optimiser_tensors(optimiser: "Optimizer") -> "dict[str, Tensor]":
    """An optimiser's state, which must be tensors only, by number of parameter and name."""
    state = optimiser.state_dict()["state"]
    return {f"{k}.{name}": value for k, part in state.items() for name, value in part.items()}


def restore_optimiser(optimiser: "Optimizer", tensors: "Mapping[str, Tensor]", rate: float) -> None:
    """Put such tensors back into an optimiser over the same parameters, with a learning rate."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value.clone()
    groups = optimiser.state_dict()["param_groups"]
    for group in groups:
        group["lr"] = rate
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _digest_place(data: bytes) -> re.Match[bytes]:
    """Where the header has the digest."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise InputError(f"{len(data)} bytes: the file is cut off")
    places = list(DIGEST.finditer(data, 8, 8 + size))
    if len(places) != 1:
        raise InputError("the header has no digest: the file is damaged")
    return places[0]


PARENT = "PUSHPOP_PARENT"
"""The variable of the environment with the number of the process that a run must not outlive."""


class StopRequested(Exception):
    """Raised at a safe point after SIGINT or SIGTERM."""


class Signals:
    """While entered, from the main thread, remembers the first signal in `received`."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._parent = os.environ.get(PARENT)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    @property
    def received(self) -> int | None:
        """The first signal that came, if any; SIGTERM too if the parent has gone."""
        if self._signal is None and self._parent not in (None, str(os.getppid())):
            return signal.SIGTERM
        return self._signal

    @received.setter
    def received(self, number: int | None) -> None:
        self._signal = number

    def check(self) -> None:
        """Raise `StopRequested` if a signal came."""
        if self.received is not None:
            raise StopRequested

    def leave(self) -> NoReturn:
        """Raise what ends the process as the signal would have: exit codes 130 and 143."""
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + int(self.received or 0))

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.received = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
