"""The error a user can act on: the command line prints it without a traceback and exits with 2; and
where the library's warnings go."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TextIO


class InputError(ValueError):
    """Something the user gave is wrong; the message names what was given and what was wanted."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint to end a message with: the known name nearest to the given one, or nothing."""
    nearest = get_close_matches(given, known, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


@contextmanager
def log_to(stream: TextIO, prefix: str = "") -> Iterator[None]:
    """Print what the library logs, a line each."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(f"{prefix}%(message)s"))
    logger = logging.getLogger("pushpop")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
