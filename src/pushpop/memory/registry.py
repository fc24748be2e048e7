"""The memories by name."""

from copy import deepcopy
from typing import Any, TypeVar

from pushpop.memory.base import Memory
from pushpop.memory.mixing import Shifts
from pushpop.memory.neural import NeuralDeque, NeuralQueue, NeuralStack
from pushpop.memory.superposition import SuperpositionStack
from pushpop.memory.tape import Tape

MEMORIES: dict[str, type[Memory[Any]]] = {
    memory.kind: memory
    for memory in (
        NeuralStack,
        NeuralQueue,
        NeuralDeque,
        SuperpositionStack,
        Tape,
    )
}
"""The memories by name; `names.py` lists those that come with the package."""
M = TypeVar("M", bound=type[Memory[Any]])


def register_memory(memory: M) -> M:
    """Make a memory of one's own known by its `kind`, to models that are trained, saved and loaded.

    It is made as `memory(width, backend=...)`. Can be used as a decorator of the class.
    """
    kind = memory.kind
    if kind == "none" or MEMORIES.get(kind, memory) is not memory:
        raise ValueError(f"there is a memory {kind!r} already")
    MEMORIES[kind] = memory
    return memory


def make_memory(memory: str | Memory[Any], width: int | None, backend: str) -> Memory[Any]:
    """The memory of that name, or the given one if it fits."""
    if isinstance(memory, str):
        if memory not in MEMORIES:
            known = ", ".join(MEMORIES)
            raise ValueError(f"memory must be one of {known}, or a Memory; got {memory!r}")
        assert width is not None
        return MEMORIES[memory](width, backend=_own_backend(MEMORIES[memory], backend))
    if not isinstance(memory, Memory):
        raise TypeError(f"memory must be a name or a Memory; got {type(memory).__name__}")
    if width is not None and memory.width != width:
        raise ValueError(f"the given memory is {memory.width} wide; expected {width}")
    if memory.backend == "auto" and backend != "auto":
        memory = deepcopy(memory)  # it is somebody else's
        memory.backend = backend
        memory.choose_backend(None)
    if backend not in ("auto", memory.backend):
        raise ValueError(
            f"backend is {backend!r} and that of the given memory {memory.backend!r}: expected the "
            "same"
        )
    return memory


def _own_backend(memory: type[Memory[Any]], backend: str) -> str:
    """The backend of a memory in a layer that has this one.

    The kernels of a memory that mixes its cells are those of layers: by itself it has none.
    """
    in_layers = backend == "fused" and isinstance(vars(memory).get("kernel"), Shifts)
    return "auto" if in_layers else backend
