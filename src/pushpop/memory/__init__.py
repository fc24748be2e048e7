"""The memories: no parameters, no knowledge of what controls them.

base.py says what a memory is; neural.py has the paper's three, superposition.py and tape.py two to
compare with; `backends` computes the paper's, a module or a folder each, as operators.py tells
torch; mixing.py is what layers know of the other two. state.py holds cells between calls, kinds.py
and registry.py have the names.
"""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.memory.base import BACKENDS, Bias, CellMemory, Memory, State, TensorState
    from pushpop.memory.neural import NeuralDeque, NeuralMemory, NeuralQueue, NeuralStack
    from pushpop.memory.registry import MEMORIES, make_memory, register_memory
    from pushpop.memory.state import MemoryState
    from pushpop.memory.superposition import SuperpositionStack
    from pushpop.memory.tape import Tape

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
