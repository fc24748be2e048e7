"""An option of a training run: how one is declared, and how its value is read from text."""

from collections.abc import Mapping
from dataclasses import Field, field
from math import isfinite
from typing import Any, get_args

from pushpop.errors import InputError, did_you_mean
from pushpop.models.config import StartingBias

Number = int | float


def option(
    default: Any,
    text: str,
    least: Number | None = None,
    above: Number | None = None,
    kw_only: bool = False,
) -> Any:
    """A field with its help text and, for a number, the bound that it must reach or exceed."""
    metadata = {"help": text, "least": least, "above": above}
    return field(default=default, metadata=metadata, kw_only=kw_only)


def read_value(each: "Field[Any]", given: Any) -> Any:
    """The value of an option in the type that the option has."""
    name, kind = each.name, each.type
    if kind is bool:
        return _read_bool(name, given)
    if kind is int or kind is float:
        return _read_number(name, given, kind, each.metadata)
    if kind == StartingBias:
        return _read_bias(name, given)
    if not isinstance(given, str):
        if "lengths" in name and isinstance(given, list | tuple) and len(given) == 2:
            return f"{given[0]}-{given[1]}"
        if "lengths" in name and type(given) is int:
            return str(given)
        if not (name == "memory" and given is None):
            raise InputError(f"{name} is {given!r}, expected text")
        given = "none"  # YAML's null
    accepted = get_args(kind)
    if accepted and given not in accepted:
        hint = did_you_mean(given, accepted)
        raise InputError(f"{name} is {given!r}, expected {', '.join(accepted)}{hint}")
    return given


def _read_bool(name: str, given: Any) -> bool:
    words = {"true": True, "yes": True, "false": False, "no": False}
    if isinstance(given, str):
        given = words.get(given.lower(), given)
    if not isinstance(given, bool):
        raise InputError(f"{name} is {given!r}, expected true or false")
    return given


def _read_number(name: str, given: Any, kind: type, bounds: Mapping[str, Any]) -> Number:
    what = "a whole number" if kind is int else "a number"
    least, above = bounds["least"], bounds["above"]
    wanted = f"{what} of {least} or more" if least is not None else f"{what} above {above}"
    try:
        number: Number = kind(given.replace("_", "")) if isinstance(given, str) else given
    except ValueError:
        raise InputError(f"{name} is {given!r}, expected {wanted}") from None
    right_type = type(number) is int or (kind is float and type(number) is float)
    if (
        not right_type
        or not isfinite(number)
        or (least is not None and number < least)
        or (above is not None and number <= above)
        or number >= 2**63
    ):
        raise InputError(f"{name} is {given!r}, expected {wanted}")
    return float(number) if kind is float else number


def _read_bias(name: str, given: Any) -> Any:
    """A number, two, or nothing; `TransducerConfig` checks what came out."""
    if not isinstance(given, str):
        return given
    text = given.strip("[]() ")
    if text in ("none", "null", ""):
        return None
    if text == "auto":
        return text
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{name} is {given!r}, expected a number, two for a deque as in [1,-3], or none"
        ) from None
    return numbers if len(numbers) > 1 else numbers[0]
