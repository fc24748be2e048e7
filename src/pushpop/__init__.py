"""Differentiable stacks, queues and deques for PyTorch, and the transducers built on them."""

from pushpop.memory import MemoryState, NeuralDeque, NeuralQueue, NeuralStack

__all__ = ["MemoryState", "NeuralDeque", "NeuralQueue", "NeuralStack"]
