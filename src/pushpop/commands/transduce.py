"""`pushpop transduce`: lines in, predictions out."""

import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pushpop.devices import find_device, read_device
from pushpop.errors import InputError

if TYPE_CHECKING:
    from pushpop.models import Hypothesis, Transducer
    from pushpop.models.text import ParsedSource
    from pushpop.tasks.pairs_lines import Line

AT_ONCE = 256
"""The most lines that are answered together. Lines that have arrived do not wait for others."""


def transduce(
    model: str,
    file: str | None = None,
    nbest: int = 0,
    beam: int = 1,
    max_length: int = 0,
    threads: int = 1,
    device: str = "cpu",
) -> None:
    """Write a prediction for every line of a file, of standard input, or that is typed.

    Args:
        model: a run directory, a saved model, or the name of a model that comes with pushpop
            (pushpop models lists them)
        file: a file of sources, one a line, also packed as .gz; by default standard input, and in
            a terminal a prompt; blank lines stay blank
        nbest: write so many predictions of each line, best first, as source, prediction and log
            probability between tabs; by default one, alone
        beam: how many predictions are pursued at once; 1: the likeliest symbol at every step
        max_length: the most symbols in a prediction; by default twice the source's and 50 more
        threads: threads that torch computes with; several are slow where other programs run too
        device: where it runs: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu

    Examples:
        pushpop transduce reverse-stack              a prompt; try a1 a2 a3
        pushpop transduce runs/pairs-deque-seed0 words.txt > sounds.txt
        pushpop transduce runs/pairs-deque-seed0 --nbest 5 < words.txt
    """
    bounds = {"nbest": (nbest, 0), "beam": (beam, 1), "max_length": (max_length, 0)}
    for name, (given, least) in {**bounds, "threads": (threads, 1)}.items():
        if given < least:
            raise InputError(f"{name} is {given}, expected {least} or more")
    read_device("device", device)
    from pushpop.models.saving import find_model
    from pushpop.models.text import unknown_symbols
    from pushpop.tasks.pairs_lines import lines_of
    from pushpop.tasks.pairs_open import read_blocks, unpacked
    from pushpop.training.load import load_trained
    from pushpop.training.parallel import torch_threads

    if file is not None:
        check_sources_file(file)
    elif sys.stdin is None:
        raise InputError("standard input is closed, expected sources there, or a file of them")
    found = load_trained(find_model(model)).model.to(find_device(device))
    decode = partial(
        found.decode, beam=max(beam, nbest), nbest=max(1, nbest), max_length=max_length or None
    )

    def answer(sources: "list[ParsedSource]", texts: list[str]) -> list[str]:
        """What is printed for each text; a blank one has no source."""
        answers = iter(decode(sources))
        return [_answer(text, next(answers), nbest) if text else "" for text in texts]

    with torch_threads(threads):
        if file is None and sys.stdin.isatty():
            from pushpop.commands.prompt import converse

            converse(found, model, lambda source, text: answer([source], [text])[0])
            return
        where, unknown = file or "standard input", Counter[str]()
        blocks = unpacked(where, sys.stdin.buffer) if file is None else read_blocks(file)
        try:
            for lines in _chunks(lines_of(blocks), where):
                texts, sources, wrong = _parse(found, lines, where)
                unknown += unknown_symbols(found, [source.symbols for source in sources])
                if texts:
                    print(*answer(sources, texts), sep="\n", flush=True)
                if wrong is not None:
                    raise wrong
        finally:
            say_unknown(unknown)


def check_sources_file(path: str) -> None:
    """Refuse a file that is there for something else, before a model is loaded."""
    from pathlib import Path

    from pushpop.tasks.pairs_open import is_csv

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
    from pushpop.tasks.pairs_lines import check_text

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


def _answer(line: str, found: "list[Hypothesis]", nbest: int) -> str:
    """What is printed for a source: a line, or one for each of its best predictions."""
    if not nbest:
        return found[0].text
    source = line.replace("\t", " ")
    return "\n".join(f"{source}\t{one.text}\t{one.score:.4f}" for one in found)


def _parse(
    model: "Transducer", lines: list[tuple[int, str]], where: str
) -> "tuple[list[str], list[ParsedSource], InputError | None]":
    """The texts of the lines before the first bad one, their sources, and what is wrong then."""
    texts: list[str] = []
    sources = []
    for number, text in lines:
        try:
            sources += [parse_line(model, text, f"{where}:{number}")] if text else []
        except InputError as error:
            return texts, sources, error
        texts.append(text)
    return texts, sources, None


def _chunks(arrived: "Iterator[list[Line]]", where: str) -> Iterator[list[tuple[int, str]]]:
    """Numbers and texts of some lines at a time; a blank line is an empty text."""
    for lines in arrived:
        chunk: list[tuple[int, str]] = []
        for number, text in lines:
            if not isinstance(text, str):
                if chunk:
                    yield chunk
                raise InputError(f"{where}:{number}:{text.column}: {text.what}")
            chunk.append((number, text if text.strip(" ") else ""))
            if len(chunk) == AT_ONCE:
                yield chunk
                chunk = []
        if chunk:
            yield chunk
