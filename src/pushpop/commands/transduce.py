"""`pushpop transduce`: lines in, predictions out."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pushpop.devices import find_device, read_device
from pushpop.errors import InputError
from pushpop.options import Command, argument, option
from pushpop.stdio import output_is_closed

if TYPE_CHECKING:
    from pushpop.models import Hypothesis, Transducer
    from pushpop.models.text import ParsedSource
    from pushpop.tasks.pairs_text import Line

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
    )
    beam: int = option(
        1, "how many predictions are pursued at once; 1: the likeliest symbol at every step"
    )
    max_length: int = option(
        0, "the most symbols in a prediction; by default twice the source's and 50 more"
    )
    threads: int = option(
        1, "threads that torch computes with; several are slow where other programs run too"
    )
    device: str = option(
        "cpu", "where it runs: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu"
    )

    def execute(self) -> None:
        for name, least in (("nbest", 0), ("beam", 1), ("max_length", 0), ("threads", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}, expected {least} or more")
        read_device("device", self.device)
        from pushpop.models import LanguageModel
        from pushpop.models.saving import find_model
        from pushpop.models.text import unknown_symbols
        from pushpop.tasks.pairs_text import lines_of, read_blocks, unpacked
        from pushpop.training.parallel import torch_threads
        from pushpop.training.run import load_trained

        if self.file is not None:
            check_sources_file(self.file)
        elif sys.stdin is None:
            raise InputError("standard input is closed, expected sources there, or a file of them")
        if output_is_closed():
            raise InputError("standard output is closed: the predictions would be lost")
        trained = load_trained(find_model(self.model)).model.to(find_device(self.device))
        if isinstance(trained, LanguageModel):
            raise InputError(
                f"{self.model}: a language model has no source: expected pushpop generate or "
                "pushpop evaluate"
            )
        decode = partial(
            trained.decode,
            beam=max(self.beam, self.nbest),
            nbest=max(1, self.nbest),
            max_length=self.max_length or None,
        )

        def answer(sources: "list[ParsedSource]", texts: list[str]) -> list[str]:
            """What is printed for each text; a blank one has no source."""
            answers = iter(decode(sources))
            return [_answer(text, next(answers), self.nbest) if text else "" for text in texts]

        with torch_threads(self.threads):
            if self.file is None and sys.stdin.isatty():
                prompt(trained, self.model, lambda source, text: answer([source], [text])[0])
                return
            where, unknown = self.file or "standard input", Counter[str]()
            blocks = read_blocks(self.file) if self.file else unpacked(where, sys.stdin.buffer)
            chunks = (
                arrived[first : first + AT_ONCE]
                for arrived in lines_of(blocks)
                for first in range(0, len(arrived), AT_ONCE)
            )
            try:
                for lines in chunks:
                    texts, sources, wrong = _parse(trained, lines, where)
                    unknown += unknown_symbols(trained, [source.symbols for source in sources])
                    if texts:
                        print(*answer(sources, texts), sep="\n", flush=True)
                    if wrong is not None:
                        raise wrong
            finally:
                say_unknown(unknown)


def check_sources_file(path: str) -> None:
    """Refuse a file that is there for something else, before a model is loaded."""
    from pathlib import Path

    from pushpop.tasks.pairs_text import is_csv

    if not Path(path).exists():
        raise InputError(
            f"{path}: no such file; expected a file of sources, one a line; to type one, leave it "
            "out"
        )
    if is_csv(path):
        raise InputError(f"{path}: a .csv file; expected text with a source a line, without quotes")


def parse_line(
    model: "Transducer", text: str, where: str, *, with_blanks: bool = True
) -> "ParsedSource":
    """A line of text as a model reads it; `InputError` with its place if the model cannot.

    `with_blanks`: a tagger that answers at blanks needs them in the line.
    """
    from pushpop.models import Tagger
    from pushpop.models.text import describe_sources, parse_source
    from pushpop.tasks.pairs_text import check_text

    if (bad := check_text(text)) is not None:
        raise InputError(f"{where}:{bad.column}: {bad.what}")
    try:
        parsed = parse_source(model, text)
        if with_blanks and isinstance(model, Tagger):
            model.check_answers(parsed.symbols)
        return parsed
    except InputError as error:
        knows_all = model.vocabulary.unknown is not None
        hint = "" if knows_all else f"; the model reads {describe_sources(model)}"
        raise InputError(f"{where}: {error}{hint}") from None


def say_unknown(counts: Counter[str]) -> None:
    """A line on stderr with the symbols that the model does not know, if there are any."""
    from pushpop.models.text import describe_unknown

    if counts:
        print("pushpop:", describe_unknown(counts), file=sys.stderr)


def _answer(line: str, hypotheses: "list[Hypothesis]", nbest: int) -> str:
    """What is printed for a source: a line, or one for each of its best predictions."""
    if not nbest:
        return hypotheses[0].text
    source = line.replace("\t", " ")
    return "\n".join(
        f"{source}\t{hypothesis.text}\t{hypothesis.score:.4f}" for hypothesis in hypotheses
    )


def _parse(
    model: "Transducer", lines: "list[Line]", where: str
) -> "tuple[list[str], list[ParsedSource], InputError | None]":
    """The texts of the lines before the first bad one, empty where blank, their sources, and what
    is wrong then."""
    texts: list[str] = []
    sources: list[ParsedSource] = []
    for number, line in lines:
        if not isinstance(line, str):
            return texts, sources, InputError(f"{where}:{number}:{line.column}: {line.what}")
        text = line if line.strip(" ") else ""
        try:
            sources += [parse_line(model, text, f"{where}:{number}")] if text else []
        except InputError as error:
            return texts, sources, error
        texts.append(text)
    return texts, sources, None


def prompt(model: "Transducer", name: str, answer: "Callable[[ParsedSource, str], str]") -> None:
    """Answer every line until the end of input (Ctrl-D). An error is printed; the prompt stays."""
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
