"""From text to text: sources are parsed once, decoded, and what the model writes becomes text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from pushpop.errors import InputError
from pushpop.models.beam import beam_search
from pushpop.models.decoding import Hypothesis, Request, evaluating, greedy
from pushpop.models.spelling import copy_unknown, source_symbols, target_text

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


@dataclass(frozen=True)
class ParsedSource:
    """A source as a model reads it."""

    symbols: Sequence[str]
    numbers: Sequence[int]  # an unknown symbol has that of the model's unknown symbol

    @classmethod
    def of(cls, model: "Transducer", symbols: Sequence[str]) -> "ParsedSource":
        """From symbols; `InputError` for an unknown one if the model has no unknown symbol."""
        return cls(symbols, model.vocabulary.encode_source(symbols).tolist())


Source = str | Sequence[int] | ParsedSource
"""Text as a model reads it, the numbers of its symbols, or either one parsed."""


def parse_source(model: "Transducer", source: Source) -> ParsedSource:
    """The symbols of a source and their numbers; `InputError` if the model cannot read it."""
    if isinstance(source, ParsedSource):
        return source
    if isinstance(source, str):
        return ParsedSource.of(model, source_symbols(model, source))
    known = len(model.vocabulary.source)
    for number in source:
        if not 0 <= number < known:
            raise InputError(f"{number} is no source symbol's number, expected 0 to {known - 1}")
    numbers = [int(number) for number in source]
    return ParsedSource(model.vocabulary.decode_source(numbers), numbers)


def parse_sources(model: "Transducer", sources: Sequence[Source]) -> list[ParsedSource]:
    """Every source parsed; an error begins with which it was."""
    if isinstance(sources, str):
        raise InputError(f"sources is the string {sources!r}, expected a list of strings")
    parsed = []
    for index, source in enumerate(sources):
        try:
            parsed.append(parse_source(model, source))
        except InputError as error:
            raise InputError(f"input {index}: {error}") from None
    return parsed


@torch.no_grad()
def decode(
    model: "Transducer",
    sources: Sequence[Source],
    *,
    beam: int = 1,
    nbest: int = 1,
    max_length: int | None = None,
    normalise: bool = False,
    batch_size: int = 64,
) -> list[list[Hypothesis]]:
    """The best targets of each source, best first, finished ones before others.

    Args:
        model: a transducer.
        sources: each a string as the model reads text (symbols separated by spaces, unless it was
            trained on text of another form), the symbols' numbers, or a `ParsedSource`.
        beam: how many hypotheses of a source are pursued at once. 1 is greedy decoding.
        nbest: how many are returned of each source, at most `beam`; fewer if no more were found.
        max_length: the most symbols in a target, EOS not counted. `None`: twice the symbols of its
            source and 50 more.
        normalise: rank by log probability per symbol (EOS counted) instead of the total. The
            search of a source then ends with the first `beam` finished hypotheses.
        batch_size: how many sources are decoded together. It bounds the memory that is used and
            changes no result beyond rounding.
    """
    for name, given, least in (
        ("beam", beam, 1),
        ("nbest", nbest, 1),
        ("batch_size", batch_size, 1),
    ):
        if given < least:
            raise InputError(f"{name} is {given}, expected at least {least}")
    if nbest > beam:
        raise InputError(f"nbest is {nbest} with a beam of {beam}, expected at most the beam")
    if max_length is not None and max_length < 0:
        raise InputError(f"max_length is {max_length}, expected at least 0")
    parsed = parse_sources(model, sources)
    results: list[list[Hypothesis]] = []
    with evaluating(model):
        for first in range(0, len(parsed), batch_size):
            part = parsed[first : first + batch_size]
            longest = [2 * len(s.numbers) + 50 if max_length is None else max_length for s in part]
            request = Request([source.numbers for source in part], longest)
            if beam == 1:
                found = [[best] for best in greedy(model, request)]
            else:
                found = beam_search(model, request, beam, nbest, normalise)
            for source, hypotheses in zip(part, found, strict=True):
                results.append([_with_text(model, source, each) for each in hypotheses])
    return results


def _with_text(model: "Transducer", source: ParsedSource, found: Hypothesis) -> Hypothesis:
    target = copy_unknown(model, source.symbols, found)
    return replace(found, target=tuple(target), text=target_text(model, target))
