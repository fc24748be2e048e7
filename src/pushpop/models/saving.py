"""A model as a folder, here or on a hub: config.json, vocabulary.json, model.safetensors, and a
model card, README.md.

Files that belong together are replaced all at once or not at all: new files are written and flushed
into a folder of their own inside the target. Renaming that folder to `COMPLETE` is what makes them
count; then they are moved out of it, one by one. Readers look there first, so an interruption
leaves either the old files or the new ones, and the next save tidies up. Other files in the folder
are left alone.

The trained models that come with the package are such folders: in `models/` of a checkout, in
`shipped/` of a wheel. Finding and listing them needs no torch, so torch is imported by what saves
and loads.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

from pushpop.errors import InputError, check_keys, did_you_mean, naming, reading, writing
from pushpop.files import flush_directory, parse_json, to_json, write_flushed
from pushpop.models.config import TransducerConfig
from pushpop.tasks import Vocabulary
from pushpop.tasks.pairs_text import TextForm

if TYPE_CHECKING:
    from torch import Tensor

    from pushpop.models.transducer import Transducer

PACKAGE = Path(__file__).parents[1]
CONFIG_FILE, VOCABULARY_FILE, TENSORS_FILE = "config.json", "vocabulary.json", "model.safetensors"
MODEL_FILES = [CONFIG_FILE, VOCABULARY_FILE, TENSORS_FILE]
CARD_FILE = "README.md"
OUR_CARD = "<!-- Written by save_pretrained; a card without this line is left alone. -->"
SHOWN_OPTIONS = ("task", "recipe", "train_lengths", "optimiser", "learning_rate", "seed")
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
COMPLETE = ".saved"
STAGING = ".saving-"
LEFT_BEHIND = 3600  # seconds after which a staging folder is nobody's

FORMAT, VERSION = "pushpop", 3
Model = TypeVar("Model", bound="Transducer")
KEYS = ("format", "version", "model", "text", "dtype", "sha256", "metadata")
ADDED: dict[int, dict[str, Any]] = {
    2: {"encoder": "none", "attention": False, "heads": 1, "dropout": 0.0},
    3: {"memories": 1},
}
"""Settings that models before these versions did not have; those of version 1 had no `text`."""
DTYPES = ("float32", "float64")


def save_pretrained(model: "Transducer", folder: str | PathLike[str]) -> None:
    """Write the three files and the model card, all or none. A card of somebody else's stays."""
    from safetensors.torch import save as pack_tensors

    folder = Path(folder)
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    dtypes = sorted({_dtype_of(tensor) for tensor in tensors.values()})
    if len(dtypes) != 1 or dtypes[0] not in DTYPES:
        names = ", ".join(f"torch.{dtype}" for dtype in dtypes)
        raise InputError(f"the model is {names}, expected all float32 or all float64 to save it")
    files = {
        VOCABULARY_FILE: to_json(model.vocabulary.to_dict(), "the vocabulary"),
        TENSORS_FILE: pack_tensors(tensors),
    }
    config = {
        "format": f"{FORMAT} {model.form}",
        "version": VERSION,
        "model": model.config.to_dict(),
        "text": None if model.text is None else model.text.to_dict(),
        "dtype": dtypes[0],
        "sha256": {name: sha256(data).hexdigest() for name, data in files.items()},
        "metadata": model.metadata,
    }
    files[CONFIG_FILE] = to_json(config, "the metadata")
    card = folder / CARD_FILE
    with reading(card):
        if not card.is_file() or OUR_CARD in card.read_text("utf-8", errors="replace"):
            files[CARD_FILE] = model_card(model).encode()
    write_together(folder, files)


