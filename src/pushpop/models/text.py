"""Between the text that a user has and the symbols that a model knows: sources are parsed, what a
model writes becomes text, and predictions are compared with what was wanted."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import torch
from torch import Tensor

from pushpop.errors import InputError, naming
from pushpop.models.decoding import Hypothesis, fed_back

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


class UnknownSymbols(UserWarning):
    """A source has symbols that did not occur in training."""


@dataclass(frozen=True)
class ParsedSource:
    """A source as a model reads it."""

    symbols: Sequence[str]
    numbers: Sequence[int]  # an unknown symbol has that of the model's unknown symbol

    @classmethod
    def of(cls, model: "Transducer", symbols: Sequence[str]) -> "ParsedSource":
        """From symbols; `InputError` for an unknown one if the model has no unknown symbol."""
        if not model.vocabulary.source:
            raise InputError(
                "a language model has no source: expected generate or log_probability, or a model "
                "of another form"
            )
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
        if not isinstance(number, SupportsIndex):
            raise InputError(
                f"{source!r}: expected a string, as in {' '.join(map(str, source))!r}, or the "
                "numbers of source symbols"
            )
        if not 0 <= number < known:
            raise InputError(f"{number} is no source symbol's number, expected 0 to {known - 1}")
    numbers = [int(number) for number in source]
    return ParsedSource(model.vocabulary.decode_source(numbers), numbers)


def parse_sources(model: "Transducer", sources: Sequence[Source]) -> list[ParsedSource]:
    """Parse and check every source; an error begins with the number of the input."""
    if isinstance(sources, str):
        raise InputError(f"sources is the string {sources!r}, expected a list of strings")
    parsed = []
    for index, source in enumerate(sources):
        with naming(f"input {index}"):
            parsed.append(parse_source(model, source))
            model.check_answers(parsed[-1].symbols)
    return parsed


def source_symbols(model: "Transducer", text: str) -> list[str]:
    """Split a source as the model's text form says; without one, at spaces."""
    return text.split() if model.text is None else model.text.read_line(text)


def target_symbols(model: "Transducer", text: str) -> list[str]:
    return text.split() if model.text is None else model.text.target_symbols(text)


def target_text(model: "Transducer", symbols: Iterable[str]) -> str:
    return " ".join(symbols) if model.text is None else model.text.target_text(symbols)


def describe_sources(model: "Transducer") -> str:
    """Say what text a model reads, with an example of its own symbols."""
    symbols = [symbol for symbol in model.vocabulary.source if symbol != model.vocabulary.unknown]
    letters = [symbol for symbol in symbols if symbol.isalnum()][:3] or symbols[:3]
    form = model.text
    if form is None or form.source == "spaces":
        what = f"symbols between spaces, as in {' '.join(letters)}"
    else:
        what = f"text, as in {''.join(letters)}"
    if model.vocabulary.blank is not None:
        what += f", and a {model.vocabulary.blank} for each symbol of the answer"
    return f"{what}, a tab and features" if form is not None and form.features else what


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
    if counts:
        warnings.warn(describe_unknown(counts), UnknownSymbols, stacklevel=stacklevel + 1)


def copy_unknown(model: "Transducer", source: Sequence[str], written: Hypothesis) -> list[str]:
    """A hypothesis's symbols, with source symbols where the model wrote the unknown symbol.

    A source symbol that the model does not know is copied: with attention, the one with the largest
    weight at that step; without, the next one in order. If there is none, nothing is written.
    """
    vocabulary, symbols = model.vocabulary, list(written.symbols)
    if vocabulary.unknown is None or vocabulary.unknown not in symbols:
        return symbols
    places = [k for k, symbol in enumerate(source) if not vocabulary.knows("source", symbol)]
    gaps = [k for k, symbol in enumerate(symbols) if symbol == vocabulary.unknown]
    if not places:
        return [symbol for symbol in symbols if symbol != vocabulary.unknown]
    weights = None
    if model.config.attention:
        weights = attention_weights(model, source, written.ids)[:, torch.tensor(places)]
    for number, gap in enumerate(gaps):
        nearest = number if weights is None else int(weights[gap].argmax())
        symbols[gap] = source[places[nearest]] if nearest < len(places) else ""
    return [symbol for symbol in symbols if symbol]


