"""Differentiable stacks, queues and deques for PyTorch, and the transducers built on them."""

from pushpop.layers import DeepLSTM
from pushpop.memory import MemoryState, NeuralDeque, NeuralQueue, NeuralStack

__all__ = ["DeepLSTM", "MemoryState", "NeuralDeque", "NeuralQueue", "NeuralStack"]
