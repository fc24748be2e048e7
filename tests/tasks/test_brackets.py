"""Matching brackets: prefixes of well-bracketed strings, and what closes them."""

from itertools import product

import pytest

from pushpop.tasks import batch_rng, get_task

from . import chi_square

PARTNER = {"(": ")", "[": "]"}


def closing(prefix: str) -> str | None:
    """What closes a prefix; None if it is a prefix of nothing."""
    waiting = ""
    for symbol in prefix:
        if symbol in PARTNER:
            waiting = PARTNER[symbol] + waiting
        elif waiting[:1] == symbol:
            waiting = waiting[1:]
        else:
            return None
    return waiting


def drawn(count: int, low: int, high: int) -> list[tuple[str, str]]:
    task = get_task("brackets")
    pairs = task.sample(batch_rng(0, "brackets", 0), count, (low, high))
    decode = task.vocabulary
    return [("".join(decode.decode_source(s)), "".join(decode.decode_target(t))) for s, t in pairs]


def test_an_example_worked_by_hand() -> None:
    assert closing("([][(") == ")])"
    assert closing("()") == ""
    assert closing("(]") is None


@pytest.mark.parametrize(("low", "high"), [(1, 9), (8, 64), (65, 128), (1000, 1000)])
def test_the_target_closes_the_source(low: int, high: int) -> None:
    for source, target in drawn(200, low, high):
        assert low <= len(source) <= high
        assert target == closing(source)


@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_all_prefixes_of_a_length_are_equally_likely(length: int) -> None:
    prefixes = [p for p in map("".join, product("()[]", repeat=length)) if closing(p) is not None]
    sources = [source for source, _ in drawn(20_000, length, length)]
    assert chi_square.fit(sources, dict.fromkeys(prefixes, 1 / len(prefixes))) > 1e-3


def test_lengths_are_uniform() -> None:
    lengths = [len(source) for source, _ in drawn(5_000, 8, 64)]
    assert chi_square.fit(lengths, dict.fromkeys(range(8, 65), 1 / 57)) > 1e-3
