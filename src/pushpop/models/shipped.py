"""The trained models that come with the package: `models/` in a checkout, `shipped/` in a wheel."""

from os import PathLike
from pathlib import Path

from pushpop.errors import InputError, did_you_mean
from pushpop.models.pretrained import CONFIG_FILE

PACKAGE = Path(__file__).parents[1]


def shipped_models() -> dict[str, Path]:
    """The folder of every model that comes with the package, by name, in the order of the names."""
    found = sorted(_folder().glob(f"*/{CONFIG_FILE}"))
    return {path.parent.name: path.parent for path in found}


def find_model(text: str | PathLike[str]) -> Path:
    """The folder that is meant: a path if there is one, else the shipped model of that name."""
    path = Path(text)
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


def _folder() -> Path:
    """In a checkout the package lies in src/, two folders below the one that has `models/`."""
    installed = PACKAGE / "shipped"
    return installed if installed.is_dir() else PACKAGE.parents[1] / "models"
