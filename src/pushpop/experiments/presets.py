"""Presets: small YAML files that stand for many runs.

name, description    what it is
base                 options that every run has
rows                 a list of further options, a run each
grid                 for some options a list of values: all rows for every combination
halving              rungs: batches after which the runs of a task and a model are compared by
                     average training perplexity; keep: the share of them that goes on
measure              lengths: at which finished runs are tested, one by one; sequences: how many
                     are drawn of each

Options are those of `pushpop train`, and `model`: stack, queue, deque, lstm1, lstm2...
"""

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import count, pairwise, product
from math import ceil
from pathlib import Path
from typing import Any

from pushpop.errors import InputError, did_you_mean, naming, reading
from pushpop.memory.kinds import MEMORY_NAMES
from pushpop.tasks.pairs_text import is_pairs_file
from pushpop.training import TrainConfig
from pushpop.training.config import CHANGEABLE, parse_yaml, read_options
from pushpop.training.run import task_stem

KEYS = ("name", "description", "base", "rows", "grid", "halving", "measure")
SHORT_NAMES = {"learning_rate": "lr", "memory_width": "width"}


@dataclass(frozen=True)
class Measurement:
    """The lengths at which a finished run is tested, and the sequences drawn of each."""

    lengths: tuple[int, ...] = ()
    sequences: int = 1000


@dataclass(frozen=True)
class Halving:
    """The batches after which the runs of a row are compared, and the share that goes on."""

    rungs: tuple[int, ...]
    keep: float

    def kept(self, candidates: int) -> int:
        """How many of the candidates go on to the next rung."""
        return max(1, ceil(candidates * self.keep - 1e-9))

    def stages(self, candidates: int) -> list[tuple[int, int]]:
        """For each rung, how many runs come to it, and how many batches they have there."""
        stages = []
        for before, rung in pairwise((0, *self.rungs)):
            stages.append((candidates, rung - before))
            candidates = self.kept(candidates)
        return stages


@dataclass(frozen=True)
class PlannedRun:
    """The options of a run, and a name made of what varies in its preset."""

    name: str
    config: TrainConfig

    @property
    def row(self) -> tuple[str, str]:
        """The row of the paper's table for which the run is a candidate: task and model."""
        return self.config.task, model_name(self.config)


@dataclass(frozen=True)
class Preset:
    """An experiment: its runs in the order in which they are started."""

    name: str
    description: str
    runs: tuple[PlannedRun, ...]
    measurement: Measurement = Measurement()
    halving: Halving | None = None


def model_options(model: object) -> dict[str, Any]:
    """The options of training that a model's name stands for."""
    if model in MEMORY_NAMES:
        return {"memory": model, "layers": 1}
    match = re.fullmatch(r"(lstm|gru|rnn)([1-9]\d?)", model) if isinstance(model, str) else None
    if match is None:
        known = (*MEMORY_NAMES, "lstm1", "lstm2", "lstm4", "lstm8", "gru1", "rnn1")
        raise InputError(f"model is {model!r}, expected {', '.join(known)}")
    cell, layers = match.groups()
    return {"memory": "none", "layers": int(layers), **({} if cell == "lstm" else {"cell": cell})}


def model_name(config: TrainConfig) -> str:
    """The name of the model that options describe: what is in its memory's place."""
    return f"{config.cell}{config.layers}" if config.memory == "none" else config.memory


def preset_names() -> list[str]:
    """The presets that come with pushpop."""
    folder = files("pushpop.experiments") / "presets"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())


def load_preset(preset: str, override: Mapping[str, Any] | None = None) -> Preset:
    """Read a preset that comes with pushpop, or a file; `override` goes before what it says."""
    names, path, where = preset_names(), Path(preset), preset
    if preset in names:
        where = f"preset {preset}"
        text = (files("pushpop.experiments") / "presets" / f"{preset}.yaml").read_text("utf-8")
    elif path.suffix not in (".yaml", ".yml", ".json") and not path.exists():
        hint = did_you_mean(preset, names)
        raise InputError(f"no preset {preset!r}{hint}; expected {', '.join(names)}, or a YAML file")
    else:
        with reading(path):
            text = path.read_text("utf-8")
    return read_preset(parse_yaml(text, where), where, override or {})


def read_preset(data: Any, where: str, override: Mapping[str, Any]) -> Preset:
    """A preset from what its file holds; `where` begins the messages of errors."""
    with naming(where):
        return _read_preset(_mapping(data, "", KEYS), Path(where).stem, override)


