"""Differentiable stacks, queues and deques for PyTorch, and the transducers built on them."""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop._version import __version__ as __version__
    from pushpop.layers import DeepLSTM, MemoryAttention, MemoryRNN, RNNState
    from pushpop.memory import (
        Memory,
        MemoryState,
        NeuralDeque,
        NeuralQueue,
        NeuralStack,
        SuperpositionStack,
        Tape,
        register_memory,
    )
    from pushpop.models import LanguageModel, Tagger, Transducer, TransducerConfig

__all__ = [
    "DeepLSTM",
    "LanguageModel",
    "Memory",
    "MemoryAttention",
    "MemoryRNN",
    "MemoryState",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "RNNState",
    "SuperpositionStack",
    "Tagger",
    "Tape",
    "Transducer",
    "TransducerConfig",
    "register_memory",
]

import_when_asked(__name__)
