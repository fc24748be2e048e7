"""Standard input and output as the commands use them: text is UTF-8, whatever the locale says."""

import io
import sys


def use_utf8() -> None:
    """Make standard input, output and errors UTF-8, and writing safe.

    A terminal keeps its own encoding, since it could not show another; what it cannot show is
    written as in \\u02d0. So is half a character (a lone surrogate), which no encoding has.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):  # closed, or somebody's own
            continue
        errors = "surrogateescape" if stream is sys.stdin else "backslashreplace"
        if stream.isatty():
            stream.reconfigure(errors=errors)
        else:
            stream.reconfigure(encoding="utf-8", errors=errors)
