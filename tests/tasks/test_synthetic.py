"""Copy, reverse, flip, duplicate and odds first, against their definitions."""

from collections.abc import Callable

import pytest

from pushpop.errors import InputError
from pushpop.tasks import batch_rng, get_task

from . import chi_square

Words = list[str]
SURE = 1e-3  # a p-value below this is no accident: the seeds are fixed


def flipped(source: Words) -> Words:
    target = list(source)
    for i in range(1, len(source) + 1):  # the paper counts from 1
        if i % 2 == 1:
            target[i - 1], target[i] = source[i], source[i - 1]
    return target


def reversed_(source: Words) -> Words:
    target: Words = []
    for word in source:
        target.insert(0, word)
    return target


DEFINITIONS: dict[str, Callable[[Words], Words]] = {
    "copy": lambda source: source,
    "reverse": reversed_,
    "flip": flipped,
    "duplicate": lambda source: source + source,
    "odds-first": lambda source: source[0::2] + source[1::2],
}


def drawn(name: str, count: int, low: int, high: int) -> list[tuple[Words, Words]]:
    task = get_task(name)
    pairs = task.sample(batch_rng(0, "synthetic", 0), count, (low, high))
    decode = task.vocabulary
    return [(decode.decode_source(s), decode.decode_target(t)) for s, t in pairs]


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize(("low", "high"), [(1, 9), (8, 64), (65, 128)])
def test_the_target_follows_from_the_source(name: str, low: int, high: int) -> None:
    for source, target in drawn(name, 500, low, high):
        assert low <= len(source) <= high
        assert target == DEFINITIONS[name](source)


def test_the_definitions_on_an_example_worked_by_hand() -> None:
    expected = {
        "copy": "abcdef",
        "reverse": "fedcba",
        "flip": "badcfe",
        "duplicate": "abcdefabcdef",
        "odds-first": "acebdf",
    }
    for name, target in expected.items():
        assert "".join(DEFINITIONS[name](list("abcdef"))) == target


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize(("low", "high"), [(8, 64), (65, 128)])
def test_lengths_are_uniform(name: str, low: int, high: int) -> None:
    step = 2 if name == "flip" else 1
    possible = [length for length in range(low, high + 1) if length % step == 0]
    lengths = [len(source) for source, _ in drawn(name, 20_000, low, high)]
    assert chi_square.fit(lengths, dict.fromkeys(possible, 1 / len(possible))) > SURE


@pytest.mark.parametrize("name", DEFINITIONS)
def test_symbols_are_uniform_over_128_and_independent(name: str) -> None:
    sources = [source for source, _ in drawn(name, 3_000, 8, 64)]
    alphabet = get_task(name).vocabulary.source
    assert len(alphabet) == 128
    uniform = dict.fromkeys(alphabet, 1 / 128)
    assert chi_square.fit([word for source in sources for word in source], uniform) > SURE
    assert chi_square.fit([source[0] for source in sources], uniform) > SURE
    neighbours = [  # coarser, so that each of the 256 cells is well filled
        (int(a[1:]) % 16, int(b[1:]) % 16)
        for source in sources
        for a, b in zip(source[::2], source[1::2], strict=False)
    ]
    cells = {(a, b): 1 / 256 for a in range(16) for b in range(16)}
    assert chi_square.fit(neighbours, cells) > SURE


def test_flipping_refuses_a_range_without_an_even_length() -> None:
    with pytest.raises(InputError, match="lengths 9-9: none is a multiple of 2"):
        drawn("flip", 1, 9, 9)
