"""`pushpop transduce`: lines in, predictions out."""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pushpop.commands.models import (
    device_option,
    open_model,
    parse_line,
    tell_unknown,
    threads_option,
)
from pushpop.errors import InputError, naming
from pushpop.files import output_is_closed, tell
from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from pushpop.models import Hypothesis, Transducer
    from pushpop.models.text import ParsedSource
    from pushpop.tasks.pairs_text import Line

    Answer = Callable[[list[ParsedSource], list[str]], list[str]]

PROMPT = "> "
AT_ONCE = 256
"""The most lines that are answered together. Lines that have arrived do not wait for others."""


@dataclass(frozen=True)
class Transduce(Command):
    """Write a prediction for every line of a file, of standard input, or that is typed.

    Examples:
        pushpop transduce reverse-stack              a prompt; try a1 a2 a3
        pushpop transduce runs/pairs-deque-seed0 words.txt > sounds.txt
        pushpop transduce runs/pairs-deque-seed0 --nbest 5 < words.txt
    """

    model: str = argument(
        "a run directory, a saved model, or the name of a model that comes with pushpop "
        "(pushpop models lists them)"
    )
    file: str | None = argument(
        "a file of sources, one a line, also packed as .gz; by default standard input, and in"
        " a terminal a prompt; blank lines stay blank",
        count="?",
    )
    nbest: int = option(
        0,
        "write so many predictions of each line, best first, as source, prediction and log "
        "probability between tabs; by default one, alone",
        least=0,
    )
    beam: int = option(
        1,
        "how many predictions are pursued at once; 1: the likeliest symbol at every step",
        least=1,
    )
    max_length: int = option(
        0, "the most symbols in a prediction; by default twice the source's and 50 more", least=0
    )
    threads: int = threads_option()
    device: str = device_option()

    def execute(self) -> None:
        self._check_streams()
        from pushpop.models import LanguageModel
        from pushpop.training.parallel import torch_threads

        model = open_model(self.model, self.device).model
        if isinstance(model, LanguageModel):
            raise InputError(
                f"{self.model}: a language model has no source: expected pushpop generate or "
                "pushpop evaluate"
            )
        decode = partial(
            model.decode,
            beam=max(self.beam, self.nbest),
            nbest=max(1, self.nbest),
            max_length=self.max_length or None,
        )

        def answer(sources: "list[ParsedSource]", texts: list[str]) -> list[str]:
            """What is printed for each text; a blank one has no source."""
            with naming(self.model):
                answers = iter(decode(sources))
            return [self._shown(text, next(answers)) if text else "" for text in texts]

        with torch_threads(self.threads):
            if self.file is None and sys.stdin.isatty():
                prompt(model, self.model, answer)
            else:
                self._answer_lines(model, answer)

    def _check_streams(self) -> None:
        """Refuse a file that is there for something else, before a model is loaded."""
        from pushpop.tasks.pairs_text import is_csv

        if self.file is None and sys.stdin is None:
            raise InputError("standard input is closed, expected sources there, or a file of them")
        if self.file is not None and not Path(self.file).exists():
            raise InputError(
                f"{self.file}: no such file; expected a file of sources, one a line; to type one, "
                "leave it out"
            )
        if self.file is not None and is_csv(self.file):
            raise InputError(
                f"{self.file}: a .csv file; expected text with a source a line, without quotes"
            )
        if output_is_closed():
            raise InputError("standard output is closed: the predictions would be lost")

    def _shown(self, line: str, hypotheses: "list[Hypothesis]") -> str:
        """What is printed for a source: a line, or one for each of its best predictions."""
        if not self.nbest:
            return hypotheses[0].text
        source = line.replace("\t", " ")
        return "\n".join(
            f"{source}\t{hypothesis.text}\t{hypothesis.score:.4f}" for hypothesis in hypotheses
        )

    def _answer_lines(self, model: "Transducer", answer: "Answer") -> None:
        """Answer the lines of a file or of standard input as they arrive, in order."""
        from pushpop.models.text import unknown_symbols
        from pushpop.tasks.pairs_text import lines_of, read_blocks, unpacked

        where, unknown = self.file or "standard input", Counter[str]()
        blocks = read_blocks(self.file) if self.file else unpacked(where, sys.stdin.buffer)
        try:
            for arrived in lines_of(blocks):
                for first in range(0, len(arrived), AT_ONCE):
                    lines = arrived[first : first + AT_ONCE]
                    texts, sources, wrong = _parse(model, lines, where)
                    unknown += unknown_symbols(model, [source.symbols for source in sources])
                    if texts:
                        print(*answer(sources, texts), sep="\n", flush=True)
                    if wrong is not None:
                        raise wrong
        finally:
            tell_unknown(unknown)


def _parse(
    model: "Transducer", lines: "list[Line]", where: str
) -> "tuple[list[str], list[ParsedSource], InputError | None]":
    """The texts of the lines before the first bad one, empty where blank, their sources, and what
    is wrong then."""
    texts: list[str] = []
    sources: list[ParsedSource] = []
    for number, _, line in lines:
        if not isinstance(line, str):
            return texts, sources, InputError(f"{where}:{number}:{line.column}: {line.what}")
        text = line if line.strip(" ") else ""
        try:
            sources += [parse_line(model, text, f"{where}:{number}")] if text else []
        except InputError as error:
            return texts, sources, error
        texts.append(text)
    return texts, sources, None


def prompt(model: "Transducer", name: str, answer: "Answer") -> None:
    """Answer every line until the end of input (Ctrl-D). An error is printed; the prompt stays."""
    from pushpop.models.text import describe_sources, unknown_symbols

    if sys.stdout.isatty():
        with suppress(ImportError):  # not on every system
            import readline

            readline.parse_and_bind("tab: tab-insert")  # before features, and not to complete
    print(f"{name} reads {describe_sources(model)}; Ctrl-D ends", file=sys.stderr, flush=True)
    while (line := _ask()) is not None:
        text = line.strip(" ")
        if not text:
            continue
        try:
            source = parse_line(model, text, "input")
        except InputError as error:
            tell(str(error))
            continue
        print(*answer([source], [text]), flush=True)
        tell_unknown(unknown_symbols(model, [source.symbols]))


def _ask() -> str | None:
    """The next line that is typed; nothing at the end of input. With a terminal on both sides,
    lines can be edited and come back with the arrow keys."""
    if not sys.stdout.isatty():
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        return line.rstrip("\r\n") if line else None
    try:
        return input(PROMPT)
    except EOFError:
        print()
        return None
    except KeyboardInterrupt:
        print()  # what the shell writes next begins a line
        raise
