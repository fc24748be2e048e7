"""The memories that come with the package, by name: to list them needs no torch."""

MEMORY_NAMES = ("stack", "queue", "deque", "superposition", "tape")
