"""Standard input, output and arguments as the commands use them: UTF-8, whatever the locale is."""

import codecs
import io
import os
import sys

ERRORS = "pushpop.shown"


def use_utf8() -> None:
    """Make standard input, output and errors UTF-8, and writing safe.

    A terminal keeps its own encoding, since it could not show another; what it cannot show is
    written as in \\u02d0. Bytes of arguments that the locale could not read are written as they
    came; half a character (a lone surrogate), which no encoding has, by its number.
    """
    codecs.register_error(ERRORS, _shown)
    if sys.stdout is None:  # closed by who called: nobody wants what is printed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  for as long as the process runs
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):  # closed, or somebody's own
            continue
        errors = "surrogateescape" if stream is sys.stdin else ERRORS
        if stream.isatty():
            stream.reconfigure(errors=errors)
        else:
            stream.reconfigure(encoding="utf-8", errors=errors)


def give_up_output() -> None:
    """What standard output could not take is dropped, not tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def as_text(argument: str) -> str:
    """An argument whose bytes are UTF-8 as text, even if the locale could not read them."""
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:  # no UTF-8: whoever reads it will say so
        return argument


def _shown(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)
