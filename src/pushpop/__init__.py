"""Differentiable stacks, queues and deques for PyTorch, and the transducers built on them."""

from pushpop.layers import DeepLSTM, MemoryAttention
from pushpop.memory import MemoryState, NeuralDeque, NeuralQueue, NeuralStack

__all__ = [
    "DeepLSTM",
    "MemoryAttention",
    "MemoryState",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
]
