"""What a run trains on and is tested on: pairs drawn from a task, or given in a file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from math import inf, log2
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pushpop.errors import InputError, counted, naming
from pushpop.evaluation import BoolArray, Scores, evaluate, examine, score
from pushpop.models import Tagger, Transducer
from pushpop.tasks import Batch, LengthRange, Pairs, Vocabulary, batch_rng, batches, get_task
from pushpop.tasks.base import select
from pushpop.tasks.batching import BATCH_MAKERS
from pushpop.tasks.lines import LinesData, LinesFile, encode_lines
from pushpop.tasks.pairs import PairsData, check_memory, encode_pairs, hold_out, vocabulary_of
from pushpop.tasks.pairs_file import Pair, PairsFile, PairsOptions, pair_key
from pushpop.tasks.pairs_text import TextForm, is_pairs_file
from pushpop.training.config import TrainConfig

SHORTER = 0.6
"""How long the shorter pairs are at most, as a share of the longest."""
FEWEST, MOST = 30, 300
"""Pairs that are enough to tell a share by, and as many as it takes."""

MOST_HELD_OUT = 10_000
"""Lines that are held out at most: validation takes no longer, however long the file is."""

Contents = Mapping[str, bytes]
"""What the files of the options `task` and `valid` hold, where that is in memory only."""


class Data(ABC):
    """Batches to train on, by number, and tests."""

    vocabulary: Vocabulary
    text: TextForm | None = None
    epoch = 0
    """Batches in an epoch; 0: there are no epochs."""
    shorter_first = 0
    """Batches at the beginning that are of shorter pairs alone."""
    test_every: int
    """Batches from one test to the next."""

    @abstractmethod
    def batches(self, lengths: LengthRange, start: int) -> Iterator[Batch]:
        """Batch `start` and all that follow, without end."""

    @abstractmethod
    def test(
        self, model: Transducer, stream: str, index: int, between: Callable[[], None]
    ) -> dict[str, Any]:
        """What a model gets right, as plain values by name; `between` is called now and then."""

    def examine(self, model: Transducer, between: Callable[[], None]) -> dict[str, Any]:
        """What a report says of the model that is kept, besides a test."""
        return {}

    def probe(
        self, model: Transducer, step: int, between: Callable[[], None]
    ) -> dict[str, Any] | None:
        """What pairs that are not trained on until now tell, if it is time to ask."""
        return None

    def check_lengths(self, lengths: LengthRange) -> None:  # noqa: B027  given pairs have theirs
        """Refuse lengths of which there is nothing."""

    def messages(self) -> list[str]:
        """What the user should know about the data."""
        return []

    def fingerprint(self) -> dict[str, Any]:
        """A fingerprint of the data, as plain values."""
        return {}


class TaskData(Data):
    """Pairs drawn from a task, always new ones."""

    def __init__(self, config: TrainConfig) -> None:
        self.config, self.task = config, get_task(config.task)
        self.vocabulary = self.task.vocabulary
        self.trained_on = self.task.with_uniform_lengths() if config.uniform_lengths else self.task
        self.test_every = config.evaluate_every

    def batches(self, lengths: LengthRange, start: int) -> Iterator[Batch]:
        return batches(
            self.trained_on,
            seed=self.config.seed,
            stream="train",
            batch_size=self.config.batch_size,
            lengths=lengths,
            start=start,
            make=BATCH_MAKERS[self.config.form],
        )

    def test(
        self, model: Transducer, stream: str, index: int, between: Callable[[], None]
    ) -> dict[str, Any]:
        """Accuracy at the training and at the test lengths, on draws of their own."""
        ranges = {"train": self.config.training_range, "test": self.config.testing_range}
        return {
            name: evaluate(
                model,
                self.task,
                lengths,
                self.config.evaluate_sequences,
                seed=self.config.seed,
                stream=f"{stream}-{name}",
                index=index,
                between=between,
            )
            for name, lengths in ranges.items()
        }

    def check_lengths(self, lengths: LengthRange) -> None:
        """Draw a pair and make a batch of it."""
        pairs = self.task.sample(batch_rng(self.config.seed, "check", 0), 1, lengths)
        BATCH_MAKERS[self.config.form](pairs, self.vocabulary)


class FileData(Data):
    """The examples of a file, and others to validate on: of another file, or held out."""

    what: ClassVar[str]
    most_held_out: ClassVar[float] = inf
    open: ClassVar[Callable[..., Any]]  # the type of the files
    examples: PairsData | LinesData
    validation: Pairs

    def __init__(self, config: TrainConfig, contents: Contents | None = None) -> None:
        self.config, self._contents = config, contents or {}
        options = PairsOptions(
            config.columns,
            config.source_symbols,
            config.target_symbols,
            config.normalise,
            config.skip_bad,
            labels=config.form == "tagger",
        )
        self.files: list[Any] = []
        self.file = self.held_file = self._read("task", options)
        self.text = self.file.form
        self.rows: Sequence[int] = range(len(self.file))
        if config.valid:
            self.held_file = self._read("valid", self.file.like())
            self.held_rows: Sequence[int] = range(len(self.held_file))
        else:
            share = min(config.hold_out, self.most_held_out / len(self.file))
            with naming(config.task):
                self.rows, self.held_rows = hold_out(self.rows, share, config.seed, self.what)

    def _read(self, name: str, options: PairsOptions) -> Any:
        file = type(self).open(getattr(self.config, name), options, self._contents.get(name))
        self.files.append(file)
        return file

    def batches(self, lengths: LengthRange, start: int) -> Iterator[Batch]:
        for index in count(start):
            yield self.examples.batch(self.config.seed, index)

    def messages(self) -> list[str]:
        messages = [file.describe() for file in self.files]
        messages += [text for file in self.files if (text := file.describe_skipped())]
        if not self.config.valid:
            held, trained = len(self.validation), len(self.examples)
            messages.append(
                f"no --valid given: {counted(held, self.what)} {'is' if held == 1 else 'are'} held "
                f"out to validate on, {trained:,} are trained on"
            )
        return messages

    def fingerprint(self) -> dict[str, Any]:
        return {str(file.path): file.digest for file in self.files}


class Tested(NamedTuple):
    """Pairs to test on, and of which of them the model knows all target symbols."""

    pairs: Pairs
    spellable: BoolArray

    def score(
        self, model: Transducer, between: Callable[[], None]
    ) -> tuple[Scores, BoolArray, dict[str, Any]]:
        """How a model does, which targets it has right (spellable ones alone), and figures."""
        scores = score(model, self.pairs, between=between)
        right = (scores.correct == scores.symbols) & self.spellable
        return scores, right, {"pairs": len(right), "accuracy": float(np.mean(right))}


class PairsFileData(FileData):
    """The pairs of a file, and pairs to validate on."""

    what, open = "pair", PairsFile
    examples: PairsData
    shorter: PairsData  # used in the first batches only

    def __init__(self, config: TrainConfig, contents: Contents | None = None) -> None:
        super().__init__(config, contents)
        pairs = [self.file.pairs[row] for row in self.rows]
        held = [self.held_file.pairs[row] for row in self.held_rows]
        self.vocabulary = vocabulary_of(pairs)
        self.examples = PairsData(pairs, self.vocabulary, config.batch_size, config.form)
        floats = 12 * (config.hidden + config.embedding)  # kept of a step, measured
        with naming(config.task):
            check_memory(self.examples.pairs, config.batch_size, floats, attention=config.attention)
        self.epoch = self.test_every = self.examples.batches_per_epoch
        self.tested = self._tested(held)
        self.validation = self.tested.pairs
        trained = {pair_key(pair) for pair in pairs}
        self.seen = sum(pair_key(pair) in trained for pair in held)
        self.longer: Tested | None = None
        if config.valid_longer:
            self.longer = self._tested(self._read("valid_longer", self.file.like()).pairs)
        self._set_longer_aside(pairs)

    def _tested(self, pairs: Sequence[Pair]) -> Tested:
        known = set(self.vocabulary.target)
        spellable = np.array([known.issuperset(target) for _, target in pairs])
        return Tested(encode_pairs(pairs, self.vocabulary), spellable)

    def test(
        self, model: Transducer, stream: str, index: int, between: Callable[[], None]
    ) -> dict[str, Any]:
        """Accuracy on the validation pairs, the same ones at every test.

        It is what greedy decoding gets right (see `evaluation`). A target with a symbol that was
        not there in training counts as wrong.
        """
        scores, _, figures = self.tested.score(model, between)
        if isinstance(model, Tagger):
            figures["symbols"] = scores.accuracy
        return {"valid": {**figures, "fine": scores.fine, "perplexity": scores.perplexity}}

    def _set_longer_aside(self, pairs: Sequence[Pair]) -> None:
        """Part the training pairs by their source length, if the first batches are of short ones.

        The longest are a hundredth, so that one long pair among short ones does not count.
        """
        if not self.config.shorter_first:
            return
        lengths = self.examples.pairs.source_lengths
        top = int(np.quantile(lengths, 0.99))
        self.trained_to = min(top - 1, int(max(SHORTER * top, np.quantile(lengths, 0.4))))
        near = np.flatnonzero(self.validation.source_lengths <= self.trained_to)
        left_out = np.flatnonzero(lengths > self.trained_to)[:MOST]
        if min(len(near), len(left_out)) < FEWEST:
            return
        self.shorter_first = self.config.shorter_first
        chosen = [pairs[row] for row in np.flatnonzero(lengths <= self.trained_to).tolist()]
        self.shorter = PairsData(chosen, self.vocabulary, self.config.batch_size, self.config.form)
        self.near = select(self.validation, near)
        self.unseen = select(self.examples.pairs, left_out)

    def batches(self, lengths: LengthRange, start: int) -> Iterator[Batch]:
        """Epoch after epoch; the first batches are of the shorter pairs, if they are to be."""
        for index in count(start):
            examples = self.shorter if index < self.shorter_first else self.examples
            yield examples.batch(self.config.seed, index)

    def probe(
        self, model: Transducer, step: int, between: Callable[[], None]
    ) -> dict[str, Any] | None:
        """Accuracy on shorter and on longer pairs, at the end of the training on shorter ones."""
        if not step or step != self.shorter_first:
            return None
        carried = {
            "batches": step,
            "trained_to": self.trained_to,
            "lengths": _ends(self.unseen),
            "pairs": len(self.unseen),
            "shorter": score(model, self.near, between=between).coarse,
            "longer": score(model, self.unseen, between=between).coarse,
        }
        if self.config.skip_attention:
            alone = score(model, self.near, between=between, attend=False)
            carried["without_attention"] = alone.coarse
        return carried

    def examine(self, model: Transducer, between: Callable[[], None]) -> dict[str, Any]:
        """Accuracy on the validation pairs by source length, on longer ones, and without what the
        memory reads."""
        _, right, _ = self.tested.score(model, between)
        said = {
            "trained_lengths": _ends(self.examples.pairs),
            **examine(model, self.validation, right, self.tested.spellable, between),
        }
        if self.longer is not None:
            _, _, figures = self.longer.score(model, between)
            said["longer"] = {"lengths": _ends(self.longer.pairs), **figures}
        return said

    def messages(self) -> list[str]:
        return super().messages() + [f"warning: {text}" for text in self._warnings() if text]

    def _warnings(self) -> Iterator[str]:
        """What is probably not as it was meant."""
        yield self.file.describe_unused()  # the others are read like it
        yield from (file.describe_repeated() for file in self.files)
        yield from self.file.describe_one_off()
        if self.seen:
            share = self.seen / len(self.validation)
            doubt = f"is {share:.1%} too high at most"
            if share > 0.1:
                doubt = "says little about new ones"
            yield (
                f"{self.seen:,} of the {len(self.validation):,} validation pairs are also training "
                f"pairs: validation accuracy {doubt}"
            )


def _ends(pairs: Pairs) -> list[int]:
    return [int(pairs.source_lengths.min()), int(pairs.source_lengths.max())]


class LinesFileData(FileData):
    """The lines of a file, and lines to validate on."""

    what, open = "line", LinesFile
    most_held_out = MOST_HELD_OUT

    def __init__(self, config: TrainConfig, contents: Contents | None = None) -> None:
        super().__init__(config, contents)
        self.vocabulary = Vocabulary((), tuple(sorted(self.file.alphabet)))
        self.examples = LinesData(self.file, self.rows, self.vocabulary, config.batch_size)
        self.epoch = self.test_every = self.examples.batches_per_epoch
        self.validation = encode_lines(self.held_file, self.held_rows, self.vocabulary)

    def test(
        self, model: Transducer, stream: str, index: int, between: Callable[[], None]
    ) -> dict[str, Any]:
        """Perplexity on the validation lines, the same ones at every test, and bits a symbol."""
        perplexity = score(model, self.validation, between=between).perplexity
        figures = {"perplexity": perplexity, "bits": log2(perplexity)}
        return {"valid": {"lines": len(self.validation), **figures}}


def make_data(config: TrainConfig, contents: Contents | None = None) -> Data:
    """The data that a config describes."""
    if config.form == "lm":
        if not is_pairs_file(config.task):
            raise InputError(f"form is 'lm' with task {config.task!r}: expected a file of lines")
        return LinesFileData(config, contents)
    if is_pairs_file(config.task):
        return PairsFileData(config, contents)
    return TaskData(config)
