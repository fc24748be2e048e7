"""Standard input, output and arguments in UTF-8, whatever the locale is."""

import io
import os
import sys


def use_utf8() -> None:
    """Make standard input, output and errors UTF-8. A terminal keeps its encoding, and shows what
    that lacks by number; bytes of arguments that the locale could not read are written as they
    came."""
    if sys.stdout is None:  # closed by who called: nobody wants what is printed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  for as long as the process runs
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not closed, nor somebody's own
            terminal = stream.isatty()
            shown = terminal and stream is not sys.stdin
            stream.reconfigure(
                encoding=None if terminal else "utf-8",
                errors="backslashreplace" if shown else "surrogateescape",
            )


def output_is_closed() -> bool:
    """Whether standard output was closed by who called."""
    return getattr(sys.stdout, "name", "") == os.devnull


def drop_output() -> None:
    """Drop what standard output could not take: it is not tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def as_text(argument: str) -> str:
    """Read the bytes of an argument as UTF-8, even if the locale could not."""
    try:
        return argument.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:  # no UTF-8: whoever reads it will say so
        return argument
