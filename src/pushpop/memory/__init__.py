"""The memories: no parameters, no knowledge of what controls them."""

from pushpop.memory.modules import MEMORIES, NeuralDeque, NeuralMemory, NeuralQueue, NeuralStack
from pushpop.memory.state import MemoryState

__all__ = [
    "MEMORIES",
    "MemoryState",
    "NeuralDeque",
    "NeuralMemory",
    "NeuralQueue",
    "NeuralStack",
]
