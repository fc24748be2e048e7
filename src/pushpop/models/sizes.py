"""The sizes of the paper's models beside ours.

The paper's figures are those of its model-size table: Grefenstette, Hermann, Suleyman and Blunsom,
"Learning to Transduce with Unbounded Memory" (2015). They count the recurrent core: no embeddings,
no learned initial states, and the projection to the output embedding only where a memory is.
"""

from dataclasses import dataclass

import torch
from torch import nn

from pushpop.models.body import LSTMBody
from pushpop.models.config import TransducerConfig
from pushpop.models.transducer import Transducer
from pushpop.tasks import Vocabulary

HIDDEN = (256, 512)
MEMORY_WIDTH = 256
PAPER: dict[str, tuple[float, float]] = {  # at hidden 256 and 512
    "1-layer LSTM": (3.3e5, 1.2e6),
    "2-layer LSTM": (9.1e5, 3.4e6),
    "4-layer LSTM": (2.1e6, 7.8e6),
    "8-layer LSTM": (4.5e6, 1.7e7),
    "Stack-LSTM": (6.7e5, 1.9e6),
    "Queue-LSTM": (6.7e5, 1.9e6),
    "DeQue-LSTM": (1.0e6, 2.5e6),
}
MODELS: dict[str, tuple[str, int]] = {
    "1-layer LSTM": ("none", 1),
    "2-layer LSTM": ("none", 2),
    "4-layer LSTM": ("none", 4),
    "8-layer LSTM": ("none", 8),
    "Stack-LSTM": ("stack", 1),
    "Queue-LSTM": ("queue", 1),
    "DeQue-LSTM": ("deque", 1),
}


@dataclass(frozen=True)
class Size:
    """Numbers of parameters."""

    core: int  # what the paper counts
    start: int  # learned initial states
    total: int  # everything, embeddings included


def paper_config(model: str, hidden: int, embedding: int = 64) -> TransducerConfig:
    """The config of one of the paper's models."""
    memory, layers = MODELS[model]
    return TransducerConfig(memory, layers, "lstm", embedding, hidden, MEMORY_WIDTH)


def count_parameters(config: TransducerConfig, vocabulary: Vocabulary) -> Size:
    """The size of a transducer, without making it."""
    with torch.device("meta"):
        model = Transducer(config, vocabulary)
    counted: nn.Module = model.body.lstm if isinstance(model.body, LSTMBody) else model.body
    sizes = {name: parameter.numel() for name, parameter in counted.named_parameters()}
    start = sum(size for name, size in sizes.items() if name in ("h0", "c0"))
    total = sum(parameter.numel() for parameter in model.parameters())
    return Size(sum(sizes.values()) - start, start, total)
