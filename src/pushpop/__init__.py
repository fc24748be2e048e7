"""Differentiable stacks, queues and deques for PyTorch, and the transducers built on them."""

from pushpop.layers import DeepLSTM, MemoryAttention, MemoryRNN, RNNState
from pushpop.memory import MemoryState, NeuralDeque, NeuralQueue, NeuralStack
from pushpop.models import Transducer, TransducerConfig

__all__ = [
    "DeepLSTM",
    "MemoryAttention",
    "MemoryRNN",
    "MemoryState",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "RNNState",
    "Transducer",
    "TransducerConfig",
]
