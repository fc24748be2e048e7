"""How the options of a run that are more than a number, a switch or a word are read."""

from collections.abc import Iterable, Mapping
from typing import Any

from pushpop.errors import InputError, did_you_mean
from pushpop.models.config import NO_MEMORY
from pushpop.options import read_value
from pushpop.tasks import parse_lengths


def read_memory(name: str, given: Any) -> Any:
    """The name of a memory; none is YAML's null too."""
    return read_value(name, str, NO_MEMORY if given is None else given)


def read_bias(name: str, given: Any) -> Any:
    """A number, two, rows of these, a word or nothing; `TransducerConfig` checks what came out."""
    if not isinstance(given, str) or given in ("auto", "drift"):
        return given
    text = given.strip("[]() ")
    if text in ("none", "null", ""):
        return None
    try:
        rows = [
            [float(number) for number in row.strip("[]() ").split(",")]
            for row in text.replace("],", "];").split(";")
        ]
    except ValueError:
        raise InputError(
            f"{name} is {given!r}, expected a number, two for a deque as in [1,-3], a row for each "
            "of several memories as in [[0,0],[1,-2]], drift, auto or none"
        ) from None
    if len(rows) > 1:
        return rows
    return rows[0] if len(rows[0]) > 1 else rows[0][0]


START_OPTIONS = (
    "curriculum_start", "push_bias", "pop_bias", "learning_rate", "input_scale", "output_scale",
    "seed",
)  # fmt: skip
"""Options in which the starts of a race may differ."""
SEEDS_APART = 1_000_000
"""How far the seeds of two starts of a race are apart, unless they are given."""


def read_starts(name: str, given: Any) -> str:
    """The starts of a race as text, from text or from a list of options for each."""
    if isinstance(given, list | tuple):
        given = "; ".join(
            " ".join(f"{key}={_one_word(value)}" for key, value in each.items())
            if isinstance(each, Mapping)
            else str(each)
            for each in given
        )
    text = read_value(name, str, "" if given in (None, "none") else given)
    return _join(parse_starts(name, text))


def without_options(starts: str, names: Iterable[str]) -> str:
    """The starts of a race that do not differ in these options."""
    left = [
        {key: value for key, value in each.items() if key not in names}
        for each in parse_starts("starts", starts)
    ]
    return _join(left)


def _join(starts: list[dict[str, str]]) -> str:
    return "; ".join(" ".join(f"{key}={value}" for key, value in each.items()) for each in starts)


def parse_starts(name: str, text: str) -> list[dict[str, str]]:
    """The options of each start, as text."""
    starts = []
    for part in text.split(";") if text.strip() else []:
        pairs = [word.partition("=") for word in part.split()]
        for key, equals, value in pairs:
            if not equals or not value or key not in START_OPTIONS:
                hint = did_you_mean(key, START_OPTIONS) if equals else ""
                raise InputError(
                    f"{name}: {key + equals + value!r}, expected option=value, with one of "
                    f"{', '.join(START_OPTIONS)}{hint}"
                )
        starts.append({key: value for key, _, value in pairs})
    if len(starts) == 1:
        raise InputError(f"{name} is {text!r}: one start, expected two or more for a race")
    return starts


def _one_word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)


def read_lengths(name: str, given: Any) -> str:
    """A range as text: from text, from the two ends of it, or from one length."""
    if isinstance(given, list | tuple) and len(given) == 2:
        given = f"{given[0]}-{given[1]}"
    elif type(given) is int:
        given = str(given)
    text = read_value(name, str, given)
    try:
        low, high = parse_lengths(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return f"{low}-{high}"
