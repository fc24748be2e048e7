"""`pushpop evaluate`."""

import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pushpop.devices import find_device, read_device
from pushpop.errors import InputError, counted
from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from pushpop.models import LanguageModel, Transducer
    from pushpop.models.text import PairScores


SECONDS = 10
"""How often progress is told."""
HARDLY_A_NUMBER = 1e300
"""A perplexity that only broken weights have."""


class Progress:
    """Tells on stderr how far a long row of the table is."""

    def __init__(self, lengths: str, sequences: int, longest: int) -> None:
        from pushpop.evaluation import STEPS_AT_ONCE

        rows = min(sequences, max(1, STEPS_AT_ONCE // (2 * longest + 2)))  # of a pass
        self.lengths, self.passes, self.done = lengths, -(-sequences // rows), 0
        self.began = self.told = time.monotonic()

    def __call__(self) -> None:
        """Note that a pass is done."""
        self.done += 1
        now = time.monotonic()
        if now - self.told > SECONDS:
            self.told = now
            left = (now - self.began) / self.done * max(0, self.passes - self.done)
            print(
                f"pushpop: lengths {self.lengths}: {self.done} of about {self.passes:,} passes, "
                f"about {left:,.0f} s left; --sequences asks for fewer",
                file=sys.stderr,
            )


@dataclass(frozen=True)
class Evaluate(Command):
    """Print coarse and fine accuracy of a trained model, or how right it is on a file.

    Examples:
        pushpop evaluate reverse-stack --lengths 64,128,256,512
        pushpop evaluate runs/pairs-deque-seed0 test.tsv --worst 20
        pushpop evaluate runs/lines-deque-seed0 test.txt
    """

    model: str = argument(
        "a run directory (if the run is not finished, its latest checkpoint), a saved model, "
        "or the name of a model that comes with pushpop"
    )
    pairs: str | None = argument(
        "a file of pairs, as in test.tsv, or of lines, as in test.txt, for a model that was "
        "trained on such a file; the options from --columns on are about it",
        count="?",
    )
    lengths: str = option(
        "65-128",
        "shortest and longest source, as in 65-128, or lengths one by one, as in 64,128,256",
    )
    sequences: int = option(1000, "how many pairs are drawn for each", least=1)
    seed: int = option(0, "the same seed gives the same pairs")
    task: str = option(
        "", "the task to draw from; by default the one that the model was trained on"
    )
    checkpoint: str = option("", "a checkpoint of the run: best, latest, or after how many batches")
    save: bool = option(
        False, "keep the figures in the run (lengths.json), for pushpop report; lengths one by one"
    )
    columns: str = option(
        "",
        "the columns of the source and the target, as in 1,2 (with features: 1,3,2), or their "
        "names in the first line; of lines, the one to read, as in 1",
    )
    skip_bad: bool = option(False, "leave bad rows out, and count them")
    beam: int = option(1, "how many predictions are pursued at once")
    worst: int = option(10, "how many of the worst predictions are shown", least=0)
    as_json: bool = option(False, "print the figures as JSON")
    device: str = option(
        "cpu", "where it runs: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu"
    )

    def execute(self) -> None:
        read_device("device", self.device)
        from pushpop.evaluation import evaluate as accuracy
        from pushpop.experiments.runs import check_saveable, save_length
        from pushpop.models import LanguageModel, Tagger
        from pushpop.models.decoding import NO_NUMBERS
        from pushpop.models.saving import find_model
        from pushpop.tasks import get_task, parse_lengths
        from pushpop.training.run import load_trained

        ranges = [parse_lengths(part) for part in self.lengths.split(",")]
        if self.save:
            check_saveable(self.model, ranges, self.task or self.checkpoint)
        trained = load_trained(
            find_model(self.model), self.task or None, checkpoint=self.checkpoint
        )
        trained.model.to(find_device(self.device))
        if isinstance(trained.model, LanguageModel):
            if self.pairs is None:
                raise InputError(
                    f"{self.model}: a language model: expected lines to test it on, as in pushpop "
                    f"evaluate {self.model} test.txt"
                )
            self._print_perplexity(self.pairs, trained.model, trained.what)
            return
        if self.pairs is not None:
            self._score_pairs(self.pairs, trained.model, trained.what)
            return
        if trained.model.text is not None:
            raise InputError(
                f"{self.model}: was trained on a file: expected pairs to test it on, as in pushpop "
                f"evaluate {self.model} test.tsv"
            )
        drawn, tags = get_task(trained.known_task()), isinstance(trained.model, Tagger)
        print(f"{trained.what} on {drawn.name}, {self.sequences} sequences a row")
        grains = [name for name in ("accuracy", "coarse", "fine") if name != "accuracy" or tags]
        print(f"  lengths{''.join(f'{name:>10}' for name in grains)}  perplexity")
        for low, high in ranges:
            name = f"{low}-{high}" if low < high else str(low)
            row = accuracy(
                trained.model,
                drawn,
                (low, high),
                self.sequences,
                seed=self.seed,
                between=Progress(name, self.sequences, high),
            )
            if row["perplexity"] >= HARDLY_A_NUMBER:
                raise InputError(f"{trained.what}: {NO_NUMBERS}")
            scores = "".join(f"{row[grain]:10.3f}" for grain in grains)
            print(f"{name:>9}{scores}  {row['perplexity']:10.4g}", flush=True)
            if self.save:
                save_length(self.model, row)

    def _score_pairs(self, path: str, model: "Transducer", what: str) -> None:
        """Print how right a model is on a file of pairs, and its worst predictions."""
        from pushpop.models import Tagger
        from pushpop.models.text import describe_prediction, describe_unknown, score_pairs
        from pushpop.tasks.pairs_file import PairsOptions, read_pairs
        from pushpop.tasks.pairs_text import TextForm
        from pushpop.training.parallel import torch_threads
        from pushpop.training.view import describe_memory_use

        form = model.text or TextForm("spaces", "spaces", normalise="none")
        labels = isinstance(model, Tagger) and model.vocabulary.blank is None
        file = read_pairs(path, PairsOptions.like(form, self.columns, self.skip_bad, labels))
        if file.form != form:
            kind = "features" if form.features else "no features"
            raise InputError(
                f"{path}: {file.columns}; expected {kind}, as the model was trained with; name the "
                f"columns, as in --columns {'1,2,3' if form.features else '1,2'}"
            )
        for text in filter(None, (file.describe_skipped(), file.describe_unused())):
            print("pushpop:", text, file=sys.stderr)
        with torch_threads(1):
            scores = score_pairs(model, file.pairs, self.beam)
        if scores.unknown:
            from collections import Counter

            print("pushpop:", describe_unknown(Counter(scores.unknown)), file=sys.stderr)
        if self.as_json:
            print(json.dumps(scores.to_dict()))
            return
        figures = scores.to_dict()
        print(f"{what} on {path}, {counted(figures['pairs'], 'pair')}{file.header}")
        print(f"accuracy           {figures['accuracy']:7.2%}   targets that are right as a whole")
        print(f"word error rate    {figures['word_error_rate']:7.2%}   those that are not")
        what = "labels that are wrong" if labels else "edits a symbol of the targets"
        print(f"symbol error rate  {figures['symbol_error_rate']:7.2%}   {what}")
        with torch_threads(1):
            examined = _examine(model, scores)
        for line in describe_memory_use(examined, scores.accuracy):
            print(line)
        shown = scores.worst(self.worst)
        if shown:
            print("\nworst: source, target, prediction")
            for prediction in shown:
                print(describe_prediction(model, prediction))

    def _print_perplexity(self, path: str, model: "LanguageModel", what: str) -> None:
        """Print how likely the lines of a file are."""
        from math import log2

        from pushpop.evaluation import score
        from pushpop.tasks.lines import LinesFile, encode_lines
        from pushpop.tasks.pairs_text import TextForm, parse_column
        from pushpop.training.parallel import torch_threads

        form = model.text or TextForm("spaces", "spaces", normalise="none")
        column = parse_column(self.columns) if self.columns else None
        file = LinesFile(path, column, form.target, form.normalise, self.skip_bad)
        rows = file.known_rows(model.vocabulary)
        if file.skipped:
            print("pushpop:", file.describe_skipped(), file=sys.stderr)
        with torch_threads(1):
            scores = score(model, encode_lines(file, rows, model.vocabulary))
        symbols = int(scores.symbols.sum())
        figures = {
            "perplexity": scores.perplexity,
            "bits": log2(scores.perplexity),
            "nats_a_line": scores.nll / len(rows),
        }
        if self.as_json:
            print(json.dumps({"lines": len(rows), "symbols": symbols, **figures}))
            return
        print(f"{what} on {path}, {len(rows):,} lines, {symbols:,} symbols, ends included")
        for name, figure in figures.items():
            print(f"{name.replace('_', ' '):12} {figure:9.4f}")


def _examine(model: "Transducer", scores: "PairScores") -> dict[str, Any]:
    """How right predictions are by source length, and what the model has right without its memory,
    in one teacher-forced pass."""
    import numpy as np

    from pushpop.evaluation import accuracy_by_length, score, without_reads
    from pushpop.tasks.pairs import encode_pairs

    lengths = np.array([len(prediction.source) for prediction in scores.predictions])
    right = np.array([not prediction.distance for prediction in scores.predictions])
    figures: dict[str, Any] = {"by_length": accuracy_by_length(lengths, right)}
    blind = without_reads(model)
    if blind is not None and model.vocabulary.blank is None:
        pairs = [(prediction.source, prediction.wanted) for prediction in scores.predictions]
        alone = score(blind, encode_pairs(pairs, model.vocabulary))
        known = set(model.vocabulary.target)
        spelt = np.array([known.issuperset(wanted) for _, wanted in pairs])
        figures["without_memory"] = float(np.mean((alone.correct == alone.symbols) & spelt))
    return figures