@torch.no_grad()
def attention_weights(model: "Transducer", source: Sequence[str], ids: Sequence[int]) -> Tensor:
    """The attention weights of each source symbol at each of some output ids:
    [outputs, source symbols]."""
    assert model.source is not None
    vocabulary, device = model.vocabulary, model.output_table.weight.device
    read = vocabulary.encode_source(source) + vocabulary.source_input_start
    fed = fed_back(vocabulary, torch.tensor(ids, dtype=torch.int64)).tolist()
    joint = [vocabulary.SOS, *read.tolist(), vocabulary.SEP, *fed]
    inputs = torch.tensor(joint, device=device)[:, None]
    x, at_sep = model.input_table(inputs), inputs == vocabulary.SEP
    weights = model.source.weights(model.body, x, at_sep)[0]  # [T, S]
    first = len(source) + 1  # SEP, where the first output is
    return weights[first : first + len(ids), 1 : len(source) + 1].cpu()


@dataclass(frozen=True)
class Prediction:
    """The target that a model wrote for a source, the one that was wanted, and their distance."""

    source: list[str]
    wanted: list[str]
    written: list[str]
    distance: int


@dataclass(frozen=True)
class PairScores:
    """Predictions for some pairs."""

    predictions: list[Prediction]
    unknown: dict[str, int]  # source symbols that the model does not know, and how often

    @property
    def accuracy(self) -> float:
        """The share of targets that are right as a whole."""
        right = sum(not prediction.distance for prediction in self.predictions)
        return right / len(self.predictions)

    @property
    def symbol_error_rate(self) -> float:
        """Edits a symbol: the distances together, over the number of wanted symbols."""
        wanted = sum(len(prediction.wanted) for prediction in self.predictions)
        return sum(prediction.distance for prediction in self.predictions) / wanted

    def worst(self, count: int) -> list[Prediction]:
        """The wrong predictions with most errors for their length."""
        wrong = [prediction for prediction in self.predictions if prediction.distance]
        return sorted(wrong, key=lambda wrong: -wrong.distance / len(wrong.wanted))[:count]

    def to_dict(self) -> dict[str, Any]:
        return {
            "pairs": len(self.predictions),
            "accuracy": self.accuracy,
            "word_error_rate": 1 - self.accuracy,
            "symbol_error_rate": self.symbol_error_rate,
        }


def score_pairs(
    model: "Transducer", pairs: Sequence[tuple[list[str], list[str]]], beam: int = 1
) -> PairScores:
    """Predict the target of each source, both as symbols, and compare."""
    if not pairs:
        raise InputError("no pairs to score")
    read = [model.source_for(source, len(wanted)) for source, wanted in pairs]
    decoded = model.decode([ParsedSource.of(model, source) for source in read], beam=beam)
    predictions = []
    for (source, wanted), (best, *_) in zip(pairs, decoded, strict=True):
        written = list(best.target)
        predictions.append(Prediction(source, wanted, written, model.distance(written, wanted)))
    return PairScores(predictions, dict(unknown_symbols(model, [source for source, _ in pairs])))


def describe_prediction(model: "Transducer", prediction: Prediction) -> str:
    """A prediction in a line: source, wanted, written."""
    form = model.text
    source = ("" if form is not None and form.source == "chars" else " ").join(prediction.source)
    wanted, written = prediction.wanted, prediction.written
    return f"{source}\t{target_text(model, wanted)}\t{target_text(model, written)}"


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that turn a into b (Levenshtein)."""
    if a == b:
        return 0
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]