def _read_preset(data: dict[str, Any], title: str, override: Mapping[str, Any]) -> Preset:
    for key in ("name", "description"):
        if not isinstance(data.get(key, ""), str):
            raise InputError(f"{key} is {data[key]!r}, expected text")
    rows = data.get("rows", [{}])
    if not isinstance(rows, list) or not rows:
        raise InputError(f"rows is {rows!r}, expected a list of options")
    base = _mapping(data.get("base") or {}, "base: ")
    rows = [_mapping(row, f"row {k}: ") for k, row in enumerate(rows, 1)]
    grid = _mapping(data.get("grid") or {}, "grid: ")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"grid: {name} is {values!r}, expected a list of values")
        if any(name in row for row in rows):
            raise InputError(f"{name} is both in grid and in rows")
    measure = _mapping(data.get("measure") or {}, "measure: ", ("lengths", "sequences"))
    lengths = _numbers(measure.get("lengths", []), "measure: lengths")
    (sequences,) = _numbers([measure.get("sequences", 1000)], "measure: sequences")
    halving = None if data.get("halving") is None else _halving(data["halving"])
    if halving is not None:
        if "steps" in override or any("steps" in options for options in (base, grid, *rows)):
            raise InputError("steps beside halving, whose rungs say how long a run is")
        base = {**base, "steps": halving.rungs[-1]}
    axes = list(dict.fromkeys([name for row in rows for name in row] + list(grid)))
    runs: dict[str, PlannedRun] = {}  # by identity
    for values, row in product(product(*grid.values()), rows):
        config = _config({**base, **row, **dict(zip(grid, values, strict=True)), **override})
        if lengths and is_pairs_file(config.task):
            raise InputError(
                f"measure: {config.task} is a file of pairs; expected tasks, of which sources of "
                "any length can be drawn"
            )
        if halving is not None and config.cooldown:
            raise InputError("cooldown beside halving: a run that goes on has no end yet")
        name, key = run_name(config, axes), identity(config)
        if key in runs:
            raise InputError(f"{name} is in it twice")
        runs[key] = PlannedRun(free_name(name, [run.name for run in runs.values()]), config)
    ordered = list(runs.values())
    if halving is not None:  # row by row, so that finished rows can be reported early
        order = list(dict.fromkeys(run.row for run in ordered))
        ordered.sort(key=lambda run: order.index(run.row))
    description = " ".join(data.get("description", "").split())
    measurement = Measurement(lengths, sequences)
    return Preset(data.get("name") or title, description, tuple(ordered), measurement, halving)


def free_name(name: str, taken: Container[str]) -> str:
    """A name that is not taken: copy, copy-2, copy-3..."""
    numbered = (f"{name}-{number}" if number > 1 else name for number in count(1))
    return next(name for name in numbered if name not in taken)


def run_name(config: TrainConfig, axes: list[str]) -> str:
    """What is trained on what, then the value of everything that varies."""
    parts = [task_stem(config.task), model_name(config)]
    options = config.to_dict()
    for axis in axes:
        if axis in ("task", "model", "memory", "layers", "starts", *CHANGEABLE):
            continue
        text = _short(options[axis])
        parts.append(text if text.isalpha() else f"{SHORT_NAMES.get(axis, axis)}{text}")
    return "-".join(parts)


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        nested = any(isinstance(part, list | tuple) for part in value)
        return (";" if nested else ",").join(map(_short, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def identity(config: TrainConfig, but: tuple[str, ...] = ()) -> str:
    """A text that is the same for the same run, however long it goes on; `but`: options in which
    runs may differ beside that."""
    left_out = {*CHANGEABLE, *but}
    return json.dumps({k: v for k, v in config.to_dict().items() if k not in left_out})


def select(runs: tuple[PlannedRun, ...], only: str) -> tuple[PlannedRun, ...]:
    """The runs that `only` asks for, as in task=copy,model=queue,model=deque."""
    wanted: dict[str, list[Any]] = {}
    with naming("only"):
        for part in filter(None, only.split(",")):
            name, equals, value = (text.strip() for text in part.partition("="))
            if not equals or not value:
                raise InputError(f"{part!r}, expected option=value")
            read = value if name == "model" else read_options({name: value})[name]
            wanted.setdefault(name, []).append(read)
    kept = tuple(
        run
        for run in runs
        if all(vars(run.config).get(k, run.row[1]) in values for k, values in wanted.items())
    )
    if not kept:
        raise InputError(f"only {only!r}: none of the {len(runs)} runs is like that")
    return kept


def _config(options: dict[str, Any]) -> TrainConfig:
    if "model" in options:
        named = model_options(options.pop("model"))
        for name in named:
            if name in options:
                raise InputError(f"{name} is {options[name]!r} beside a model: leave one out")
        options |= named
    if "task" not in options:
        raise InputError("a run without a task")
    return TrainConfig.from_dict(options)


def _halving(data: Any) -> Halving:
    data = _mapping(data, "halving: ", ("rungs", "keep"))
    rungs, keep = _numbers(data.get("rungs"), "halving: rungs"), data.get("keep")
    if not rungs or any(low >= high for low, high in pairwise(rungs)):
        raise InputError(f"halving: rungs is {list(rungs)}, expected rising numbers of batches")
    if type(keep) not in (int, float) or not 0 < keep <= 1:
        raise InputError(f"halving: keep is {keep!r}, expected a share above 0, at most 1")
    return Halving(rungs, keep)


def _numbers(values: Any, where: str) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise InputError(f"{where} is {values!r}, expected a list of numbers")
    for value in values:
        if type(value) is not int or value < 1:
            raise InputError(f"{where}: {value!r}, expected a number, at least 1")
    return tuple(values)


def _mapping(data: Any, where: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError(f"{where}{data!r}, expected key: value lines")
    for key in data:
        if not isinstance(key, str):
            raise InputError(f"{where}key {key!r}, expected text")
        if known and key not in known:
            hint = did_you_mean(key, known)
            raise InputError(f"{where}unknown key {key!r}{hint}; expected {', '.join(known)}")
    return dict(data)
