"""`pushpop transduce`: lines in, predictions out."""

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from pushpop.devices import find_device, read_device
from pushpop.errors import InputError

if TYPE_CHECKING:
    from pushpop.models import Hypothesis, Transducer
    from pushpop.models.prediction import ParsedSource

AT_ONCE = 256
"""Lines that are read before the first is answered; one by one from a terminal."""


def transduce(
    model: str,
    nbest: int = 0,
    beam: int = 1,
    max_length: int = 0,
    threads: int = 1,
    device: str = "cpu",
) -> None:
    """Write a prediction for every line of standard input; blank lines stay blank.

    Args:
        model: a run directory, a saved model, or the name of a model that comes with pushpop
        nbest: write so many predictions of each line, best first, as source, prediction and log
            probability between tabs
        beam: how many predictions are pursued at once; 1: the likeliest symbol at every step
        max_length: the most symbols in a prediction; by default twice the source's and 50 more
        threads: threads that torch computes with; several are slow where other programs run too
        device: where it runs: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu
    """
    read_device("device", device)
    from pushpop.models.shipped import find_model
    from pushpop.models.spelling import describe_unknown, unknown_symbols
    from pushpop.training.parallel import torch_threads
    from pushpop.training.trained import load_trained

    bounds = {"nbest": (nbest, 0), "beam": (beam, 1), "max_length": (max_length, 0)}
    for name, (given, least) in {**bounds, "threads": (threads, 1)}.items():
        if given < least:
            raise InputError(f"{name} is {given}, expected {least} or more")
    found = load_trained(find_model(model)).model.to(find_device(device))
    unknown: Counter[str] = Counter()
    try:
        with torch_threads(threads):
            for lines in _chunks(sys.stdin.buffer):
                sources = [_parse(found, line, number) for number, line in lines if line]
                unknown += unknown_symbols(found, [source.symbols for source in sources])
                predicted = found.decode(
                    sources,
                    beam=max(beam, nbest),
                    nbest=max(1, nbest),
                    max_length=max_length or None,
                )
                answers = iter(predicted)
                for _, line in lines:
                    print(_answer(line, next(answers), nbest) if line else "")
                sys.stdout.flush()
    finally:
        if unknown:
            print("pushpop:", describe_unknown(unknown), file=sys.stderr)


def _answer(line: str, found: "list[Hypothesis]", nbest: int) -> str:
    """What is printed for a source: a line, or one for each of its best predictions."""
    if not nbest:
        return found[0].text
    source = line.replace("\t", " ")
    return "\n".join(f"{source}\t{one.text}\t{one.score:.4f}" for one in found)


def _parse(model: "Transducer", line: str, number: int) -> "ParsedSource":
    from pushpop.models import Tagger
    from pushpop.models.prediction import parse_source

    try:
        parsed = parse_source(model, line)
        if isinstance(model, Tagger):
            model.check_answers(parsed.symbols)
        return parsed
    except InputError as error:
        raise InputError(f"standard input:{number}: {error}") from None


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
