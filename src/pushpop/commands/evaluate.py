"""`pushpop evaluate`."""

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pushpop.commands.models import (
    Progress,
    checkpoint_option,
    device_option,
    open_model,
    tell_unknown,
)
from pushpop.errors import InputError, counted, naming
from pushpop.files import tell
from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from pushpop.models import LanguageModel, Transducer
    from pushpop.tasks import LengthRange
    from pushpop.training.run import Trained

HARDLY_A_NUMBER = 1e300
"""A perplexity that only broken weights have."""


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
    checkpoint: str = checkpoint_option()
    save: bool = option(
        False, "keep the figures in the run (lengths.json), for pushpop report; lengths one by one"
    )
    columns: str = option(
        "",
        "the columns of the source and the target, as in 1,2 (with features: 1,3,2), or their "
        "names in the first line; of lines, the one to read, as in 1",
    )
    skip_bad: bool = option(False, "leave bad rows out, and count them")
    beam: int = option(1, "how many predictions are pursued at once", least=1)
    worst: int = option(10, "how many of the worst predictions are shown", least=0)
    as_json: bool = option(False, "print the figures as JSON")
    device: str = device_option()

    def execute(self) -> None:
        from pushpop.experiments.runs import check_saveable
        from pushpop.models import LanguageModel
        from pushpop.tasks import parse_lengths
        from pushpop.training.parallel import torch_threads

        ranges = [parse_lengths(part) for part in self.lengths.split(",")]
        if self.save:
            check_saveable(self.model, ranges, self.task or self.checkpoint)
        trained = open_model(self.model, self.device, self.checkpoint, self.task)
        model, is_lm = trained.model, isinstance(trained.model, LanguageModel)
        if self.pairs is None and (is_lm or model.text is not None):
            was, what, name = "was trained on a file", "pairs", "test.tsv"
            if is_lm:
                was, what, name = "a language model", "lines", "test.txt"
            raise InputError(
                f"{self.model}: {was}: expected {what} to test it on, as in pushpop evaluate "
                f"{self.model} {name}"
            )
        if self.pairs is None:
            self._test_lengths(trained, ranges)
            return
        with torch_threads(1):
            if isinstance(model, LanguageModel):
                self._print_perplexity(self.pairs, model, trained.what)
            else:
                self._score_pairs(self.pairs, model, trained.what)

    def _test_lengths(self, trained: "Trained", ranges: "list[LengthRange]") -> None:
        """Print a row for each range of source lengths, of pairs that the task draws."""
        from pushpop.evaluation import STEPS_AT_ONCE, evaluate
        from pushpop.experiments.runs import save_length
        from pushpop.models import Tagger
        from pushpop.models.decoding import NO_NUMBERS
        from pushpop.tasks import get_task

        task = get_task(trained.known_task())
        grains = ["coarse", "fine"]
        if isinstance(trained.model, Tagger):
            grains.insert(0, "accuracy")
        if not self.as_json:
            print(f"{trained.what} on {task.name}, {counted(self.sequences, 'sequence')} a row")
            print(f"  lengths{''.join(f'{name:>10}' for name in grains)}  perplexity")
        for low, high in ranges:
            name = f"{low}-{high}" if low < high else str(low)
            at_once = min(self.sequences, max(1, STEPS_AT_ONCE // (2 * high + 2)))
            passes = -(-self.sequences // at_once)
            progress = Progress(
                passes,
                f"about {counted(passes, 'pass', 'passes')}",
                f"lengths {name}: ",
                "; --sequences asks for fewer",
            )
            with naming(trained.what):
                row = evaluate(
                    trained.model,
                    task,
                    (low, high),
                    self.sequences,
                    seed=self.seed,
                    between=progress,
                )
                if row["perplexity"] >= HARDLY_A_NUMBER:
                    raise InputError(NO_NUMBERS)
            scores = "".join(f"{row[grain]:10.3f}" for grain in grains)
            shown = f"{name:>9}{scores}  {row['perplexity']:10.4g}"
            print(json.dumps(row) if self.as_json else shown, flush=True)
            if self.save:
                save_length(self.model, row)

    def _read(self, kind: Any, path: str, model: "Transducer") -> Any:
        """A file of pairs or of lines, read as the model reads text."""
        from pushpop.models import Tagger
        from pushpop.tasks.pairs_file import PairsOptions
        from pushpop.tasks.pairs_text import TextForm

        form = model.text or TextForm("spaces", "spaces", normalise="none")
        labels = isinstance(model, Tagger) and model.vocabulary.blank is None
        options = PairsOptions.like(form, self.columns or "guess", self.skip_bad, labels)
        file = kind(path, replace(options, alphabet=frozenset(model.vocabulary.target)))
        if file.form.features != form.features:
            wanted = "features" if form.features else "no features"
            raise InputError(
                f"{path}: {file.columns}; expected {wanted}, as the model was trained with; name "
                f"the columns, as in --columns {'1,2,3' if form.features else '1,2'}"
            )
        return file

    def _score_pairs(self, path: str, model: "Transducer", what: str) -> None:
        """Print how right a model is on a file of pairs, and its worst predictions."""
        import numpy as np

        from pushpop.evaluation import examine
        from pushpop.models.text import describe_prediction, score_pairs
        from pushpop.tasks.pairs import encode_pairs
        from pushpop.tasks.pairs_file import PairsFile
        from pushpop.training.view import describe_memory_use

        file = self._read(PairsFile, path, model)
        for text in filter(None, (file.describe_skipped(), file.describe_unused())):
            tell(text)
        with naming(what):
            scores = score_pairs(model, file.pairs, self.beam)
        tell_unknown(Counter(scores.unknown))
        figures = scores.to_dict()
        if self.as_json:
            print(json.dumps(figures))
            return
        print(f"{what} on {path}, {counted(figures['pairs'], 'pair')}{file.header}")
        print(f"accuracy           {figures['accuracy']:7.2%}   targets that are right as a whole")
        print(f"word error rate    {figures['word_error_rate']:7.2%}   those that are not")
        what = "labels that are wrong" if file.options.labels else "edits a symbol of the targets"
        print(f"symbol error rate  {figures['symbol_error_rate']:7.2%}   {what}")
        known = set(model.vocabulary.target)
        pairs = [(prediction.source, prediction.wanted) for prediction in scores.predictions]
        examined = examine(
            model,
            encode_pairs(pairs, model.vocabulary),
            np.array([not prediction.distance for prediction in scores.predictions]),
            np.array([known.issuperset(wanted) for _, wanted in pairs]),
        )
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

        file = self._read(LinesFile, path, model)
        if file.skipped:
            tell(file.describe_skipped())
        with naming(what):
            scores = score(model, encode_lines(file, range(len(file)), model.vocabulary))
        symbols, perplexity = int(scores.symbols.sum()), scores.perplexity
        figures = {"perplexity": perplexity, "bits": log2(perplexity)}
        figures["nats_a_line"] = scores.nll / len(file)
        if self.as_json:
            print(json.dumps({"lines": len(file), "symbols": symbols, **figures}))
            return
        lines, parts = counted(len(file), "line"), counted(symbols, "symbol")
        print(f"{what} on {path}, {lines}, {parts}, ends included")
        names = ("perplexity", "bits a symbol", "nats a line")
        for name, figure in zip(names, figures.values(), strict=True):
            print(f"{name:13} {figure:9.4f}")
