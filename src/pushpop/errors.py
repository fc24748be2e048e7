"""The error a user can act on: the command line prints it without a traceback and exits with 2."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something the user gave is wrong; the message names what was given and what was wanted."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint to end a message with: the known name nearest to the given one, or nothing."""
    nearest = get_close_matches(given, known, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
