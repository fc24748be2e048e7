"""The memories: no parameters, no knowledge of what controls them.

base.py says what a memory is; neural.py has the paper's three, mixing.py two to compare with, and
kinds.py their names; state.py holds cells between calls. `backends` computes the paper's, a module
or a folder each, as operators.py tells torch.
"""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.memory.base import BACKENDS, Bias, CellMemory, Memory, State, TensorState
    from pushpop.memory.mixing import SuperpositionStack, Tape
    from pushpop.memory.neural import (
        MEMORIES,
        NeuralDeque,
        NeuralMemory,
        NeuralQueue,
        NeuralStack,
        make_memory,
        register_memory,
    )
    from pushpop.memory.state import MemoryState

__all__ = [
    "BACKENDS",
    "MEMORIES",
    "Bias",
    "CellMemory",
    "Memory",
    "MemoryState",
    "NeuralDeque",
    "NeuralMemory",
    "NeuralQueue",
    "NeuralStack",
    "State",
    "SuperpositionStack",
    "Tape",
    "TensorState",
    "make_memory",
    "register_memory",
]

import_when_asked(__name__)
