"""A tagger: writes while it reads, a label for every symbol or an answer at blanks."""

from collections.abc import Sequence

import torch
from torch import nn

from pushpop.errors import InputError
from pushpop.models.config import TransducerConfig, check_tagger
from pushpop.models.decoding import Hypothesis, Search, log_probabilities
from pushpop.models.language_model import LanguageModel
from pushpop.models.text import ParsedSource, target_text
from pushpop.models.transducer import Transducer
from pushpop.tasks import Batch, Pairs, Vocabulary, make_tag_batch


class Tagger(Transducer):
    """A transducer whose target is written at the time steps at which the source is read.

    It has the tables and the body of a transducer, and neither start, separator nor end symbol:
    step t reads source symbol t, and its logits are those of label t. Nothing that was written is
    fed back. If the vocabulary has a blank, only what is written at blanks counts: the source is
    followed by as many blanks as symbols are wanted.
    """

    form = "tagger"

    @classmethod
    def _check(cls, config: TransducerConfig, vocabulary: Vocabulary) -> None:
        check_tagger(config)

    @staticmethod
    def output_size(vocabulary: Vocabulary) -> int:
        """Rows of the output table: the target symbols alone, so a label's id is its number."""
        return len(vocabulary.target)

    def make_batch(self, pairs: Pairs) -> Batch:
        return make_tag_batch(pairs, self.vocabulary)

    def source_for(self, source: Sequence[str], answers: int) -> Sequence[str]:
        """The source, followed by the blanks at which so many answers are written, unless it has
        blanks or the model needs none."""
        blank = self.vocabulary.blank
        if blank is None or blank in source:
            return source
        return (*source, *[blank] * answers)

    def distance(self, written: Sequence[str], wanted: Sequence[str]) -> int:
        """How wrong labels are: places that differ, and those that only one has. A shift by one is
        wrong everywhere."""
        differing = sum(x != y for x, y in zip(written, wanted, strict=False))
        return differing + abs(len(written) - len(wanted))

    def answers_at(self, symbols: Sequence[str]) -> list[bool]:
        """Whether what is written at a source's symbols counts, one by one."""
        blank = self.vocabulary.blank
        return [blank is None or symbol == blank for symbol in symbols]

    def check_answers(self, source: Sequence[str]) -> None:
        """Refuse a source at which nothing is to be written."""
        blank = self.vocabulary.blank
        if not source:
            raise InputError("the source is empty")
        if blank is not None and blank not in source:
            raise InputError(
                f"no blank {blank!r} in {' '.join(source)!r}: expected one at the end for each "
                f"symbol that is wanted, as in '... {blank} {blank}'"
            )

    def _check_search(self, beam: int, nbest: int) -> None:
        """Refuse any search: labels do not depend on each other."""
        for name, number in (("nbest", nbest), ("beam", beam)):
            if number != 1:
                raise InputError(f"{name} is {number}: a tagger has one answer, expected 1")

    def _decode(self, sources: Sequence[ParsedSource], search: Search) -> list[list[Hypothesis]]:
        """The likeliest labels of each source, one hypothesis each."""
        device, start = self.output_table.weight.device, self.vocabulary.source_input_start
        rows = [torch.tensor(source.numbers, dtype=torch.int64) + start for source in sources]
        inputs = nn.utils.rnn.pad_sequence(rows).to(device)
        logits, _ = self(inputs, torch.tensor([len(row) for row in rows]))
        scores, labels = (best.cpu() for best in log_probabilities(logits).max(dim=-1))  # [T, B]
        hypotheses = []
        for row, source in enumerate(sources):
            steps = torch.tensor(self.answers_at(source.symbols)).nonzero().flatten()
            ids = labels[steps, row].tolist()
            symbols = tuple(self.vocabulary.decode_target(ids))
            text = target_text(self, symbols)
            score = float(scores[steps, row].sum())
            hypotheses.append([Hypothesis(tuple(ids), symbols, score, True, symbols, text)])
        return hypotheses


FORMS: dict[str, type[Transducer]] = {cls.form: cls for cls in (Transducer, Tagger, LanguageModel)}
"""The forms of models by the names that saved models and the option `--form` have for them."""
