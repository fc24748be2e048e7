"""A model as a folder: config.json, vocabulary.json, model.safetensors."""

import json
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor

from pushpop.errors import InputError
from pushpop.models.config import TransducerConfig
from pushpop.models.folder import (
    CONFIG_FILE,
    TENSORS_FILE,
    VOCABULARY_FILE,
    read_file,
    write_together,
)
from pushpop.models.shipped import find_model
from pushpop.tasks import Vocabulary
from pushpop.tasks.pairs_text import TextForm

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer

FORMAT, VERSION = "pushpop", 3
Model = TypeVar("Model", bound="Transducer")
KEYS = ("format", "version", "model", "text", "dtype", "sha256", "metadata")
ADDED: dict[int, dict[str, Any]] = {
    2: {"encoder": "none", "attention": False, "heads": 1, "dropout": 0.0},
    3: {"memories": 1},
}
"""Settings that models before these versions did not have; those of version 1 had no `text`."""
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def save_pretrained(model: "Transducer", folder: str | PathLike[str]) -> None:
    """Write the three files, all or none."""
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    names = {name for name, dtype in DTYPES.items() for t in tensors.values() if t.dtype == dtype}
    if len(names) != 1 or any(t.dtype not in DTYPES.values() for t in tensors.values()):
        given = ", ".join(sorted({str(tensor.dtype) for tensor in tensors.values()}))
        raise InputError(f"the model is {given}, expected all float32 or all float64 to save it")
    files = {
        VOCABULARY_FILE: _to_json(model.vocabulary.to_dict(), "the vocabulary"),
        TENSORS_FILE: pack_tensors(tensors),
    }
    config = {
        "format": f"{FORMAT} {model.form}",
        "version": VERSION,
        "model": model.config.to_dict(),
        "text": None if model.text is None else model.text.to_dict(),
        "dtype": names.pop(),
        "sha256": {name: sha256(data).hexdigest() for name, data in files.items()},
        "metadata": model.metadata,
    }
    write_together(Path(folder), {**files, CONFIG_FILE: _to_json(config, "the metadata")})


def load_pretrained(cls: type[Model], folder: str | PathLike[str]) -> Model:
    """Build the model again. Nothing is allocated before its size is known to be the files'."""
    import pushpop.models.tagger  # noqa: F401  # a subclass of Transducer, even if nobody named it

    folder = find_model(folder)
    known: tuple[type[Model], ...] = (*cls.__subclasses__(), cls)  # cls before a user's subclass
    classes = {f"{FORMAT} {each.form}": each for each in known}
    config = _read_config(folder, list(classes))
    vocabulary_bytes, tensor_bytes = (
        read_file(folder, VOCABULARY_FILE),
        read_file(folder, TENSORS_FILE),
    )
    symbols = _from_json(vocabulary_bytes, folder / VOCABULARY_FILE)
    try:
        vocabulary = Vocabulary.from_dict(symbols)
    except InputError as error:
        raise InputError(f"{folder / VOCABULARY_FILE}: {error}") from None
    try:
        model_config = TransducerConfig.from_dict(config["model"])
        text = None if config["text"] is None else TextForm.from_dict(config["text"])
    except InputError as error:
        raise InputError(f"{folder / CONFIG_FILE}: {error}") from None
    with torch.device("meta"):
        model = classes[config["format"]](model_config, vocabulary, config["metadata"], text)
    tensors = _read_tensors(tensor_bytes, folder / TENSORS_FILE)
    _check_tensors(tensors, model.state_dict(), DTYPES[config["dtype"]], folder / TENSORS_FILE)
    for name, data in ((VOCABULARY_FILE, vocabulary_bytes), (TENSORS_FILE, tensor_bytes)):
        _check_digest(data, config["sha256"][name], folder / name)
    model.load_state_dict(tensors, assign=True)
    return model


def _read_config(folder: Path, formats: list[str]) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    config = _from_json(read_file(folder, CONFIG_FILE), path)
    if config.get("format") not in formats:
        expected = " or ".join(map(repr, formats))
        raise InputError(f"{path}: format is {config.get('format')!r}, expected {expected}")
    version = config.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise InputError(
            f"{path}: version is {version!r}, this pushpop reads versions 1 to {VERSION}"
        )
    if version == 1:
        config.setdefault("text", None)
    if isinstance(config.get("model"), dict):
        for since, settings in ADDED.items():
            if version < since:
                config["model"] = {**settings, **config["model"]}
    for key in KEYS:
        if key not in config:
            raise InputError(f"{path}: no {key!r}")
    for key in config:
        if key not in KEYS:
            raise InputError(f"{path}: unknown {key!r}, expected {', '.join(KEYS)}")
    for key in ("model", "sha256", "metadata"):
        if not isinstance(config[key], dict):
            raise InputError(f"{path}: {key} is {config[key]!r}, expected an object")
    if not isinstance(config["text"], dict | None):
        raise InputError(f"{path}: text is {config['text']!r}, expected an object or null")
    if config["dtype"] not in list(DTYPES):
        raise InputError(f"{path}: dtype is {config['dtype']!r}, expected {' or '.join(DTYPES)}")
    if set(config["sha256"]) != {VOCABULARY_FILE, TENSORS_FILE}:
        given = ", ".join(sorted(config["sha256"])) or "nothing"
        raise InputError(f"{path}: sha256 has {given}, expected {TENSORS_FILE}, {VOCABULARY_FILE}")
    return config


def _read_tensors(data: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return dict(parse_tensors(data))
    except (SafetensorError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: {len(data)} bytes that are not a whole safetensors file: {error}"
        ) from None


def _check_tensors(
    given: dict[str, Tensor], wanted: dict[str, Tensor], dtype: torch.dtype, path: Path
) -> None:
    missing, extra = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
    if missing or extra:
        parts = [("missing", missing), ("not of this model", extra)]
        told = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
        raise InputError(f"{path}: tensors {told}")
    for name, tensor in sorted(given.items()):
        if tensor.shape != wanted[name].shape:
            raise InputError(
                f"{path}: {name} is {list(tensor.shape)}, expected {list(wanted[name].shape)} "
                f"by {CONFIG_FILE} and {VOCABULARY_FILE}"
            )
        if tensor.dtype != dtype:
            raise InputError(f"{path}: {name} is {tensor.dtype}, expected {dtype} by {CONFIG_FILE}")
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} has values that are no numbers: NaN or infinity")


def _check_digest(data: bytes, wanted: Any, path: Path) -> None:
    found = sha256(data).hexdigest()
    if found != wanted:
        raise InputError(
            f"{path}: SHA-256 is {found}, {CONFIG_FILE} says {wanted}: the file was damaged, or is "
            "not the one that was saved with it"
        )


def _to_json(data: Any, what: str) -> bytes:
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1)
        return f"{text}\n".encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{what} cannot be saved as JSON: {error}") from None


def _from_json(data: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: {type(found).__name__}, expected an object")
    return found
