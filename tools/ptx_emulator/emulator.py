"""Runs a kernel's PTX on the CPU: blocks of warps of 32 lanes, interleaved at random.

A warp goes on for a random number of instructions, then another has its turn; at a barrier it waits
for the others. `Memory` notes what nothing orders. Lanes that branch apart go on one group
after the other, the one that is behind first, until they meet again; barriers and exchanges between
lanes are then an error. An instruction that is not known is an error too, never a guess.
"""

import re
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from .bits import bits_as, parameter_bits, read_constant
from .memory import WARP, Memory, Place
from .operations import TYPES, Array, find_operation
from .ptx import Instruction, Program

Step = Callable[["Warp"], None]
LANES = np.arange(WARP)
LONGEST_TURN = 200  # instructions


class Warp:
    """The registers of 32 threads, their place in the program, and the barriers they passed."""

    def __init__(self, number: int, block: int, place: tuple[int, int, int]) -> None:
        self.threads = LANES + WARP * number
        self.block, self.place = block, place
        self.registers: dict[str, Array] = {}
        self.at = self.barriers = self.warp_barriers = self.exchanges = 0
        self.waits = self.has_ended = False
        self.active = np.ones(WARP, bool)  # the lanes that are at `at`
        self.apart: list[tuple[int, Array]] = []  # where other lanes are

    def branch(self, taken: Array, target: int) -> None:
        """Go on at the target, where the branch is taken."""
        if not taken.any():
            return
        left = self.active & ~taken
        if left.any():
            self.apart.append((self.at, left))
        self.at, self.active = target, taken

    def regroup(self) -> None:
        """Go on with the lanes that are farthest behind, and those that are there too."""
        groups = [*self.apart, (self.at, self.active)]
        self.at = min(at for at, _ in groups)
        self.active = np.logical_or.reduce([lanes for at, lanes in groups if at == self.at])
        self.apart = [(at, lanes) for at, lanes in groups if at != self.at]

    def together(self, each: Instruction) -> None:
        """Raise unless all lanes are here."""
        if self.apart:
            raise RuntimeError(f"some lanes of a warp are elsewhere: {each}")

    def now(self, active: Array) -> Place:
        """Who makes an access, for the lanes that take part."""
        passed = (self.barriers, self.warp_barriers, self.exchanges)
        return Place(self.block, self.threads[active], *passed)