def load_pretrained(cls: type[Model], folder: str | PathLike[str], **hub: Any) -> Model:
    """Build the model again. Nothing is allocated before its size is known to be the files'."""
    import torch

    import pushpop.models.tagger  # noqa: F401  # all forms, even if nobody named them

    folder = _find_or_download(folder, hub)
    candidates: tuple[type[Model], ...] = (*cls.__subclasses__(), cls)  # before a user's subclass
    classes = {f"{FORMAT} {candidate.form}": candidate for candidate in candidates}
    config = _read_config(folder, list(classes))
    data = {name: read_file(folder, name) for name in (VOCABULARY_FILE, TENSORS_FILE)}
    symbols = parse_json(data[VOCABULARY_FILE], folder / VOCABULARY_FILE)
    with naming(folder / VOCABULARY_FILE):
        vocabulary = Vocabulary.from_dict(symbols)
    with naming(folder / CONFIG_FILE):
        model_config = TransducerConfig.from_dict(config["model"])
        text = None if config["text"] is None else TextForm.from_dict(config["text"])
    with torch.device("meta"):
        model = classes[config["format"]](model_config, vocabulary, config["metadata"], text)
    tensors = _read_tensors(data[TENSORS_FILE], folder / TENSORS_FILE)
    _check_tensors(tensors, model.state_dict(), config["dtype"], folder / TENSORS_FILE)
    for name, content in data.items():
        digest, expected = sha256(content).hexdigest(), config["sha256"][name]
        if digest != expected:
            raise InputError(
                f"{folder / name}: SHA-256 is {digest}, {CONFIG_FILE} says {expected}: the file "
                "was damaged, or is not the one that was saved with it"
            )
    model.load_state_dict(tensors, assign=True)
    return model


def _find_or_download(name: str | PathLike[str], options: dict[str, Any]) -> Path:
    """The folder of a model; one that is nowhere here may be a repository, OWNER/NAME, of the
    hub, if its package is installed."""
    try:
        return find_model(name)
    except InputError as nowhere:
        if not HUB_NAME.fullmatch(str(name)):
            raise
        try:
            import huggingface_hub as hub
        except ImportError:
            raise nowhere from None
        try:
            return Path(hub.snapshot_download(str(name), allow_patterns=MODEL_FILES, **options))
        except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
            raise InputError(f"{nowhere}; as a repository of the hub: {error}") from None


def push_to_hub(model: "Transducer", name: str, message: str, **options: Any) -> str:
    try:
        import huggingface_hub as hub
    except ImportError:
        raise InputError(
            "push_to_hub needs the package huggingface_hub: install pushpop with its extra hub, "
            "as in pip install 'pushpop[hub]'"
        ) from None
    with TemporaryDirectory(prefix="pushpop-") as folder:
        save_pretrained(model, folder)
        repository = hub.create_repo(name, exist_ok=True, **options)
        hub.upload_folder(
            repo_id=repository.repo_id, folder_path=folder, commit_message=message,
            token=options.get("token"),
        )  # fmt: skip
    return str(repository)


def model_card(model: "Transducer") -> str:
    """What a hub shows of a model: metadata as YAML, then what is known of it in a table."""
    import yaml

    training, report = (model.metadata.get(part) for part in ("training", "report"))
    training = training if isinstance(training, dict) else {}
    report = report if isinstance(report, dict) else {}
    task = Path(str(training.get("task", model.metadata.get("task", "unknown")))).name
    facts = {
        "library_name": "pushpop",
        "license": model.metadata.get("license", "unknown"),
        "tags": ["pushpop", model.config.memory, task],
    }
    front = yaml.safe_dump(facts, sort_keys=False)
    facts |= {name: training[name] for name in SHOWN_OPTIONS if name in training}
    facts |= {name: report[name] for name in ("parameters", "step", "seconds") if name in report}
    for part, scores in report.items():
        if isinstance(scores, dict) and part != "last":
            facts |= {f"{part}: {name}": score for name, score in scores.items()}
    lines = [
        f"---\n{front}---",
        OUR_CARD,
        f"# {task}: a {model.form} with memory {model.config.memory}",
        "",
        f"`pushpop.{type(model).__name__}.from_pretrained(...)` loads it. `coarse` is the share of",
        "targets without an error, `fine` how far targets are right. All options of the training",
        "are in config.json under `metadata`.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {fact} |" for name, fact in facts.items()),
    ]
    return "\n".join(lines) + "\n"


