"""Options: how one is declared, told to the command line, and how its value is read.

A value is text from a command line, what YAML makes of a file, or what a program passes; each is
read here into the type that the option has, or refused in words that name the option.
"""

from argparse import ArgumentParser
from argparse import _ActionsContainer as ActionsContainer
from collections.abc import Callable
from dataclasses import Field, field, fields
from math import isfinite, nan
from typing import Any, ClassVar, Final, Literal, Self, get_args, get_origin

from pushpop.errors import InputError, did_you_mean

Number = int | float
Reader = Callable[[str, Any], Any]
"""From an option's name and what was given to its value."""


class _NotGiven:
    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final[Any] = _NotGiven()
"""What an option of a dataclass is until its default is filled in."""


def option(
    default: Any,
    text: str,
    least: Number | None = None,
    above: Number | None = None,
    *,
    kw_only: bool = False,
    read: Reader | None = None,
    group: str = "",
    short: str = "",
    metavar: str = "",
) -> Any:
    """A field with its default, its help text and, for a number, the bound that it must reach or
    exceed. Its type says how a value is read, unless `read` does. `group` is the heading under
    which help lists it and the options after it, `short` a letter for it as in -n, `metavar` what
    help calls the value."""
    metadata = {
        "default": default, "help": text, "least": least, "above": above, "read": read,
        "group": group, "short": short, "metavar": metavar,
    }  # fmt: skip
    return field(default=NOT_GIVEN, metadata=metadata, kw_only=kw_only)


def argument(text: str, count: str = "") -> Any:
    """A field that stands on the command line without its name: always, or with a count of "?"
    at most once, of "*" any number of times."""
    metadata = {"default": None, "help": text, "count": count}
    return field(metadata=metadata) if not count else field(default=None, metadata=metadata)


class Command:
    """Base of the commands: dataclasses whose fields are the arguments and options, whose docstring
    is the help, with examples."""

    usage: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for declared in option_fields(type(self)):
            value = getattr(self, declared.name)
            if value is NOT_GIVEN:
                value = declared.metadata["default"]
            elif "count" not in declared.metadata:
                value = read_option(declared, value)
            vars(self)[declared.name] = value

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """The command with these values for some of its fields, as text."""
        return cls(**given)

    @classmethod
    def add_options(cls, parser: ArgumentParser) -> None:
        for declared in option_fields(cls):
            add_option(parser, declared, switch=declared.type is bool)

    def execute(self) -> None:
        raise NotImplementedError


def option_fields(options: Any) -> list["Field[Any]"]:
    """The fields that `option` and `argument` have declared."""
    return [declared for declared in fields(options) if "help" in declared.metadata]


METAVARS: dict[Any, str] = {int: "N", float: "X", bool: "true|false"}


def add_option(
    parser: ActionsContainer, declared: "Field[Any]", values: str = "", *, switch: bool = False
) -> None:
    """Tell a parser of an option. `values` is what help says of its default; a switch is given
    without a value."""
    info, text = declared.metadata, declared.metadata["help"]
    if "count" in info:
        count = {"nargs": info["count"]} if info["count"] else {}
        parser.add_argument(declared.name, help=text.replace("%", "%%"), **count)
        return
    names = [*filter(None, [info["short"]]), f"--{declared.name.replace('_', '-')}"]
    if switch:
        parser.add_argument(*names, action="store_true", default=None, help=text)
        return
    if not values and info["default"] not in (None, "") and "by default" not in text:
        values = f"default: {info['default']}"
    shown = f"{text} ({values})" if values else text
    bare: dict[str, Any] = {"nargs": "?", "const": "true"} if declared.type is bool else {}
    metavar = info["metavar"] or METAVARS.get(
        declared.type, declared.name.rpartition("_")[2].upper()
    )
    parser.add_argument(*names, metavar=metavar, help=shown.replace("%", "%%"), **bare)


def read_option(declared: "Field[Any]", value: Any) -> Any:
    """The value of an option that `option` has declared."""
    info = declared.metadata
    if info["read"] is not None:
        return info["read"](declared.name, value)
    return read_value(declared.name, declared.type, value, info["least"], info["above"])


def read_value(
    name: str, kind: Any, value: Any, least: Number | None = None, above: Number | None = None
) -> Any:
    """Read a value of type bool, int, float, str, `str | None`, or a Literal of strings."""
    if kind is bool:
        return _read_bool(name, value)
    if kind is int or kind is float:
        return _read_number(name, kind, value, least, above)
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}, expected text")
    accepted = get_args(kind) if get_origin(kind) is Literal else ()
    if accepted and value not in accepted:
        hint = did_you_mean(value, accepted)
        raise InputError(f"{name} is {value!r}, expected {', '.join(accepted)}{hint}")
    return value


def _read_bool(name: str, value: Any) -> bool:
    words = {"true": True, "yes": True, "false": False, "no": False}
    read = words.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise InputError(f"{name} is {value!r}, expected true or false")
    return read


def _read_number(
    name: str, kind: type, value: Any, least: Number | None, above: Number | None
) -> Number:
    try:
        number: Number = kind(value.replace("_", "")) if isinstance(value, str) else value
    except ValueError:
        number = nan
    is_number = type(number) is int or (kind is float and type(number) is float)
    if (
        not is_number
        or not isfinite(number)
        or (least is not None and number < least)
        or (above is not None and number <= above)
        or number >= 2**63
    ):
        wanted = "a whole number" if kind is int else "a number"
        if least is not None:
            wanted += f" of {least} or more"
        elif above is not None:
            wanted += f" above {above}"
        raise InputError(f"{name} is {value!r}, expected {wanted}")
    return float(number) if kind is float else number