class Kernel:
    """A program, its instructions made into functions of a warp."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps = [self._step(each) for each in program.instructions]

    def run(
        self,
        grid: Sequence[int],
        parameters: Sequence[int | float],
        memory: Memory,
        shared_size: int,
        seed: int,
    ) -> int:
        """Run all blocks of a launch; returns how many instructions the warps executed."""
        self.parameters, self.memory = parameters, memory
        memory.forget()
        rng = np.random.default_rng(seed)
        sizes = (*grid, 1, 1)[:3]
        executed = 0
        with np.errstate(all="ignore"):
            for block, place in enumerate(product(*(range(size) for size in sizes))):
                self.shared = Memory(shared_size + 512, min(4, memory.granule))
                self.shared.allocate(np.zeros(shared_size, np.uint8))
                executed += self._run_block(block, place, rng)
                memory.races += self.shared.races
        return executed

    def _run_block(self, block: int, place: tuple[int, int, int], rng: np.random.Generator) -> int:
        warps = [Warp(number, block, place) for number in range(self.program.threads // WARP)]
        executed = 0
        while not all(warp.has_ended for warp in warps):
            ready = [warp for warp in warps if not (warp.has_ended or warp.waits)]
            if not ready:
                if any(warp.has_ended for warp in warps):
                    raise RuntimeError("a warp has ended while others wait for it at a barrier")
                for warp in warps:
                    warp.waits = False
                    warp.barriers += 1
                continue
            warp = ready[rng.integers(len(ready))]
            for _ in range(rng.integers(1, LONGEST_TURN)):
                if warp.apart:
                    warp.regroup()
                step = self.steps[warp.at]
                warp.at += 1
                step(warp)
                executed += 1
                if warp.waits or warp.has_ended:
                    break
        return executed

    def _step(self, each: Instruction) -> Step:
        head = each.operation[0]
        makers = {
            "bra": self._branch, "ret": self._end, "exit": self._end, "bar": self._barrier,
            "barrier": self._barrier, "ld": self._load, "st": self._store, "atom": self._add,
            "red": self._add, "shfl": self._shuffle, "redux": self._reduce,
            "ldmatrix": self._matrices, "stmatrix": self._matrices,
        }  # fmt: skip
        if head in makers:
            return makers[head](each)
        if head == "mov" and "{" in "".join(each.operands):
            return self._pack(each)
        return self._compute(each)

    def _active(self, each: Instruction) -> Callable[[Warp], Array]:
        """Which lanes take part."""
        if each.predicate is None:
            return lambda warp: warp.active
        name, negated = each.predicate, each.negated
        return lambda warp: (warp.registers[name] ^ negated) & warp.active

    def _get(self, operand: str, kind: str) -> Callable[[Warp], Array]:
        """The numbers that an operand stands for, in a type."""
        dtype = np.dtype(TYPES[kind])
        if operand == "%tid.x":
            return lambda warp: warp.threads.astype(dtype)
        if operand == "%laneid":
            return lambda warp: LANES.astype(dtype)
        if operand.startswith("%ctaid."):
            axis = "xyz".index(operand[-1])
            return lambda warp: np.full(WARP, warp.place[axis], dtype)
        if operand.startswith("%"):
            return lambda warp: bits_as(warp.registers[operand], dtype)
        constant = np.full(WARP, read_constant(operand, dtype))
        return lambda warp: constant

    def _put(self, name: str, each: Instruction) -> Callable[[Warp, Array], None]:
        """Set a register, in the lanes that take part."""
        prefix = name.rstrip("0123456789")
        dtype = np.dtype(TYPES[self.program.registers[prefix]])
        active, always = self._active(each), each.predicate is None

        def put(warp: Warp, numbers: Array) -> None:
            bits = bits_as(numbers, dtype)
            if not always or warp.apart:
                before = warp.registers.get(name, np.zeros(WARP, dtype))
                bits = np.where(active(warp), bits, before)
            warp.registers[name] = bits

        return put

    def _compute(self, each: Instruction) -> Step:
        operation = find_operation(each.operation)
        target, *operands = each.operands
        get = [self._get(*pair) for pair in zip(operands, operation.operands, strict=True)]
        put, compute = self._put(target, each), operation.compute
        return lambda warp: put(warp, compute(*[one(warp) for one in get]))

    def _pack(self, each: Instruction) -> Step:
        """mov of two halves: {low, high} to one register, or one register to {low, high}, of which
        one may go nowhere."""
        kind = each.operation[-1]
        half = f"b{int(kind[1:]) // 2}"
        target, source = each.operands
        if "{" in source:
            low, high = (self._get(name, half) for name in _names(source))
            put = self._put(target, each)
            return lambda warp: put(
                warp, np.stack([low(warp), high(warp)], 1).view(TYPES[kind])[:, 0]
            )
        get = self._get(source, kind)
        puts = [self._put(name, each) if name[0] == "%" else None for name in _names(target)]

        def unpack(warp: Warp) -> None:
            halves = np.ascontiguousarray(get(warp)).view(TYPES[half]).reshape(WARP, 2)
            for put, numbers in zip(puts, halves.T, strict=True):
                if put is not None:
                    put(warp, np.ascontiguousarray(numbers))

        return unpack

    def _branch(self, each: Instruction) -> Step:
        target, active = self.program.labels[each.operands[0]], self._active(each)

        return lambda warp: warp.branch(active(warp), target)

    def _end(self, each: Instruction) -> Step:
        def end(warp: Warp) -> None:
            warp.together(each)
            warp.has_ended = True

        return end

    def _barrier(self, each: Instruction) -> Step:
        if each.operation == ("bar", "warp", "sync"):

            def pass_together(warp: Warp) -> None:
                warp.together(each)
                warp.warp_barriers += 1

            return pass_together
        if each.operation not in (("bar", "sync"), ("barrier", "sync")) or each.operands != ("0",):
            raise NotImplementedError(f"the emulator does not know {each}")

        def wait(warp: Warp) -> None:
            warp.together(each)
            warp.waits = True

        return wait

    def _load(self, each: Instruction) -> Step:
        size, vector = _access(each)
        targets = _names(each.operands[0])
        puts = [self._put(name, each) for name in targets]
        if each.operation[1] == "param":
            number = self.program.parameters.index(each.operands[1].strip("[]"))
            kind = TYPES[each.operation[-1]]
            return lambda warp: puts[0](warp, parameter_bits(self.parameters[number], kind))
        memory, address = self._memory(each), self._address(each.operands[1])
        active = self._active(each)
        assert len(targets) == vector

        def load(warp: Warp) -> None:
            on = active(warp)
            where, place = address(warp)[on], warp.now(on)
            for part, put in enumerate(puts):
                numbers = np.zeros(WARP, f"u{size}")
                if on.any():
                    numbers[on] = memory().load(where + part * size, size, place, each)
                put(warp, numbers)

        return load

    def _matrices(self, each: Instruction) -> Step:
        """Load or store matrices of 8 rows of 16 bytes in shared memory: lane 8 m + i has the
        address of row i of matrix m, and lane l has word l % 4 of row l // 4 of each."""
        if each.operation[1:4] != ("sync", "aligned", "m8n8") or "trans" in each.operation:
            raise NotImplementedError(f"the emulator does not know {each}")
        loads = each.operation[0] == "ldmatrix"
        registers, rows = each.operands if loads else reversed(each.operands)
        address = self._address(rows)
        puts = [self._put(name, each) for name in _names(registers)]
        gets = [self._get(name, "b32") for name in _names(registers)]

        def move(warp: Warp) -> None:
            warp.together(each)
            starts, place = address(warp), warp.now(warp.active)
            for matrix, (put, get) in enumerate(zip(puts, gets, strict=True)):
                where = starts[8 * matrix + LANES // 4] + 4 * (LANES % 4)
                if loads:
                    put(warp, self.shared.load(where, 4, place, each))
                else:
                    self.shared.store(where, get(warp), place, each)
            warp.exchanges += 1

        return move

    def _store(self, each: Instruction) -> Step:
        size, _ = _access(each)
        get = [self._get(name, f"b{8 * size}") for name in _names(each.operands[1])]
        memory, address = self._memory(each), self._address(each.operands[0])
        active = self._active(each)

        def store(warp: Warp) -> None:
            on = active(warp)
            if not on.any():
                return
            where, place = address(warp)[on], warp.now(on)
            for part, numbers in enumerate(get):
                memory().store(where + part * size, numbers(warp)[on], place, each)

        return store

    def _add(self, each: Instruction) -> Step:
        kind = each.operation[-1]
        if "add" not in each.operation or kind not in ("f32", "f64"):
            raise NotImplementedError(f"the emulator does not know {each}")
        returns = each.operation[0] == "atom"
        target, value = each.operands[returns], each.operands[returns + 1]
        put = self._put(each.operands[0], each) if returns else None
        get, address, memory = self._get(value, kind), self._address(target), self._memory(each)
        active = self._active(each)

        def add(warp: Warp) -> None:
            on = active(warp)
            if not on.any():
                return
            before = np.zeros(WARP, TYPES[kind])
            before[on] = memory().add(address(warp)[on], get(warp)[on], warp.now(on), each)
            if put is not None:
                put(warp, before)

        return add

    def _shuffle(self, each: Instruction) -> Step:
        target, source, by, clamp, _ = each.operands
        put, mode = self._put(target, each), each.operation[2]
        get, offset, limit = (self._get(name, "b32") for name in (source, by, clamp))

        def shuffle(warp: Warp) -> None:
            warp.together(each)
            given, c = offset(warp).astype(np.int64) & 31, limit(warp).astype(np.int64)
            segment = (c >> 8) & 31
            lowest = LANES & segment
            highest = lowest | (c & 31 & ~segment)
            lane = {
                "up": LANES - given, "down": LANES + given, "bfly": LANES ^ given,
                "idx": lowest | (given & ~segment),
            }[mode]  # fmt: skip
            inside = lane >= highest if mode == "up" else lane <= highest
            put(warp, get(warp)[np.where(inside, lane, LANES)])
            warp.exchanges += 1

        return shuffle

    def _reduce(self, each: Instruction) -> Step:
        _, _, how, kind = each.operation
        reduce = {"add": np.sum, "min": np.min, "max": np.max}[how]
        get, put = self._get(each.operands[1], kind), self._put(each.operands[0], each)

        def combine(warp: Warp) -> None:
            warp.together(each)
            put(warp, np.full(WARP, reduce(get(warp).astype(np.int64)), TYPES[kind]))
            warp.exchanges += 1

        return combine

    def _memory(self, each: Instruction) -> Callable[[], Memory]:
        if each.operation[1] == "shared":
            return lambda: self.shared
        if each.operation[1] != "global":
            raise NotImplementedError(f"the emulator does not know {each}")
        return lambda: self.memory

    def _address(self, operand: str) -> Callable[[Warp], Array]:
        found = re.fullmatch(r"\[\s*(\S+?)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
        assert found is not None, operand
        offset = int(found[2] or 0)
        base = self._get(found[1], "u64")
        return lambda warp: base(warp).astype(np.int64) + offset


def _names(operand: str) -> list[str]:
    return [name.strip() for name in operand.strip("{}").split(",")]


def _access(each: Instruction) -> tuple[int, int]:
    """The bytes of an element, and how many elements there are."""
    vector = next((int(part[1:]) for part in each.operation if part in ("v2", "v4")), 1)
    return int(re.sub(r"\D", "", each.operation[-1])) // 8, vector
