"""The memories by name and the paper's three by number: needs neither torch nor Numba."""

KINDS = ("stack", "queue", "deque")
STACK, QUEUE, DEQUE = range(len(KINDS))
"""The numbers by which kernels know the paper's memories."""
TOP, BOTTOM = 0, 1
"""The ends of a deque, in the order of its axis."""
MEMORY_NAMES = (*KINDS, "superposition", "tape")
"""The memories that come with the package."""
