"""Checkpoints: to the bit what was saved, or refused; a failed write leaves the old ones."""

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from pushpop import files as files_module
from pushpop.errors import InputError
from pushpop.training import checkpoint as module
from pushpop.training.checkpoint import (
    Checkpoint,
    checkpoint_path,
    load,
    load_latest,
    optimiser_tensors,
    restore_optimiser,
    save,
    saved_steps,
)


def small(step: int = 1) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    tensors = {
        "model.w": torch.randn(3, 4, generator=generator),
        "optimiser.0.step": torch.ones(()),
    }
    return Checkpoint(
        tensors, {"step": step, "rate": 0.1 + 0.2, "note": 'sha256":"ö', "none": None}
    )


def same(a: Checkpoint, b: Checkpoint) -> bool:
    return (
        a.data == b.data
        and set(a.tensors) == set(b.tensors)
        and all(torch.equal(a.tensors[name], b.tensors[name]) for name in a.tensors)
    )


def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoints", 12, small())
    assert path.name == "step-00000012.safetensors"
    assert same(load(path), small())
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_checkpoint_is_a_safetensors_file(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    path = save(tmp_path, 1, small())
    assert torch.equal(load_file(path)["model.w"], small().tensors["model.w"])


def test_100_truncated_or_flipped_checkpoints_are_all_detected(tmp_path: Path) -> None:
    path = save(tmp_path, 1, small())
    whole = path.read_bytes()
    draw = random.Random(0)
    for n in range(100):
        spoilt = bytearray(whole)
        if n % 2:
            spoilt = spoilt[: draw.randrange(len(whole))]
        else:
            bit = draw.randrange(8 * len(whole))
            spoilt[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        with pytest.raises(InputError, match=path.name):
            load(path)


def test_every_bit_of_the_header_counts(tmp_path: Path) -> None:
    path = save(tmp_path, 1, small())
    whole = path.read_bytes()
    for bit in range(8 * (len(whole) - 50)):
        spoilt = bytearray(whole)
        spoilt[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            module.unpack(bytes(spoilt))


@pytest.mark.parametrize("extra", [b"\0", b"more"])
def test_bytes_too_many_are_detected(extra: bytes, tmp_path: Path) -> None:
    path = save(tmp_path, 1, small())
    path.write_bytes(path.read_bytes() + extra)
    with pytest.raises(InputError, match="damaged"):
        load(path)


def test_the_two_latest_and_the_best_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4, 5):
        save(tmp_path, step, small(step), best=2 if step >= 2 else None)
    assert saved_steps(tmp_path) == [5, 4, 2]


def test_what_killed_saves_left_behind_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-00000003.safetensors.writing").write_bytes(b"half of")
    path = save(tmp_path, 7, small(7))
    assert list(tmp_path.iterdir()) == [path]


def test_a_broken_checkpoint_is_named_and_the_one_before_is_used(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step, small(step))
    checkpoint_path(tmp_path, 2).write_bytes(b"nothing of use")
    told: list[str] = []
    found = load_latest(tmp_path, told.append)
    assert found is not None
    assert found[0] == 1
    assert same(found[1], small(1))
    assert len(told) == 1
    assert "step-00000002.safetensors" in told[0]
    load_latest(tmp_path, told.append, set_aside=True)
    assert saved_steps(tmp_path) == [1]
    assert (tmp_path / "step-00000002.safetensors.broken").exists()


def test_no_checkpoint_and_none_that_is_whole_differ(tmp_path: Path) -> None:
    assert load_latest(tmp_path / "none", print) is None
    checkpoint_path(tmp_path, 3).write_bytes(b"")
    with pytest.raises(InputError, match="1 checkpoints, and every one is broken"):
        load_latest(tmp_path, lambda _: None)


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "write"])
def test_a_failed_write_leaves_the_old_checkpoint(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 7, small(7))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class FullFile:
        def __init__(self, path: Path, mode: str) -> None:
            self.file = open(path, mode)  # noqa: SIM115

        def __enter__(self) -> "FullFile":
            return self

        def __exit__(self, *_: Any) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[: len(data) // 2])
            full()

    if call in ("open", "write"):
        monkeypatch.setattr(
            files_module, "open", full if call == "open" else FullFile, raising=False
        )
    else:
        monkeypatch.setattr(os, call, full)
    for step in (7, 8):
        with pytest.raises(InputError, match="cannot be written: No space left"):
            save(tmp_path, step, small(8))
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000007.safetensors"]
    assert same(load(checkpoint_path(tmp_path, 7)), small(7))


def test_a_directory_that_cannot_be_made_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save(tmp_path / "file" / "checkpoints", 1, small())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_an_input_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written: Permission denied"):
        save(tmp_path, 1, small())
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("kind", [torch.optim.RMSprop, torch.optim.Adam])
def test_an_optimiser_goes_on_as_if_never_stopped(
    kind: type[torch.optim.Optimizer], tmp_path: Path
) -> None:
    def make() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)
        return layer, kind(layer.parameters(), lr=0.1)  # type: ignore[call-arg]

    def steps(layer: torch.nn.Linear, optimiser: torch.optim.Optimizer, start: int) -> None:
        for k in range(start, start + 4):
            optimiser.zero_grad()
            layer(torch.full((1, 3), 0.3 * k)).square().sum().backward()
            optimiser.step()

    layer, optimiser = make()
    steps(layer, optimiser, 0)
    tensors = optimiser_tensors(optimiser)
    path = save(tmp_path, 4, Checkpoint({**layer.state_dict(), **tensors}, {}))
    steps(layer, optimiser, 4)
    again, fresh = make()
    loaded = load(path).tensors
    again.load_state_dict({name: loaded.pop(name) for name in ("weight", "bias")})
    restore_optimiser(fresh, loaded, 0.1)
    steps(again, fresh, 4)
    assert torch.equal(again.weight, layer.weight)
    assert torch.equal(again.bias, layer.bias)
