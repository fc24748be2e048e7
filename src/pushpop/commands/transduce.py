"""`pushpop transduce`: lines in, predictions out."""

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from pushpop.errors import InputError

if TYPE_CHECKING:
    from pushpop.models import Transducer

AT_ONCE = 256
"""Lines that are read before the first is answered; one by one from a terminal."""


def transduce(
    model: str, nbest: int = 0, beam: int = 1, max_length: int = 0, threads: int = 1
) -> None:
    """Write a prediction for every line of standard input; blank lines stay blank.

    Args:
        model: a run directory, a saved model, or the name of a model that comes with pushpop
        nbest: write so many predictions of each line, best first, as source, prediction and log
            probability between tabs
        beam: how many predictions are pursued at once; 1: the likeliest symbol at every step
        max_length: the most symbols in a prediction; by default twice the source's and 50 more
        threads: threads that torch computes with; several are slow where other programs run too
    """
    from pushpop.models.shipped import find_model
    from pushpop.models.spelling import describe_unknown, unknown_symbols
    from pushpop.training.threads import threads as computing_threads
    from pushpop.training.trained import load_trained

    bounds = {"nbest": (nbest, 0), "beam": (beam, 1), "max_length": (max_length, 0)}
    for name, (given, least) in {**bounds, "threads": (threads, 1)}.items():
        if given < least:
            raise InputError(f"{name} is {given}, expected {least} or more")
    found = load_trained(find_model(model), None, _warn).model
    unknown: Counter[str] = Counter()
    try:
        with computing_threads(threads):
            for lines in _chunks(sys.stdin.buffer):
                sources = [(line, _symbols(found, line, number)) for number, line in lines if line]
                unknown += unknown_symbols(found, [symbols for _, symbols in sources])
                answers = iter(_answers(found, sources, nbest, beam, max_length))
                for _, line in lines:
                    print(next(answers) if line else "")
                sys.stdout.flush()
    finally:
        if unknown:
            _warn(describe_unknown(unknown))


def _answers(
    model: "Transducer",
    sources: list[tuple[str, list[str]]],
    nbest: int,
    beam: int,
    max_length: int,
) -> Iterator[str]:
    """What is printed for each source: a line, or one for each of its best predictions."""
    from pushpop.models.spelling import spelt, target_text

    found = model.decode(
        [model.vocabulary.encode_source(symbols).tolist() for _, symbols in sources],
        beam=max(beam, nbest),
        nbest=max(1, nbest),
        max_length=max_length or None,
    )
    for (line, symbols), hypotheses in zip(sources, found, strict=True):
        texts = [target_text(model, spelt(model, symbols, one)) for one in hypotheses]
        if not nbest:
            yield texts[0]
            continue
        source = line.replace("\t", " ")
        scores = [f"{one.score:.4f}" for one in hypotheses]
        rows = zip(texts, scores, strict=True)
        yield "\n".join(f"{source}\t{text}\t{score}" for text, score in rows)


def _symbols(model: "Transducer", line: str, number: int) -> list[str]:
    from pushpop.models.spelling import source_symbols

    try:
        symbols = source_symbols(model, line)
        model.vocabulary.encode_source(symbols)
    except InputError as error:
        raise InputError(f"standard input:{number}: {error}") from None
    return symbols


def _chunks(stream: BinaryIO) -> Iterator[list[tuple[int, str]]]:
    """Numbers and texts of some lines at a time; a blank line is an empty text."""
    from pushpop.tasks.pairs_lines import BadLine, check_line

    most = 1 if stream.isatty() else AT_ONCE
    chunk: list[tuple[int, str]] = []
    offset = 0
    for number, data in enumerate(stream, 1):
        line = data.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        text = check_line(line, offset)
        if isinstance(text, BadLine):
            if chunk:
                yield chunk
            raise InputError(f"standard input:{number}:{text.column}: {text.what}")
        chunk.append((number, text if text.strip(" ") else ""))
        offset += len(data)
        if len(chunk) == most:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _warn(text: str) -> None:
    print("pushpop:", text, file=sys.stderr)
