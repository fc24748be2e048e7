"""Differentiable stacks, queues and deques for PyTorch, and the transducers built on them."""

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
from pushpop.models import Tagger, Transducer, TransducerConfig
from pushpop.training import fit as _fit  # noqa: F401  # gives `Transducer.fit` what it calls

__all__ = [
    "DeepLSTM",
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
