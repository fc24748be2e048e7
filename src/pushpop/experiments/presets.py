"""Presets: small YAML files that say which runs belong to an experiment.

name, description    what it is
base                 options that every run has
rows                 a list of further options, a run each
grid                 for some options a list of values: all rows for every combination
measure              lengths: at which finished runs are tested, one by one; sequences: how many
                     are drawn of each

Options are those of `pushpop train`, and `model`: stack, queue, deque, lstm1, lstm2...
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from pushpop.errors import InputError, did_you_mean, reading
from pushpop.experiments.measure import NO_MEASUREMENT, Measurement
from pushpop.experiments.paper import model_name, model_options
from pushpop.tasks.pairs_open import is_pairs_file
from pushpop.training import TrainConfig
from pushpop.training.config import CHANGEABLE
from pushpop.training.run import task_stem

KEYS = ("name", "description", "base", "rows", "grid", "measure")
SHORT_NAMES = {"learning_rate": "lr", "memory_width": "width"}


@dataclass(frozen=True)
class PlannedRun:
    """The options of a run, a name made of what varies in its preset, and what is measured of it
    when it is finished."""

    name: str
    config: TrainConfig
    measurement: Measurement = NO_MEASUREMENT


@dataclass(frozen=True)
class Preset:
    """An experiment: its runs in the order in which they are started."""

    name: str
    description: str
    runs: tuple[PlannedRun, ...]


def preset_names() -> list[str]:
    """The presets that come with pushpop."""
    folder = files("pushpop.experiments") / "presets"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())


def load_preset(preset: str, override: Mapping[str, Any] | None = None) -> Preset:
    """Read a preset that comes with pushpop, or a file; `override` goes before what it says."""
    import yaml

    names = preset_names()
    if preset in names:
        text, where = (
            (files("pushpop.experiments") / "presets" / f"{preset}.yaml").read_text("utf-8"),
            f"preset {preset}",
        )
    else:
        path = Path(preset)
        if path.suffix not in (".yaml", ".yml", ".json") and not path.exists():
            hint = did_you_mean(preset, names)
            raise InputError(
                f"no preset {preset!r}{hint}; expected {', '.join(names)}, or a YAML file"
            )
        with reading(path):
            text, where = path.read_text("utf-8"), preset
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: not YAML: {error}") from None
    return read_preset(data, where, override or {})


def read_preset(data: Any, where: str, override: Mapping[str, Any]) -> Preset:
    """A preset from what its file holds; `where` begins the messages of errors."""
    data = _mapping(data, where)
    for key in data:
        if key not in KEYS:
            hint = did_you_mean(str(key), KEYS)
            raise InputError(f"{where}: unknown key {key!r}{hint}; expected {', '.join(KEYS)}")
    for key in ("name", "description"):
        if not isinstance(data.get(key, ""), str):
            raise InputError(f"{where}: {key} is {data[key]!r}, expected text")
    rows = data.get("rows", [{}])
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{where}: rows is {rows!r}, expected a list of options")
    base = _mapping(data.get("base") or {}, f"{where}: base")
    rows = [_mapping(row, f"{where}: row {k + 1}") for k, row in enumerate(rows)]
    grid = _mapping(data.get("grid") or {}, f"{where}: grid")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}: grid: {name} is {values!r}, expected a list of values")
        for row in rows:
            if name in row:
                raise InputError(f"{where}: {name} is both in grid and in rows")
    measurement = _measurement(data.get("measure") or {}, f"{where}: measure")
    axes = list(dict.fromkeys([name for row in rows for name in row] + list(grid)))
    runs: dict[str, PlannedRun] = {}
    planned = set()
    for given in _combinations(base, rows, grid):
        config = _config({**given, **override}, where)
        if measurement.lengths and is_pairs_file(config.task):
            raise InputError(
                f"{where}: measure: {config.task} is a file of pairs; expected tasks, of which "
                "sources of any length can be drawn"
            )
        name = run_name(config, axes)
        if (key := identity(config)) in planned:
            raise InputError(f"{where}: {name} is in it twice")
        planned.add(key)
        free = (f"{name}-{k}" if k > 1 else name for k in range(1, len(runs) + 2))
        name = next(name for name in free if name not in runs)
        runs[name] = PlannedRun(name, config, measurement)
    title = data.get("name") or Path(where).stem
    return Preset(title, " ".join(data.get("description", "").split()), tuple(runs.values()))


def run_name(config: TrainConfig, axes: list[str]) -> str:
    """What is trained on what, then the value of everything that varies."""
    parts = [task_stem(config.task), model_name(config)]
    options = config.to_dict()
    for axis in axes:
        if axis in ("task", "model", "memory", "layers", "starts", *CHANGEABLE):
            continue
        value = options[axis]
        if isinstance(value, float):
            value = f"{value:g}"
        elif isinstance(value, list):
            value = ",".join(f"{number:g}" for number in value)
        text = "none" if value is None else str(value).lower()
        parts.append(text if text.isalpha() else f"{SHORT_NAMES.get(axis, axis)}{text}")
    return "-".join(parts)


def identity(config: TrainConfig) -> str:
    """A text that is the same for the same run, however long it goes on."""
    return json.dumps({k: v for k, v in config.to_dict().items() if k not in CHANGEABLE})


def select(runs: tuple[PlannedRun, ...], only: str) -> tuple[PlannedRun, ...]:
    """The runs that `only` asks for, as in task=copy,model=queue,model=deque."""
    wanted: dict[str, list[str]] = {}
    for part in filter(None, only.split(",")):
        name, equals, value = (text.strip() for text in part.partition("="))
        if not equals or not value:
            raise InputError(f"only: {part!r}, expected option=value")
        wanted.setdefault(name, []).append(value)
    kept = tuple(run for run in runs if _matches(run.config, wanted))
    if not kept:
        raise InputError(f"only {only!r}: none of the {len(runs)} runs is like that")
    return kept


def _matches(config: TrainConfig, wanted: dict[str, list[str]]) -> bool:
    options = {**config.to_dict(), "model": model_name(config)}
    for name, values in wanted.items():
        if name not in options:
            raise InputError(f"only: unknown option {name!r}{did_you_mean(name, options)}")
        found = options[name]
        if str(found).lower() not in values and not any(_equal(found, text) for text in values):
            return False
    return True


def _equal(found: Any, text: str) -> bool:
    try:
        return isinstance(found, int | float) and float(text) == found
    except ValueError:
        return False


def _combinations(
    base: dict[str, Any], rows: list[dict[str, Any]], grid: dict[str, list[Any]]
) -> Iterator[dict[str, Any]]:
    for values in product(*grid.values()):
        for row in rows:
            yield {**base, **row, **dict(zip(grid, values, strict=True))}


def _config(given: dict[str, Any], where: str) -> TrainConfig:
    given = dict(given)
    try:
        if "model" in given:
            named = model_options(given.pop("model"))
            for name in named:
                if name in given:
                    raise InputError(f"{name} is {given[name]!r} beside a model: leave one out")
            given |= named
        if "task" not in given:
            raise InputError("a run without a task")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return TrainConfig.from_dict(given, where)


def _measurement(data: Any, where: str) -> Measurement:
    given = _mapping(data, where)
    known = [each.name for each in fields(Measurement)]
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known)
            raise InputError(f"{where}: unknown key {key!r}{hint}; expected {' and '.join(known)}")
    lengths = given.get("lengths", [])
    sequences = given.get("sequences", Measurement.sequences)
    if not isinstance(lengths, list):
        raise InputError(f"{where}: lengths is {lengths!r}, expected a list of numbers")
    for name, value in (*(("lengths", length) for length in lengths), ("sequences", sequences)):
        if type(value) is not int or value < 1:
            raise InputError(f"{where}: {name}: {value!r}, expected a number, at least 1")
    return Measurement(tuple(lengths), sequences)


def _mapping(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError(f"{where}: {data!r}, expected key: value lines")
    for key in data:
        if not isinstance(key, str):
            raise InputError(f"{where}: key {key!r}, expected text")
    return data
