"""Memory of an emulated GPU, in which unordered accesses of the same place are found.

Two accesses of a place, at least one of them a store, are a race unless something orders them: the
order of a thread's own instructions, a barrier of the block between them, or a barrier of the warp
if both are of one warp. Blocks of a launch are not ordered at all. Whether accesses are ordered is
seen from how many barriers their threads had passed, whatever order they happened to take here; so
a race is found even where the result is right by luck.

A load is also ordered before a store of another lane of its warp if the lanes exchanged values in
between (shfl.sync): they waited for each other, and had what they had loaded. Triton exchanges so
where it stores a tensor in another layout than it was loaded in. A store before a load is not
ordered by that. Atomic operations do not race with each other; nothing is ordered by them here.
Stores of one and the same number to a place do not either: Triton has several threads store what
they all hold.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .ptx import Instruction

WARP = 32
NOBODY, SEVERAL = -1, -2

Integers = NDArray[np.int64]


class Place(NamedTuple):
    """Who makes an access: threads of one warp, and the barriers they have passed."""

    block: int
    threads: Integers  # numbers in the block
    barriers: int  # of the block
    warp_barriers: int
    exchanges: int  # of values between the lanes of the warp

    @property
    def warp(self) -> int:
        return int(self.threads[0]) // WARP


class Race(NamedTuple):
    """Two kinds of access that nothing orders, and where the second one is in the source."""

    what: str  # "load after store", "store after load" or "store after store"
    who: str  # "lanes" of a warp, "warps" of a block or "blocks"
    source: str


class Memory:
    """Bytes, and of each granule of them who stored to it last and who has loaded from it since."""

    def __init__(self, size: int, granule: int) -> None:
        self.bytes = np.zeros(size, np.uint8)
        self.granule = granule
        self.allocated = np.zeros(size // granule, bool)
        self.used = 0
        self.races: Counter[Race] = Counter()
        self.forget()

    def forget(self) -> None:
        """Begin a launch: everything before it is ordered."""
        shape = (len(self.allocated),)
        names = ("block", "barriers", "warp", "thread", "warp_barriers", "exchanges")
        self.stored = {name: np.full(shape, NOBODY, np.int64) for name in names}
        self.loaded = {name: np.full(shape, NOBODY, np.int64) for name in names}
        self.atomically = np.zeros(shape, bool)

    def allocate(self, data: NDArray[np.uint8]) -> int:
        """Put bytes somewhere, aligned as a GPU's allocator does and apart from others."""
        at = (self.used // 256 + 1) * 256
        self.used = at + len(data)
        if self.used > len(self.bytes):
            raise MemoryError(f"{self.used} bytes wanted of {len(self.bytes)}")
        self.bytes[at : self.used] = data
        self.allocated[at // self.granule : -(-self.used // self.granule)] = True
        return at

    def load(
        self, address: Integers, size: int, place: Place, by: Instruction
    ) -> NDArray[np.unsignedinteger]:
        """So many bytes at each lane's address, as an unsigned number."""
        self._reach(address, size, by)
        self._check(address, size, place, by)
        return self._elements(size)[address // size]

    def store(
        self,
        address: Integers,
        bits: NDArray[np.unsignedinteger],
        place: Place,
        by: Instruction,
    ) -> None:
        """Each lane's number at its address."""
        size = bits.dtype.itemsize
        self._reach(address, size, by)
        elements, where = self._elements(size), address // size
        new = elements[where] != bits  # where it is not what was stored there last
        elements[where] = bits
        agree = (elements[where] == bits).all()  # or lanes store different numbers to one place
        self._check(address, size, place, by, stores=True, new=new, agree=bool(agree))

    def add(
        self,
        address: Integers,
        numbers: NDArray[np.floating],
        place: Place,
        by: Instruction,
    ) -> NDArray[np.floating]:
        """Add each lane's number to what is at its address, atomically; what was there before."""
        size = numbers.dtype.itemsize
        self._reach(address, size, by)
        self._check(address, size, place, by, stores=True, atomic=True)
        elements = self._elements(size).view(numbers.dtype)
        before = np.empty_like(numbers)
        for lane, where in enumerate(address // size):
            before[lane] = elements[where]
            elements[where] += numbers[lane]
        return before

    def _elements(self, size: int) -> NDArray[np.unsignedinteger]:
        return self.bytes.view(f"u{size}")

    def _reach(self, address: Integers, size: int, by: Instruction) -> None:
        """Raise unless all addresses can be accessed."""
        if (address % size).any():
            raise ValueError(f"an address that is not a multiple of {size}: {by}")
        if size < self.granule:
            raise ValueError(f"an access of {size} bytes, granules of {self.granule}: {by}")
        if address.min() < 0 or address.max() >= len(self.bytes):
            raise IndexError(f"an address outside all memory: {by}")
        for part in range(size // self.granule):
            if not self.allocated[address // self.granule + part].all():
                raise IndexError(f"an address outside all tensors: {by}")

    def _check(
        self,
        address: Integers,
        size: int,
        place: Place,
        by: Instruction,
        *,
        stores: bool = False,
        atomic: bool = False,
        new: NDArray[np.bool_] | None = None,
        agree: bool = True,
    ) -> None:
        """Find what is not ordered with an access, and note the access."""
        if not agree:
            self.races[Race("store after store", "lanes", by.source)] += 1
        for part in range(size // self.granule):
            at, first, threads = _by_granule(address // self.granule + part, place.threads)
            unordered = self._unordered(self.stored, at, threads, place)
            if atomic:
                unordered &= ~self.atomically[at]
            if new is not None:
                unordered &= new[first]
            what = "store" if stores else "load"
            self._count(f"{what} after store", self.stored, at[unordered], place, by)
            if stores:
                unordered = self._unordered(self.loaded, at, threads, place)
                exchanged = self.loaded["exchanges"][at] < place.exchanges
                unordered &= ~(exchanged & self._of_this_warp(self.loaded, at, place))
                self._count("store after load", self.loaded, at[unordered], place, by)
                self.atomically[at] = atomic
            self._note(self.stored if stores else self.loaded, at, threads, place)

    def _unordered(
        self, before: dict[str, Integers], at: Integers, threads: Integers, place: Place
    ) -> NDArray[np.bool_]:
        """Where an access before is not ordered before this one."""
        block = before["block"][at]
        thread = before["thread"][at]
        others = (before["warp"][at] != place.warp) | (
            (before["warp_barriers"][at] == place.warp_barriers)
            & ((thread != threads) | (thread == SEVERAL))
        )
        here = (block == place.block) & (before["barriers"][at] == place.barriers) & others
        elsewhere = (block != place.block) & (block != NOBODY)
        return here | elsewhere

    @staticmethod
    def _of_this_warp(before: dict[str, Integers], at: Integers, place: Place) -> NDArray[np.bool_]:
        return (before["block"][at] == place.block) & (before["warp"][at] == place.warp)

    def _count(
        self, what: str, before: dict[str, Integers], at: Integers, place: Place, by: Instruction
    ) -> None:
        if len(at):
            if (before["block"][at] != place.block).any():
                who = "blocks"
            elif (before["warp"][at] != place.warp).any():
                who = "warps"
            else:
                who = "lanes"
            self.races[Race(what, who, by.source)] += 1

    @staticmethod
    def _note(notes: dict[str, Integers], at: Integers, threads: Integers, place: Place) -> None:
        """Add an access to those that it is not ordered with; it replaces those before it."""
        block, warp = notes["block"][at], notes["warp"][at]
        same_time = (block == place.block) & (notes["barriers"][at] == place.barriers)
        same_warp = same_time & (warp == place.warp)
        together = same_warp & (notes["warp_barriers"][at] == place.warp_barriers)
        apart = (block != NOBODY) & (block != place.block)
        notes["thread"][at] = np.where(
            together & (notes["thread"][at] != threads), SEVERAL, threads
        )
        notes["warp"][at] = np.where(same_time & ~same_warp, SEVERAL, place.warp)
        notes["block"][at] = np.where(apart, SEVERAL, place.block)
        notes["barriers"][at] = place.barriers
        notes["warp_barriers"][at] = place.warp_barriers
        notes["exchanges"][at] = place.exchanges


def _by_granule(at: Integers, threads: Integers) -> tuple[Integers, Integers, Integers]:
    """The granules that are accessed, the first lane at each, and by which thread they are."""
    if len(at) == 1 or (at[1:] > at[:-1]).all():
        return at, np.arange(len(at)), threads
    granules, first, counts = np.unique(at, return_index=True, return_counts=True)
    return granules, first, np.where(counts == 1, threads[first], SEVERAL)