def _read_config(folder: Path, formats: list[str]) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    config = parse_json(read_file(folder, CONFIG_FILE), path)
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
    with naming(path):
        check_keys(config, KEYS)
    for key in ("model", "sha256", "metadata"):
        if not isinstance(config[key], dict):
            raise InputError(f"{path}: {key} is {config[key]!r}, expected an object")
    if not isinstance(config["text"], dict | None):
        raise InputError(f"{path}: text is {config['text']!r}, expected an object or null")
    if config["dtype"] not in DTYPES:
        raise InputError(f"{path}: dtype is {config['dtype']!r}, expected {' or '.join(DTYPES)}")
    if set(config["sha256"]) != {VOCABULARY_FILE, TENSORS_FILE}:
        names = ", ".join(sorted(config["sha256"])) or "nothing"
        raise InputError(f"{path}: sha256 has {names}, expected {TENSORS_FILE}, {VOCABULARY_FILE}")
    return config


def _read_tensors(data: bytes, path: Path) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load as parse_tensors

    try:
        return dict(parse_tensors(data))
    except (SafetensorError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: {len(data)} bytes that are not a whole safetensors file: {error}"
        ) from None


def _check_tensors(
    tensors: "dict[str, Tensor]", expected: "dict[str, Tensor]", dtype: str, path: Path
) -> None:
    missing, extra = sorted(set(expected) - set(tensors)), sorted(set(tensors) - set(expected))
    if missing or extra:
        parts = [("missing", missing), ("not of this model", extra)]
        listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
        raise InputError(f"{path}: tensors {listed}")
    for name, tensor in sorted(tensors.items()):
        shape = expected[name].shape
        if tensor.shape != shape:
            raise InputError(
                f"{path}: {name} is {list(tensor.shape)}, expected {list(shape)} "
                f"by {CONFIG_FILE} and {VOCABULARY_FILE}"
            )
        if _dtype_of(tensor) != dtype:
            raise InputError(
                f"{path}: {name} is {tensor.dtype}, expected torch.{dtype} by {CONFIG_FILE}"
            )
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name} has values that are no numbers: NaN or infinity")


def _dtype_of(tensor: "Tensor") -> str:
    return str(tensor.dtype).removeprefix("torch.")


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put these files in place of the ones with their names, in a folder that is made if needed."""
    is_new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _move_out(folder)
        staging = Path(mkdtemp(prefix=STAGING, dir=folder))
        try:
            for name, data in files.items():
                write_flushed(staging / name, data, "xb")
            flush_directory(staging)
            os.rename(staging, folder / COMPLETE)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    folder.rmdir()
            raise
        flush_directory(folder)
        _move_out(folder)
        _tidy(folder)


def read_file(folder: Path, name: str) -> bytes:
    """The contents of a file, from the last save that was complete."""
    for path in (folder / COMPLETE / name, folder / name):
        with reading(path), suppress(FileNotFoundError, NotADirectoryError):
            return path.read_bytes()
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    raise InputError(f"{folder / name}: missing")


def _move_out(folder: Path) -> None:
    complete = folder / COMPLETE
    if not complete.is_dir():
        return
    for file in sorted(complete.iterdir()):
        os.replace(file, folder / file.name)
    flush_directory(folder)
    complete.rmdir()


def _tidy(folder: Path) -> None:
    """Remove what saves that were killed long ago have left behind."""
    for staging in folder.glob(f"{STAGING}*"):
        with suppress(OSError):
            if time.time() - staging.stat().st_mtime > LEFT_BEHIND:
                shutil.rmtree(staging, ignore_errors=True)


def shipped_models() -> dict[str, Path]:
    """The folder of every model that comes with the package, by name, in the order of the names."""
    installed = PACKAGE / "shipped"
    shelf = installed if installed.is_dir() else PACKAGE.parents[1] / "models"  # a checkout's
    configs = sorted(shelf.glob(f"*/{CONFIG_FILE}"))
    return {path.parent.name: path.parent for path in configs}


def find_model(text: str | PathLike[str]) -> Path:
    """A path, if there is such a folder, else that of the shipped model of this name."""
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
    """The metadata of the models that come with the package, as plain values."""
    described = []
    for name, folder in shipped_models().items():
        metadata = json.loads(read_file(folder, CONFIG_FILE))["metadata"]
        made, report = metadata["training"], metadata["report"]
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
                **{
                    part: {score: report[part][score] for score in ("lengths", "coarse", "fine")}
                    for part in ("train", "test")
                },
            }
        )
    return described
