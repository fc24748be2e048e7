"""`pushpop transduce` in a terminal: a line is typed, and its prediction is the next line."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pushpop.commands.transduce import parse_line, say_unknown
from pushpop.errors import InputError

if TYPE_CHECKING:
    from pushpop.models import Transducer
    from pushpop.models.text import ParsedSource

PROMPT = "> "


def converse(model: "Transducer", name: str, answer: "Callable[[ParsedSource, str], str]") -> None:
    """Answer every line until the end of input (Ctrl-D). A mistake is told and ends nothing."""
    from pushpop.models.text import describe_sources, unknown_symbols

    _say(f"{name} reads {describe_sources(model)}; Ctrl-D ends")
    read = _reader()
    while (line := read()) is not None:
        text = line.strip(" ")
        if not text:
            continue
        try:
            source = parse_line(model, text, "input")
        except InputError as error:
            _say(f"pushpop: {error}")
            continue
        print(answer(source, text), flush=True)
        say_unknown(unknown_symbols(model, [source.symbols]))


def _reader() -> Callable[[], str | None]:
    """A function that asks for a line; at the end of input it gives nothing.

    With a terminal on both sides, lines can be edited and come back with the arrow keys.
    """
    if sys.stdout.isatty():
        try:
            import readline

            readline.parse_and_bind("tab: tab-insert")  # before features, and not to complete
        except ImportError:  # not on every system
            pass

        def ask() -> str | None:
            try:
                return input(PROMPT)
            except EOFError:
                print()
                return None
            except KeyboardInterrupt:
                print()  # what the shell writes next begins a line
                raise

        return ask

    def ask_beside() -> str | None:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        return line.rstrip("\r\n") if line else None

    return ask_beside


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
