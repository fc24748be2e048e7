"""What a run trains on and is tested on: pairs drawn from a task, or given in a file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from math import log2
from typing import Any

import numpy as np

from pushpop.errors import InputError, counted, naming
from pushpop.evaluation import BoolArray, Scores, evaluate, examine, score
from pushpop.models import Tagger, Transducer
from pushpop.tasks import Batch, LengthRange, Pairs, Vocabulary, batch_rng, batches, get_task
from pushpop.tasks.base import IntArray
from pushpop.tasks.batching import BATCH_MAKERS
from pushpop.tasks.lines import LinesData, LinesFile, encode_lines
from pushpop.tasks.pairs import PairsData, check_memory, encode_pairs, hold_out, vocabulary_of
from pushpop.tasks.pairs_file import PairsFile, PairsOptions, pair_key, read_pairs
from pushpop.tasks.pairs_text import TextForm, is_pairs_file, parse_column
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
        """Batches of the training stream."""
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

    what = "pair"
    config: TrainConfig
    files: Sequence[PairsFile | LinesFile]
    examples: PairsData | LinesData
    validation: Pairs

    def batches(self, lengths: LengthRange, start: int) -> Iterator[Batch]:
        """Epoch after epoch; lengths do not matter."""
        for index in count(start):
            yield self.examples.batch(self.config.seed, index)

    def messages(self) -> list[str]:
        """How the files were read, and what is held out."""
        messages = [file.describe() for file in self.files]
        messages += [text for file in self.files if (text := file.describe_skipped())]
        if not self.config.valid:
            held, trained = len(self.validation), len(self.examples)
            messages.append(
                f"no --valid given: {counted(held, self.what)} {'is' if held == 1 else 'are'} held "
                "out to validate on, "
                f"{trained:,} are trained on"
            )
        return messages

    def fingerprint(self) -> dict[str, Any]:
        """The digests of the files."""
        return {str(file.path): file.digest for file in self.files}


class PairsFileData(FileData):
    """The pairs of a file, and pairs to validate on: of another file, or held out."""

    examples: PairsData
    shorter: PairsData  # used in the first batches only

    def __init__(self, config: TrainConfig, contents: Contents | None = None) -> None:
        self.config, contents = config, contents or {}
        options = PairsOptions(
            "" if config.columns == "guess" else config.columns,
            "" if config.source_symbols == "guess" else config.source_symbols,
            "" if config.target_symbols == "guess" else config.target_symbols,
            config.normalise,
            config.skip_bad,
            labels=config.form == "tagger",
        )
        self.files: list[PairsFile] = [read_pairs(config.task, options, contents.get("task"))]
        (read,) = self.files
        pairs, self.text = read.pairs, read.form
        columns = options.columns or ",".join(str(k + 1) for k in read.columns.numbers)
        like = PairsOptions.like(read.form, columns, config.skip_bad, options.labels)
        if config.valid:
            valid = read_pairs(config.valid, like, contents.get("valid"))
            self.files.append(valid)
            held = valid.pairs
        else:
            try:
                pairs, held = hold_out(pairs, config.hold_out, config.seed)
            except InputError as error:
                raise InputError(f"{config.task}: {error}; or give --valid FILE") from None
        self.vocabulary = vocabulary_of(pairs)
        self.examples = PairsData(pairs, self.vocabulary, config.batch_size, config.form)
        floats = 12 * (config.hidden + config.embedding)  # kept of a step, measured
        with naming(config.task):
            check_memory(self.examples.pairs, config.batch_size, floats, attention=config.attention)
        self.epoch = self.test_every = self.examples.batches_per_epoch
        self.validation = encode_pairs(held, self.vocabulary)
        trained = {pair_key(pair) for pair in pairs}
        self.seen = sum(pair_key(pair) in trained for pair in held)
        known = set(self.vocabulary.target)
        self.in_vocabulary = np.array([known.issuperset(target) for _, target in held])
        self.longer: Pairs | None = None
        if config.valid_longer:
            longer = read_pairs(config.valid_longer, like, contents.get("valid_longer"))
            self.files.append(longer)
            self.longer = encode_pairs(longer.pairs, self.vocabulary)
            spellable = [known.issuperset(target) for _, target in longer.pairs]
            self.longer_in_vocabulary = np.array(spellable)
        self._set_longer_aside(pairs)
        self.lengths = sorted({len(source) for source, _ in pairs})

    def test(
        self, model: Transducer, stream: str, index: int, between: Callable[[], None]
    ) -> dict[str, Any]:
        """Accuracy on the validation pairs, the same ones at every test.

        It is what greedy decoding gets right (see `evaluation`). A target with a symbol that was
        not there in training counts as wrong.
        """
        scores, right = self._score(model, self.validation, self.in_vocabulary, between)
        valid = {
            "pairs": len(self.validation),
            "accuracy": float(np.mean(right)),
            **({"symbols": scores.accuracy} if isinstance(model, Tagger) else {}),
            "fine": scores.fine,
            "perplexity": scores.perplexity,
        }
        return {"valid": valid}

    def _set_longer_aside(self, pairs: Sequence[Any]) -> None:
        """Part the training pairs by their source length, if the first batches are of short ones.

        The longest are a hundredth, so that one long pair among short ones does not count.
        """
        if not self.config.shorter_first:
            return
        lengths = self.examples.pairs.source_lengths
        top = int(np.quantile(lengths, 0.99))
        self.trained_to = min(top - 1, int(max(SHORTER * top, np.quantile(lengths, 0.4))))
        is_short = self.validation.source_lengths <= self.trained_to
        left_out = np.flatnonzero(lengths > self.trained_to)[:MOST]
        if min(int(is_short.sum()), len(left_out)) < FEWEST:
            return
        self.shorter_first = self.config.shorter_first
        chosen = [
            pair for pair, length in zip(pairs, lengths, strict=True) if length <= self.trained_to
        ]
        self.shorter = PairsData(chosen, self.vocabulary, self.config.batch_size, self.config.form)
        rows = list(self.validation)
        self.near = Pairs.of([_plain(rows[row]) for row in np.flatnonzero(is_short)])
        rows = list(self.examples.pairs)
        self.unseen = Pairs.of([_plain(rows[row]) for row in left_out])

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
        lengths = self.unseen.source_lengths
        carried = {
            "batches": step,
            "trained_to": self.trained_to,
            "lengths": [int(lengths.min()), int(lengths.max())],
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
        _, right = self._score(model, self.validation, self.in_vocabulary, between)
        said = {
            "trained_lengths": [self.lengths[0], self.lengths[-1]],
            **examine(model, self.validation, right, self.in_vocabulary, between),
        }
        if self.longer is not None:
            lengths = self.longer.source_lengths
            _, right = self._score(model, self.longer, self.longer_in_vocabulary, between)
            said["longer"] = {
                "lengths": [int(lengths.min()), int(lengths.max())],
                "pairs": len(right),
                "accuracy": float(np.mean(right)),
            }
        return said

    def _score(
        self, model: Transducer, pairs: Pairs, spellable: BoolArray, between: Callable[[], None]
    ) -> tuple[Scores, BoolArray]:
        """What a model does on pairs, and which targets it has right: `spellable` ones alone."""
        scores = score(model, pairs, between=between)
        return scores, (scores.correct == scores.symbols) & spellable

    def messages(self) -> list[str]:
        """How the files were read, what is held out, and warnings."""
        return super().messages() + [f"warning: {text}" for text in self._warnings()]

    def _warnings(self) -> list[str]:
        """What is probably not as it was meant."""
        warnings = [
            file.describe_unused() for file in self.files[:1]
        ]  # the others are read like it
        warnings += [file.describe_repeated() for file in self.files]
        warnings += self.files[0].describe_one_off()
        if self.seen:
            share = self.seen / len(self.validation)
            doubt = f"is {share:.1%} too high at most"
            if share > 0.1:
                doubt = "says little about new ones"
            warnings.append(
                f"{self.seen:,} of the {len(self.validation):,} validation pairs are also training "
                f"pairs: validation accuracy {doubt}"
            )
        return [text for text in warnings if text]


def _plain(pair: tuple[IntArray, IntArray]) -> tuple[list[int], list[int]]:
    return pair[0].tolist(), pair[1].tolist()


class LinesFileData(FileData):
    """The lines of a file, and lines to validate on: of another file, or held out."""

    what = "line"

    def __init__(self, config: TrainConfig, contents: Contents | None = None) -> None:
        self.config, contents = config, contents or {}
        column = None if config.columns == "guess" else parse_column(config.columns)
        symbols = "" if config.target_symbols == "guess" else config.target_symbols
        rest = config.normalise, config.skip_bad
        file = LinesFile(config.task, column, symbols, *rest, contents.get("task"))
        self.files, self.text = [file], file.form
        self.vocabulary = Vocabulary((), tuple(sorted(file.alphabet)))
        rows, held, held_file = list(range(len(file))), list(range(len(file))), file
        if config.valid:
            held_file = LinesFile(
                config.valid, column, file.form.target, *rest, contents.get("valid")
            )
            self.files.append(held_file)
            held = held_file.known_rows(self.vocabulary)
        else:
            if len(file) < 2:
                raise InputError(
                    f"{config.task}: 1 line: expected at least 2, one to train on and one to "
                    "validate on; or give --valid FILE"
                )
            share = min(config.hold_out, MOST_HELD_OUT / len(file))
            rows, held = hold_out(rows, share, config.seed)
        self.examples = LinesData(file, rows, self.vocabulary, config.batch_size)
        self.epoch = self.test_every = self.examples.batches_per_epoch
        self.validation = encode_lines(held_file, held, self.vocabulary)

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
