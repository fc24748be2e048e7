"""The trained models that come with the package: `models/` in a checkout, `shipped/` in a wheel."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

from pushpop.errors import InputError, did_you_mean, reading
from pushpop.models.folder import CONFIG_FILE, TENSORS_FILE, read_file

PACKAGE = Path(__file__).parents[1]


def shipped_models() -> dict[str, Path]:
    """The folder of every model that comes with the package, by name, in the order of the names."""
    found = sorted(_folder().glob(f"*/{CONFIG_FILE}"))
    return {path.parent.name: path.parent for path in found}


def find_model(text: str | PathLike[str]) -> Path:
    """The folder that is meant: a path if there is one, else the shipped model of that name."""
    path = Path(text)
    with reading(path):
        if path.exists():
            return path
    known = shipped_models()
    name = str(text)
    if name in known:
        return known[name]
    names = ", ".join(known) or "none"
    raise InputError(
        f"{name}: no such folder, and no model of that name comes with pushpop"
        f"{did_you_mean(name, known)} (models: {names})"
    )


def describe_shipped() -> list[dict[str, Any]]:
    """What the models that come with the package say of themselves, in plain values; no torch."""
    described = []
    for name, folder in shipped_models().items():
        config = json.loads(read_file(folder, CONFIG_FILE))
        made, report = config["metadata"]["training"], config["metadata"]["report"]
        command = f"pushpop train {made['task']} --memory {made['memory']}"
        described.append(
            {
                "name": name,
                "task": made["task"],
                "memory": made["memory"],
                "controller": made["cell"],
                "hidden": made["hidden"],
                "memory_width": made["memory_width"],
                "parameters": report["parameters"],
                "kilobytes": round((folder / TENSORS_FILE).stat().st_size / 1000),
                "recipe": made["recipe"],
                "seed": made["seed"],
                "made_by": f"{command} --recipe {made['recipe']} --seed {made['seed']}",
                "batches": report["step"],
                "minutes": round(report["seconds"] / 60, 1),
                **{part: _accuracy(report[part]) for part in ("train", "test")},
            }
        )
    return described


def _accuracy(tested: dict[str, Any]) -> dict[str, Any]:
    return {key: tested[key] for key in ("lengths", "coarse", "fine")}


def _folder() -> Path:
    """In a checkout the package lies in src/, two folders below the one that has `models/`."""
    installed = PACKAGE / "shipped"
    return installed if installed.is_dir() else PACKAGE.parents[1] / "models"
