"""Which accesses of emulated memory are ordered, and which are races."""

import numpy as np
import pytest
from tools.ptx_emulator.memory import Memory, Place
from tools.ptx_emulator.ptx import Instruction

FIRST, SECOND = (
    Instruction(("st", "global", "b32"), (), None, False, f"kernel.py:{line}") for line in (1, 2)
)
START = 256  # where the first tensor is


def place(
    thread: int = 0, block: int = 0, barriers: int = 0, warp_barriers: int = 0, exchanges: int = 0
) -> Place:
    return Place(block, np.array([thread]), barriers, warp_barriers, exchanges)


def access(
    memory: Memory, how: str, who: Place, by: Instruction, at: int = START, number: int = 1
) -> None:
    where = np.full(len(who.threads), at)
    if how == "load":
        memory.load(where, 4, who, by)
    elif how == "store":
        memory.store(where, np.full(len(where), number, np.uint32), who, by)
    else:
        memory.add(where, np.ones(len(where), np.float32), who, by)


def races(first: str, one: Place, second: str, other: Place) -> list[str]:
    memory = Memory(1024, 4)
    assert memory.allocate(np.zeros(16, np.uint8)) == START
    access(memory, first, one, FIRST)
    access(memory, second, other, SECOND, number=2)
    assert all(race.source == "kernel.py:2" for race in memory.races)
    return [f"{race.what}, {race.who}" for race in memory.races]


CONFLICTS = pytest.mark.parametrize(
    ("first", "second"), [("store", "load"), ("load", "store"), ("store", "store")]
)


@CONFLICTS
@pytest.mark.parametrize(
    ("other", "who"),
    [
        (place(thread=1), "lanes"),
        (place(thread=32), "warps"),
        (place(thread=32, warp_barriers=1), "warps"),
        (place(thread=32, exchanges=1), "warps"),
        (place(block=1), "blocks"),
        (place(block=1, barriers=1), "blocks"),
    ],
    ids=["lane", "warp", "warp barrier", "exchange", "block", "barrier of another block"],
)
def test_what_nothing_orders_is_a_race(first: str, second: str, other: Place, who: str) -> None:
    assert races(first, place(), second, other) == [f"{second} after {first}, {who}"]


@CONFLICTS
@pytest.mark.parametrize(
    "other",
    [place(), place(thread=32, barriers=1), place(thread=1, warp_barriers=1)],
    ids=["one thread", "barrier", "barrier of the warp"],
)
def test_what_is_ordered_is_none(first: str, second: str, other: Place) -> None:
    assert races(first, place(), second, other) == []


def test_loads_and_atomic_operations_do_not_race_with_their_own_kind() -> None:
    assert races("load", place(), "load", place(block=1)) == []
    assert races("add", place(), "add", place(block=1)) == []
    assert races("add", place(), "load", place(thread=32)) == ["load after store, warps"]
    assert races("store", place(), "add", place(thread=32)) == ["store after store, warps"]


def test_an_exchange_orders_a_load_before_a_store_and_nothing_else() -> None:
    later = place(thread=1, exchanges=1)
    assert races("load", place(), "store", later) == []
    assert races("store", place(), "load", later) == ["load after store, lanes"]


def test_a_load_by_all_threads_races_with_a_store_by_one_of_them() -> None:
    everyone = Place(0, np.arange(32), 0, 0, 0)
    assert races("load", everyone, "store", place()) == ["store after load, lanes"]
    assert races("load", everyone, "store", place(barriers=1)) == []


def test_an_earlier_load_by_another_warp_is_not_forgotten() -> None:
    memory = Memory(1024, 4)
    memory.allocate(np.zeros(16, np.uint8))
    for who in (place(thread=32), place(thread=0)):
        access(memory, "load", who, FIRST)
    access(memory, "store", place(thread=0), SECOND)
    assert [race.who for race in memory.races] == ["warps"]


def test_lanes_that_store_to_one_place_at_once_race() -> None:
    memory = Memory(1024, 4)
    memory.allocate(np.zeros(16, np.uint8))
    both = Place(0, np.arange(2), 0, 0, 0)
    memory.store(np.array([START, START]), np.array([3, 4], np.uint32), both, FIRST)
    assert [race.what for race in memory.races] == ["store after store"]


def test_threads_that_store_the_same_number_do_not_race() -> None:
    memory = Memory(1024, 4)
    memory.allocate(np.zeros(16, np.uint8))
    access(memory, "store", Place(0, np.arange(2), 0, 0, 0), FIRST)
    access(memory, "store", place(thread=32), SECOND)
    assert not memory.races
    access(memory, "load", place(thread=32), SECOND)
    assert [race.what for race in memory.races] == ["load after store"]


def test_a_new_launch_is_ordered_after_the_one_before() -> None:
    memory = Memory(1024, 4)
    memory.allocate(np.zeros(16, np.uint8))
    access(memory, "store", place(), FIRST)
    memory.forget()
    access(memory, "load", place(block=1), SECOND)
    assert not memory.races


@pytest.mark.parametrize("at", [0, START + 16, START - 4, 4096])
def test_an_access_outside_all_tensors_is_an_error(at: int) -> None:
    memory = Memory(1024, 4)
    memory.allocate(np.zeros(16, np.uint8))
    with pytest.raises(IndexError, match=r"outside all .*kernel.py:1"):
        access(memory, "load", place(), FIRST, at)


def test_an_unaligned_access_is_an_error() -> None:
    memory = Memory(1024, 4)
    memory.allocate(np.zeros(16, np.uint8))
    with pytest.raises(ValueError, match="not a multiple of 4"):
        access(memory, "store", place(), FIRST, START + 2)
