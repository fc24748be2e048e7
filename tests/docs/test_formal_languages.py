"""The languages of benchmarks/formal_languages.py, whose true distributions must be exact."""

import runpy
import sys
from collections import Counter
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def languages() -> dict[str, Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        found: dict[str, Any] = runpy.run_path(str(BENCHMARKS / "formal_languages.py"))["LANGUAGES"]
    finally:
        sys.path.remove(str(BENCHMARKS))
    return found


def nests(line: str, depth: int) -> bool:
    open_brackets: list[str] = []
    for symbol in line:
        if symbol in "([":
            open_brackets.append(symbol)
        elif not open_brackets or open_brackets.pop() + symbol not in ("()", "[]"):
            return False
        if len(open_brackets) > depth:
            return False
    return not open_brackets


MEMBERS: dict[str, tuple[str, Any]] = {
    "marked reversal": ("01#", lambda x: len(x) % 2 and x == x[::-1] and x.count("#") == 1),
    "reversal": ("01", lambda x: len(x) % 2 == 0 and x == x[::-1]),
    "dyck": ("()[]", lambda x: nests(x, 99)),
    "dyck of depth 5": ("()[]", lambda x: nests(x, 5)),
    "a^n b^n": ("ab", lambda x: x == "a" * (len(x) // 2) + "b" * (len(x) // 2)),
}


@pytest.mark.parametrize("name", list(MEMBERS))
def test_a_language_has_as_many_lines_of_a_length_as_it_says(
    name: str, languages: dict[str, Any]
) -> None:
    assert languages.keys() == MEMBERS.keys()
    language, (symbols, has) = languages[name], MEMBERS[name]
    for length in range(2, 9):
        lines = {"".join(line) for line in product(symbols, repeat=length)}
        members = set(filter(has, lines))
        assert bool(members) == language.has(length)
        if members:
            assert exp(language.log_count(length)) == pytest.approx(len(members))


@pytest.mark.parametrize("name", list(MEMBERS))
def test_each_line_of_a_length_is_drawn_as_often_as_another(
    name: str, languages: dict[str, Any]
) -> None:
    language, rng = languages[name], np.random.default_rng(0)
    length = 6 if language.has(6) else 7
    count = round(exp(language.log_count(length)))
    drawn = Counter(language.draw(rng, length) for _ in range(200 * count))
    assert len(drawn) == count
    assert all(MEMBERS[name][1](line) for line in drawn)
    assert max(abs(times - 200) for times in drawn.values()) < 5 * 200**0.5


def test_what_is_forced_is_what_no_line_does_otherwise(languages: dict[str, Any]) -> None:
    """Of all lines of a language up to a length: the symbols after a prefix of one of them."""
    for name in ("marked reversal", "a^n b^n"):
        symbols, has = MEMBERS[name]
        texts = ("".join(line) for n in range(1, 10) for line in product(symbols, repeat=n))
        lines = [text for text in texts if has(text)]
        following: dict[str, set[str]] = {}
        for line in lines:
            for place, symbol in enumerate([*line, "end"]):
                following.setdefault(line[:place], set()).add(symbol)
        for line in (line for line in lines if len(line) < 5):
            forced = languages[name].forced(line)
            for place in range(1, len(line) + 1):
                assert forced[place] == (len(following[line[:place]]) == 1), (name, line, place)
