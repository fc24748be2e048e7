"""The sizes of the paper's models beside ours.

The paper's figures are those of its model-size table: Grefenstette, Hermann, Suleyman and Blunsom,
"Learning to Transduce with Unbounded Memory" (2015). They count the recurrent core: no embeddings,
no learned initial states, and the projection to the output embedding only where a memory is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from pushpop.experiments.paper import PAPER_MODELS, model_options
from pushpop.models import Transducer, TransducerConfig
from pushpop.models.body import LSTMBody
from pushpop.tasks import Vocabulary, get_task

HIDDEN = (256, 512)
MEMORY_WIDTH = 256
PAPER_SIZES: dict[str, tuple[float, float]] = {  # at hidden 256 and 512
    "lstm1": (3.3e5, 1.2e6),
    "lstm2": (9.1e5, 3.4e6),
    "lstm4": (2.1e6, 7.8e6),
    "lstm8": (4.5e6, 1.7e7),
    "stack": (6.7e5, 1.9e6),
    "queue": (6.7e5, 1.9e6),
    "deque": (1.0e6, 2.5e6),
}


@dataclass(frozen=True)
class Size:
    """Numbers of parameters."""

    core: int  # what the paper counts
    start: int  # learned initial states
    total: int  # everything, embeddings included


@dataclass(frozen=True)
class SizeRow:
    """A model of the paper: its figure, as it is printed there, beside ours."""

    model: str
    hidden: int
    paper: str
    size: Size
    off: str  # our core against the paper's figure, in per cent


def size_rows(embedding: int = 64) -> Iterator[SizeRow]:
    """The paper's models for the copy task, the narrow ones first."""
    vocabulary = get_task("copy").vocabulary
    for column, hidden in enumerate(HIDDEN):
        for model, figures in PAPER_SIZES.items():
            size = count_parameters(paper_config(model, hidden, embedding), vocabulary)
            paper = f"{figures[column]:.1e}".replace("e+0", "e")
            off = f"{size.core / figures[column] - 1:+.1%}"
            yield SizeRow(PAPER_MODELS[model], hidden, paper, size, off)


def paper_config(model: str, hidden: int, embedding: int = 64) -> TransducerConfig:
    """The config of one of the paper's models."""
    return TransducerConfig(
        **model_options(model), embedding=embedding, hidden=hidden, memory_width=MEMORY_WIDTH
    )


def count_parameters(config: TransducerConfig, vocabulary: Vocabulary) -> Size:
    """The size of a transducer, without making it."""
    with torch.device("meta"):
        model = Transducer(config, vocabulary)
    counted: nn.Module = model.body.lstm if isinstance(model.body, LSTMBody) else model.body
    sizes = {name: parameter.numel() for name, parameter in counted.named_parameters()}
    start = sum(size for name, size in sizes.items() if name in ("h0", "c0"))
    total = sum(parameter.numel() for parameter in model.parameters())
    return Size(sum(sizes.values()) - start, start, total)
