"""How right predictions are: whole targets, and symbols by edit distance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pushpop.errors import InputError
from pushpop.models.prediction import ParsedSource
from pushpop.models.spelling import target_text, unknown_symbols

if TYPE_CHECKING:
    from pushpop.models.transducer import Transducer


@dataclass(frozen=True)
class Prediction:
    """What a model wrote for a source, what was wanted, and how far apart they are."""

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
        return sum(not one.distance for one in self.predictions) / len(self.predictions)

    @property
    def symbol_error_rate(self) -> float:
        """Edits a symbol: the distances together, over the number of wanted symbols."""
        wanted = sum(len(one.wanted) for one in self.predictions)
        return sum(one.distance for one in self.predictions) / wanted

    def worst(self, count: int) -> list[Prediction]:
        """The predictions with most errors for their length, no right ones among them."""
        wrong = [one for one in self.predictions if one.distance]
        return sorted(wrong, key=lambda one: -one.distance / len(one.wanted))[:count]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
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
    found = model.decode([ParsedSource.of(model, source) for source in read], beam=beam)
    predictions = []
    for (source, wanted), (best, *_) in zip(pairs, found, strict=True):
        written = list(best.target)
        predictions.append(Prediction(source, wanted, written, model.distance(written, wanted)))
    return PairScores(predictions, dict(unknown_symbols(model, [source for source, _ in pairs])))


def describe_prediction(model: "Transducer", one: Prediction) -> str:
    """A prediction in a line: source, wanted, written."""
    form = model.text
    source = ("" if form is not None and form.source == "chars" else " ").join(one.source)
    return f"{source}\t{target_text(model, one.wanted)}\t{target_text(model, one.written)}"


def different_labels(a: Sequence[str], b: Sequence[str]) -> int:
    """How many places differ; where one is longer, the rest of it."""
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


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
