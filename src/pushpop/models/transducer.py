"""A transducer: reads `SOS source SEP`, writes `target EOS`, one symbol at a time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self, cast, overload

import torch
from torch import Tensor, nn

from pushpop.layers import NoiseLevels
from pushpop.models import decoding, saving, text
from pushpop.models.body import BodyState, RowLengths, SourceReader, make_body
from pushpop.models.config import OUTPUT_SCALE, TransducerConfig
from pushpop.models.decoding import Hypothesis, Search, evaluating
from pushpop.models.text import ParsedSource, Source
from pushpop.tasks import Batch, Pairs, Vocabulary, make_batch
from pushpop.tasks.pairs_text import TextForm


class Likelihood(NamedTuple):
    """The summed negative log likelihood of some symbols, and how many they are."""

    nll: Tensor  # []
    symbols: int


class Transducer(nn.Module):
    """An input table, a recurrent body and an output table.

    At each step the body turns the embedding of the symbol read into a vector o of the same width,
    and the logits are the products of o with the rows of the output table; there is no bias.

    Args:
        config: what the body is.
        vocabulary: which ids the tables have.
        metadata: saved with the model and otherwise left alone.
        text: how strings become symbols; `None`: they stand between spaces.
        input_scale: the input table starts normal with this standard deviation.
        output_scale: the output table starts uniform on plus or minus this. The body starts as
            `MemoryRNN` and `DeepLSTM` do.
    """

    form: ClassVar[str] = "transducer"
    """What the folder of a saved model, and the option of training, say that it is."""

    def __init__(
        self,
        config: TransducerConfig,
        vocabulary: Vocabulary,
        metadata: dict[str, Any] | None = None,
        text: TextForm | None = None,
        *,
        input_scale: float = 1.0,
        output_scale: float = OUTPUT_SCALE,
    ) -> None:
        self._check(config, vocabulary)
        super().__init__()
        self.config, self.vocabulary, self.text = config, vocabulary, text
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.input_table = _table(vocabulary.input_size, config.embedding)
        self.output_table = _table(self.output_size(vocabulary), config.embedding)
        self.body = make_body(config)
        reads_whole = config.encoder != "none" or config.attention
        self.source = SourceReader(config) if reads_whole else None
        # Drawn last and scaled afterwards, so that a seed keeps giving the same weights.
        nn.init.uniform_(self.output_table.weight, -OUTPUT_SCALE, OUTPUT_SCALE)
        _scale(self.input_table.weight, input_scale)
        _scale(self.output_table.weight, output_scale / OUTPUT_SCALE)

    @classmethod
    def _check(cls, config: TransducerConfig, vocabulary: Vocabulary) -> None:
        """Refuse what a model of this form cannot have."""

    def forward(
        self, inputs: Tensor, lengths: RowLengths = None, state: BodyState | None = None
    ) -> tuple[Tensor, BodyState]:
        """Input ids [T, B] -> logits [T, B, C] over the output ids, and the state after each row.

        With `lengths` [B], steps from lengths[b] on are padding of row b: they change nothing, and
        the logits there mean nothing.
        """
        o, state = self.run(inputs, lengths, state)
        return self.logits(o), state

    def run(
        self,
        inputs: Tensor,
        lengths: RowLengths = None,
        state: BodyState | None = None,
        noise: NoiseLevels | None = None,
        attend: bool = True,
    ) -> tuple[Tensor, BodyState]:
        """As `forward`, but the output vectors o [T, B, E] in place of logits; with `noise` on the
        gates of the memories and their controllers, and without attention unless it is to
        `attend`."""
        if inputs.dim() != 2 or inputs.is_floating_point():
            raise ValueError(f"inputs must be ids [T, B]; got {inputs.dtype} {list(inputs.shape)}")
        x = self._dropped(self.input_table(inputs))
        after: BodyState
        if self.source is None:
            o, after = self.body(x, state, lengths, noise)
        else:
            at_sep = inputs == self.vocabulary.SEP
            o, after = self.source.run(self.body, x, at_sep, lengths, state, noise, attend)
        return self._dropped(o), after

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, BodyState]:
        """Input ids [B] -> logits [B, C] and the state."""
        x = self._dropped(self.input_table(inputs))
        after: BodyState
        if self.source is None:
            o, after = self.body.step(x, state)
        else:
            o, after = self.source.step(self.body, x, state)
        return self.logits(self._dropped(o)), after

    def reading(self, inputs: Tensor) -> Iterator[tuple[Tensor, BodyState]]:
        """Logits [B, C] and the state at each step of sources [S, B], from SOS to SEP, of one
        length. What comes after them is for `step`; the last logits are of the first target symbol.
        """
        if self.source is None:
            state: BodyState | None = None
            for ids in inputs:
                logits, state = self.step(ids, state)
                yield logits, state
            return
        for o, after in self.source.reading(self.body, self._dropped(self.input_table(inputs))):
            yield self.logits(self._dropped(o)), after

    def _dropped(self, x: Tensor) -> Tensor:
        share = self.config.dropout
        return nn.functional.dropout(x, share) if self.training and share else x

    def source_for(self, source: Sequence[str], answers: int) -> Sequence[str]:
        """What is read to write a target of so many symbols."""
        return source

    def distance(self, written: Sequence[str], wanted: Sequence[str]) -> int:
        """How wrong a target is: edits from one to the other."""
        return text.edit_distance(written, wanted)

    @staticmethod
    def output_size(vocabulary: Vocabulary) -> int:
        return vocabulary.output_size

    def make_batch(self, pairs: Pairs) -> Batch:
        """Pairs as this model reads and writes them."""
        return make_batch(pairs, self.vocabulary)

    def logits(self, o: Tensor) -> Tensor:
        """Output vectors [..., E] -> logits [..., C]."""
        return o @ self.output_table.weight.T

    def scored_logits(
        self, batch: Batch, noise: NoiseLevels | None = None, attend: bool = True
    ) -> Tensor:
        """The logits [N, C] where something is scored, in the order of `batch.outputs[mask]`."""
        o, _ = self.run(batch.inputs, batch.lengths, noise=noise, attend=attend)
        return self.logits(o[batch.mask])

    def likelihood(
        self, batch: Batch, noise: NoiseLevels | None = None, attend: bool = True
    ) -> Likelihood:
        """The negative log likelihood of all target symbols and EOS, summed, and their number.

        Sums over parts of a batch add up to the whole's, and so do the numbers.
        """
        return self._objective(batch, 0.0, noise, attend)[1]

    def objective(
        self,
        batch: Batch,
        smoothing: float = 0.0,
        noise: NoiseLevels | None = None,
        attend: bool = True,
    ) -> tuple[Tensor, Likelihood]:
        """The loss that training minimises, summed over symbols, and the likelihood.

        With `smoothing`, that share of the wanted probability is spread over all symbols; `noise`
        is on the gates; a model that is not to `attend` does without its attention.
        """
        return self._objective(batch, smoothing, noise, attend)

    def _objective(
        self, batch: Batch, smoothing: float, noise: NoiseLevels | None, attend: bool
    ) -> tuple[Tensor, Likelihood]:
        logits = self.scored_logits(batch, noise, attend)
        wanted = batch.outputs[batch.mask]
        loss = partial(nn.functional.cross_entropy, logits, wanted, reduction="sum")
        nll = loss()
        return loss(label_smoothing=smoothing) if smoothing else nll, Likelihood(nll, len(wanted))

    def loss(self, batch: Batch) -> Tensor:
        """The mean negative log likelihood of a target symbol or EOS."""
        nll, symbols = self.likelihood(batch)
        return nll / symbols

    @torch.no_grad()
    def perplexity(self, batch: Batch) -> float:
        """exp(loss): how many symbols the model hesitates between; 1 is certainty."""
        with evaluating(self):
            return float(self.loss(batch).cpu().double().exp())

    @torch.no_grad()
    def decode(
        self,
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
            sources: each a string as the model reads text (symbols separated by spaces, unless it
                was trained on text of another form), the symbols' numbers, or a `ParsedSource`.
            beam: how many hypotheses of a source are pursued at once. 1 is greedy decoding.
            nbest: how many are returned of each source, at most `beam`; fewer if no more were
                found. A tagger has one answer, so both must be 1.
            max_length: the most symbols in a target, EOS not counted. `None`: twice the symbols of
                its source and 50 more. Means nothing to a tagger.
            normalise: rank by log probability per symbol (EOS counted) instead of the total. The
                search of a source then ends with the first `beam` finished hypotheses.
            batch_size: how many sources are decoded together. It bounds the memory that is used and
                changes no result beyond rounding.
        """
        self._check_search(beam, nbest)
        search = Search(beam, nbest, max_length, normalise)
        decoding.check_at_least(1, batch_size=batch_size)
        parsed = text.parse_sources(self, sources)
        hypotheses: list[list[Hypothesis]] = []
        with evaluating(self):
            for first in range(0, len(parsed), batch_size):
                hypotheses += self._decode(parsed[first : first + batch_size], search)
        return hypotheses

    def _check_search(self, beam: int, nbest: int) -> None:
        """Refuse a search that this form has no use for."""

    def _decode(self, sources: Sequence[ParsedSource], search: Search) -> list[list[Hypothesis]]:
        numbers = [source.numbers for source in sources]
        if search.beam == 1:
            found = [[best] for best in decoding.greedy(self, numbers, search)]
        else:
            found = decoding.beam_search(self, numbers, search)
        return [
            [self._with_text(source, hypothesis) for hypothesis in hypotheses]
            for source, hypotheses in zip(sources, found, strict=True)
        ]

    def _with_text(self, source: ParsedSource, written: Hypothesis) -> Hypothesis:
        target = text.copy_unknown(self, source.symbols, written)
        return replace(written, target=tuple(target), text=text.target_text(self, target))

    def check_answers(self, source: Sequence[str]) -> None:
        """Refuse a source at which nothing could be written."""

    @overload
    def transduce(
        self, sources: Sequence[str], nbest: None = None, beam: int = 1,
        max_length: int | None = None,
    ) -> list[str]: ...  # fmt: skip
    @overload
    def transduce(
        self, sources: Sequence[str], nbest: int, beam: int = 1, max_length: int | None = None
    ) -> list[list[str]]: ...
    def transduce(
        self, sources: Sequence[str], nbest: int | None = None, beam: int = 1,
        max_length: int | None = None,
    ) -> list[str] | list[list[str]]:  # fmt: skip
        """The best target of each source; with `nbest`, a list of so many (or fewer) for each.

        Symbols are separated by spaces, unless the model was trained on text of another form. A
        target has at most `max_length` symbols, by default twice as many as its source and 50 more;
        one that is longer is cut off there. `decode` tells which were, and gives the scores. With
        `nbest`, `beam` is at least that.
        """
        parsed = text.parse_sources(self, sources)
        best_first = self.decode(
            parsed, beam=max(beam, nbest or 1), nbest=nbest or 1, max_length=max_length
        )
        unknown = text.unknown_symbols(self, [source.symbols for source in parsed])
        text.warn_unknown(unknown, stacklevel=2)
        texts = [[hypothesis.text for hypothesis in hypotheses] for hypotheses in best_first]
        return texts if nbest is not None else [best for best, *_ in texts]

    @classmethod
    def fit(
        cls,
        pairs: Iterable[Sequence[str]],
        valid: Iterable[Sequence[str]] | None = None,
        *,
        run: str | PathLike[str] | None = None,
        show: bool = False,
        **options: Any,
    ) -> Self:
        """A model trained on (source, target) strings, or (source, target, features).

        Args:
            pairs: what to train on.
            valid: what to validate on after every epoch; `None`: a tenth of the pairs.
            run: a directory to train in, which can be resumed; `None`: one that is removed.
            show: whether to print how it goes.
            options: those of `TrainConfig`, as in memory="deque", hidden=256, seed=1. With device=
                "cuda" it is trained there; the model that is returned is on the CPU.
        """
        from pushpop.training.loop import fit  # the one step up: training imports models

        return cast(Self, fit(pairs, valid, run, show, {"form": cls.form, **options}))

    def score(self, pairs: Iterable[Sequence[str]], beam: int = 1) -> dict[str, Any]:
        """How right predictions are for pairs as `fit` takes them: accuracy, word_error_rate,
        symbol_error_rate (edits a symbol) and the number of pairs."""
        read = []
        for source, target, *features in pairs:
            symbols = text.source_symbols(self, "\t".join([source, *features]))
            read.append((symbols, text.target_symbols(self, target)))
        scores = text.score_pairs(self, read, beam)
        text.warn_unknown(Counter(scores.unknown), stacklevel=2)
        return scores.to_dict()

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write config.json, vocabulary.json, model.safetensors and a model card, README.md, into a
        folder, all or none. The card tells what `metadata` says, its "license" too."""
        saving.save_pretrained(self, folder)

    @classmethod
    def from_pretrained(cls, folder: str | PathLike[str], **hub: Any) -> Self:
        """The model that `save_pretrained` wrote, on the CPU; `InputError` if anything is off.

        If there is no such folder, the name may be that of a model that comes with the package
        (`pushpop models` lists them), or with the extra `[hub]` that of a repository, "owner/name";
        the options are those of `huggingface_hub.snapshot_download` (revision, token, ...). A
        folder that holds a model of a subclass, such as a `Tagger`, gives that.
        """
        return saving.load_pretrained(cls, folder, **hub)

    def push_to_hub(self, name: str, message: str = "Upload a model", **options: Any) -> str:
        """Save to a repository of the hub, "owner/name"; its address. The options are those of
        `huggingface_hub.create_repo` (private, token, ...). Needs the extra `[hub]`."""
        return saving.push_to_hub(self, name, message, **options)


def _table(symbols: int, width: int) -> nn.Embedding:
    """A table drawn from N(0, 1), as nn.Embedding's is; but nothing is drawn without storage, since
    for that torch imports its compiler, which takes longer than all else in loading a model."""
    weight = torch.empty(symbols, width)
    if not weight.is_meta:
        nn.init.normal_(weight)
    return nn.Embedding(symbols, width, _weight=weight)


@torch.no_grad()
def _scale(weight: Tensor, factor: float) -> None:
    if factor != 1:
        weight *= factor
