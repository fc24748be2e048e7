"""Between the text that a user has and the symbols that a model knows."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from pushpop.models.decoding import Hypothesis

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


class UnknownSymbols(UserWarning):
    """Something to predict from has symbols that were not there in training."""


def source_symbols(model: "Transducer", text: str) -> list[str]:
    """The symbols of a source, as the model reads text; without a form, between spaces."""
    return text.split() if model.text is None else model.text.read_line(text)


def describe_sources(model: "Transducer") -> str:
    """What text a model reads, with an example of the model's own symbols."""
    symbols = [each for each in model.vocabulary.source if each != model.vocabulary.unknown]
    letters = [each for each in symbols if each.isalnum()][:3] or symbols[:3]
    form = model.text
    if form is None or form.source == "spaces":
        what = f"symbols between spaces, as in {' '.join(letters)}"
    else:
        what = f"text, as in {''.join(letters)}"
    if model.vocabulary.blank is not None:
        what += f", and a {model.vocabulary.blank} for each symbol of the answer"
    return f"{what}, a tab and features" if form is not None and form.features else what


def target_symbols(model: "Transducer", text: str) -> list[str]:
    """The symbols of a target."""
    return text.split() if model.text is None else model.text.target_symbols(text)


def target_text(model: "Transducer", symbols: Iterable[str]) -> str:
    """Target symbols as text."""
    return " ".join(symbols) if model.text is None else model.text.target_text(symbols)


def unknown_symbols(model: "Transducer", sources: Iterable[Sequence[str]]) -> Counter[str]:
    """How often each symbol occurs that the model has to read as unknown."""
    vocabulary = model.vocabulary
    if vocabulary.unknown is None:
        return Counter()
    known = set(vocabulary.source) - {vocabulary.unknown}
    return Counter(symbol for source in sources for symbol in source if symbol not in known)


def describe_unknown(counts: Counter[str]) -> str:
    """The unknown symbols and how often they occur, in a line."""
    total = sum(counts.values())
    shown = ", ".join(f"{symbol!r} ({count:,})" for symbol, count in counts.most_common(5))
    more = f" and {len(counts) - 5} others" if len(counts) > 5 else ""
    symbols = "1 symbol is" if total == 1 else f"{total:,} symbols are"
    return f"{symbols} unknown to the model: {shown}{more}"


def warn_unknown(counts: Counter[str], stacklevel: int) -> None:
    """Warn if there are any."""
    if counts:
        warnings.warn(describe_unknown(counts), UnknownSymbols, stacklevel=stacklevel + 1)


def copy_unknown(model: "Transducer", source: Sequence[str], found: Hypothesis) -> list[str]:
    """A hypothesis's symbols, with source symbols where the model wrote the unknown symbol.

    A source symbol that the model does not know is copied: with attention, the one with the largest
    weight at that step; without, the next one in order. If there is none, nothing is written.
    """
    vocabulary, symbols = model.vocabulary, list(found.symbols)
    if vocabulary.unknown is None or vocabulary.unknown not in symbols:
        return symbols
    places = [k for k, symbol in enumerate(source) if not vocabulary.knows("source", symbol)]
    gaps = [k for k, symbol in enumerate(symbols) if symbol == vocabulary.unknown]
    if not places:
        return [symbol for symbol in symbols if symbol != vocabulary.unknown]
    weights = None
    if model.config.attention:
        weights = attention_weights(model, source, found.ids)[:, torch.tensor(places)]
    for number, gap in enumerate(gaps):
        nearest = number if weights is None else int(weights[gap].argmax())
        symbols[gap] = source[places[nearest]] if nearest < len(places) else ""
    return [symbol for symbol in symbols if symbol]


@torch.no_grad()
def attention_weights(
    model: "Transducer", source: Sequence[str], ids: Sequence[int]
) -> torch.Tensor:
    """The attention weights of each source symbol at each of some output ids:
    [outputs, source symbols]."""
    assert model.source is not None
    vocabulary, device = model.vocabulary, model.output_table.weight.device
    read = vocabulary.encode_source(source) + vocabulary.source_input_start
    fed = [k - vocabulary.target_output_start + vocabulary.target_input_start for k in ids]
    joint = [vocabulary.SOS, *read.tolist(), vocabulary.SEP, *fed]
    inputs = torch.tensor(joint, device=device)[:, None]
    weights = model.source.weights(model.body, model.input_table(inputs), inputs == vocabulary.SEP)[
        0
    ]  # [T, S]
    first = len(source) + 1  # SEP, where the first output is
    return weights[first : first + len(ids), 1 : len(source) + 1].cpu()
