"""`InputError`, which the command line prints without a traceback and exits with 2 after; its
helpers; and logging to a stream."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO


class InputError(ValueError):
    """Something the user gave is wrong; the message names what was given and what was wanted."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a hint to end a message with: the nearest known name, or nothing."""
    nearest = get_close_matches(given, known, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def check_keys(given: Collection[object], known: Sequence[str], what: str = "") -> None:
    """Refuse keys that are not known, and the lack of one that is; `what` is a word for a key."""
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known) or f", expected {', '.join(known)}"
            raise InputError(f"unknown {what}{name!r}{hint}")
    for name in known:
        if name not in given:
            raise InputError(f"no {what}{name!r}")


def counted(number: int, what: str, several: str = "") -> str:
    """So many things, as in 1 pair and 2,000 pairs."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Begin the message of an `InputError` with where it was."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}" if where else str(error)) from None


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what the system or a text's encoding refuses into an `InputError` with the path."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a ValueError: no UTF-8, or a NUL in the path
        raise InputError(f"{path}: cannot be read: {_reason(error)}") from error


@contextmanager
def writing(path: str | Path, note: str = "") -> Iterator[None]:
    """Turn what the system refuses into an `InputError` with the path; `note` ends the message."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}{note}") from error


@contextmanager
def log_to(stream: TextIO, prefix: str = "") -> Iterator[None]:
    """Print what the library logs, a line each, after a prefix, which a line may have already."""
    handler = logging.StreamHandler(stream)
    handler.format = lambda record: prefix + record.getMessage().removeprefix(prefix)  # type: ignore[method-assign]
    logger = logging.getLogger("pushpop")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error
