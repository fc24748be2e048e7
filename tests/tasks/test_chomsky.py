"""The tasks of the Chomsky hierarchy, against their definitions written out in plain Python."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from pushpop.commands.listing import EXAMPLES as EXAMPLE_PAIRS
from pushpop.errors import InputError
from pushpop.tasks import TASKS, Pairs, Vocabulary, batch_rng, get_task
from pushpop.tasks.chomsky import ChomskyTask

from . import chi_square

Words = list[str]
NAMES = [name.removeprefix("chomsky/") for name in TASKS if name.startswith("chomsky/")]
SURE = 1e-3  # a p-value below this is no accident: the seeds are fixed

# Source and target, worked by hand or given by the paper; symbols of one letter without spaces.
EXAMPLES = {
    "even-pairs": ["0 0", "1 0", "01 1", "10 1", "0110 0", "00101 1", "10101 0"],
    "parity": ["0 0", "1 1", "11 0", "0111 1", "10100 0"],
    "cycle-navigation": ["0 4", "1 0", "2 1", "22102 2", "22222 0", "000 2"],
    "modular-arithmetic": ["3 3", "1+2*3 2", "1-1-1 4", "0*1+4*3-2 0", "0-2*2*2 2", "4*4*4 4"],
    "reverse": ["1 1", "10 01", "011010 010110"],
    "modular-arithmetic-brackets": [
        *("3 3", "-2 3", "-0 0", "(4) 4", "(-1) 4", "(3+4) 2", "(1-3) 3", "(3*4) 2"),
        *("(-1--3) 2", "((4-(-2))*3) 3", "((1-2)-(3*(4+4))) 0"),
    ],
    "solve-equation": [
        *("0 0", "00 0", "x=3 3", "-x=3 2", "(x)=1 1", "(-x)=1 4", "(x+2)=1 4", "(2-x)=4 3"),
        *("(x-(-2))=1 4", "((1-x)-((2-3)+-4))=0 1"),
    ],
    "duplicate": ["1 11", "101 101101"],
    "missing-duplicate": ["1 1", "20 0", "12 1", "213 1", "123 1", "01100210 1", "1011213 0"],
    "odds-first": ["1 1", "01 10", "110 110", "00110101 01110100", "10101 00111"],
    "binary-addition": [
        *("0 02", "00 020", "10 120", "01 012", "121 0120", "1201 11200", "11211 011200"),
        *("001201101 0101120000", "10012000001 100101200000"),
    ],
    "binary-multiplication": [
        *("0 2", "00 02", "10 02", "01 02", "121 120", "1201 0120", "11211 10012"),
        *("001201101 000110120", "10012000001 00000100120"),
    ],
    "square-root": ["1 1", "01 1", "11 1", "111 10", "100 10", "100101 110", "0001 01", "1111 11"],
    "bucket-sort": ["3 3", "42104 01244", "001 001"],
}
"""All tasks but stack manipulation, whose symbols are words."""
STACKS = [
    ("0", "0 2"),
    ("1", "1 2"),
    ("1 pop", "2 0 0"),
    ("1 push0", "0 1 2"),
    ("0 1 push1", "1 1 0 2"),
    ("1 pop pop", "2 0 0 0"),
    ("0 pop pop push1", "1 2 0 0 0"),
    ("0 1 1 0 push1 pop pop", "1 1 0 2 0 0 0 0"),
]
WORKED = [
    *((name, *map(list, line.split())) for name, lines in EXAMPLES.items() for line in lines),
    *(("stack-manipulation", source.split(), target.split()) for source, target in STACKS),
]


def task_of(name: str) -> ChomskyTask:
    task = get_task(f"chomsky/{name}")
    assert isinstance(task, ChomskyTask)
    return task


def drawn(name: str, count: int, low: int, high: int, seed: int = 0) -> list[tuple[Words, Words]]:
    task = task_of(name)
    pairs = task.sample(batch_rng(seed, "chomsky", 0), count, (low, high))
    decode = task.vocabulary
    return [(decode.decode_source(s), decode.decode_target(t)) for s, t in pairs]


def expression_value(text: str) -> int:
    return int(eval(text)) % 5


def solve(text: str) -> int:
    if len(text) < 3:
        return 0
    left, right = text.split("=")
    solutions = [x for x in range(5) if expression_value(left.replace("x", str(x))) == int(right)]
    assert len(solutions) == 1
    return solutions[0]


def run_stack(source: Words) -> str:
    stack: Words = []
    for symbol in source:
        if symbol == "pop":
            stack = stack[:-1]
        else:
            stack.append(symbol[-1])
    return "".join(reversed(stack)) + "2" + "0" * (len(source) - len(stack))


def missing(source: str) -> str:
    if source == "1":
        return "1"
    half = len(source) // 2
    return source[(source.index("2") + half) % (2 * half)]


def value_of(digits: str) -> int:
    """Of a number whose lowest digit comes first."""
    return sum(2**place for place, digit in enumerate(digits) if digit == "1")


def digits_of(value: int) -> str:
    digits = ""
    while value or not digits:
        digits += str(value % 2)
        value //= 2
    return digits


def add(source: str) -> str:
    total = digits_of(sum(map(value_of, source.split("2"))))
    return (total + "2" + "0" * len(source))[: len(source) + 1]


def multiply(source: str) -> str:
    if len(source) < 3:
        return ("", "2", "02")[len(source)]
    total = digits_of(math.prod(map(value_of, source.split("2"))))
    return (total + "2" + "0" * len(source))[: len(source)]


def square_root(source: str) -> str:
    number, root = value_of(source[::-1]), 0
    for place in reversed(range(len(source))):
        if (root + 2**place) ** 2 <= number:
            root += 2**place
    return digits_of(root).ljust(len(source), "0")[: (len(source) + 1) // 2][::-1]


DEFINITIONS: dict[str, Callable[[str], object]] = {
    "even-pairs": lambda s: sum(a != b for a, b in pairwise(s)) % 2,
    "parity": lambda s: s.count("1") % 2,
    "cycle-navigation": lambda s: (s.count("2") - s.count("0")) % 5,
    "modular-arithmetic": expression_value,
    "reverse": lambda s: s[::-1],
    "modular-arithmetic-brackets": expression_value,
    "solve-equation": solve,
    "duplicate": lambda s: s + s,
    "missing-duplicate": missing,
    "odds-first": lambda s: s[1::2] + s[0::2],
    "binary-addition": add,
    "binary-multiplication": multiply,
    "square-root": square_root,
    "bucket-sort": lambda s: "".join(sorted(s)),
}


def defined(name: str, source: Words) -> Words:
    if name == "stack-manipulation":
        return list(run_stack(source))
    return list(str(DEFINITIONS[name]("".join(source))))


@pytest.mark.parametrize(
    ("name", "source", "target"), WORKED, ids=lambda given: "".join(given) or None
)
def test_an_answer_worked_by_hand(name: str, source: Words, target: Words) -> None:
    task = task_of(name)
    numbers = task.vocabulary.encode_source(source)
    answer = task.answer(numbers, np.array([len(source)]))
    assert task.vocabulary.decode_target(answer) == target
    assert task.output_length(len(source)) == len(target)
    assert defined(name, source) == target


@pytest.mark.parametrize("name", NAMES)
def test_answers_to_many_sources_at_once_are_those_to_each(name: str) -> None:
    task, pairs = task_of(name), [pair for pair in WORKED if pair[0] == name]
    sources = [task.vocabulary.encode_source(source) for _, source, _ in pairs]
    answers = task.answer(np.concatenate(sources), np.array([len(each) for each in sources]))
    together = [symbol for _, _, target in pairs for symbol in target]
    assert task.vocabulary.decode_target(answers) == together


@pytest.mark.parametrize("length", [*range(1, 13), 40, 500])
@pytest.mark.parametrize("name", NAMES)
def test_the_target_follows_from_the_source(name: str, length: int) -> None:
    shorter = name == "modular-arithmetic" and length % 2 == 0
    for source, target in drawn(name, 40, length, length):
        assert len(source) == length - shorter
        assert target == defined(name, source)
        assert len(target) == task_of(name).output_length(len(source))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_all_lengths_is_right_in_every_row(name: str) -> None:
    for source, target in drawn(name, 300, 1, 60):
        assert target == defined(name, source)


def sources(name: str, length: int) -> list[str]:
    return ["".join(source) for source, _ in drawn(name, 10_000, length, length)]


def fits(samples: Iterable[Hashable], likely: Mapping[Hashable, float]) -> bool:
    """Whether samples can have come from a distribution, which may be of one outcome."""
    if len(likely) == 1:
        return set(samples) == set(likely)
    return chi_square.fit(samples, likely) > SURE


@pytest.mark.parametrize("name", NAMES)
def test_lengths_are_uniform(name: str) -> None:
    odd_only = name == "modular-arithmetic"  # where an even length becomes the odd one before it
    lengths = [len(source) for source, _ in drawn(name, 4_000, 1, 40)]
    possible = range(1, 40, 2) if odd_only else range(1, 41)
    assert fits(lengths, dict.fromkeys(possible, 1 / len(possible)))


@pytest.mark.parametrize(
    "name", ["even-pairs", "parity", "cycle-navigation", "reverse", "duplicate", "odds-first"]
)
def test_all_strings_of_a_length_are_equally_likely(name: str) -> None:
    strings = ["".join(s) for s in product(task_of(name).vocabulary.source[:-1], repeat=5)]
    assert fits(sources(name, 5), dict.fromkeys(strings, 1 / len(strings)))


def test_what_is_sorted_is_uniform() -> None:
    strings = map("".join, product("01234", repeat=4))
    assert fits(sources("bucket-sort", 4), dict.fromkeys(strings, 1 / 625))


@pytest.mark.parametrize("length", [3, 4])
def test_digits_and_operators_are_uniform(length: int) -> None:
    strings = map("".join, product("01234", "+-*", "01234"))
    assert fits(sources("modular-arithmetic", length), dict.fromkeys(strings, 1 / 75))


def test_stacks_have_uniform_heights_and_actions() -> None:
    found = [source for source, _ in drawn("stack-manipulation", 10_000, 4, 4)]
    stack, action = ["0", "1"], ["pop", "push0", "push1"]
    likely = {
        words: 1 / 3 / 2**height / 3 ** (4 - height)
        for height in (1, 2, 3)
        for words in product(*[stack] * height, *[action] * (4 - height))
    }
    assert fits([tuple(words) for words in found], likely)
    assert fits(sources("stack-manipulation", 1), {"0": 0.5, "1": 0.5})


def expressions(length: int, operators: str) -> dict[str, float]:
    """All expressions with brackets of a length, and how likely they are."""
    if length < 5:
        form = ("", "{}", "-{}", "({})", "(-{})")[length]
        return {form.format(digit): 0.2 for digit in range(5)}
    share = 1 / (length - 4) / len(operators)
    return {
        f"({left}{operator}{right})": share * p * q
        for size in range(1, length - 3)
        for left, p in expressions(size, operators).items()
        for right, q in expressions(length - 3 - size, operators).items()
        for operator in operators
    }


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7])
def test_expressions_with_brackets_have_the_probabilities_of_the_definition(length: int) -> None:
    likely = expressions(length, "+-*")
    assert sum(likely.values()) == pytest.approx(1)
    assert fits(sources("modular-arithmetic-brackets", length), likely)


def test_longer_expressions_divide_uniformly() -> None:
    found = sources("modular-arithmetic-brackets", 40)
    lefts = [operand_size(each[1:]) for each in found]
    assert fits(lefts, dict.fromkeys(range(1, 37), 1 / 36))


def operand_size(text: str) -> int:
    """How many symbols the operand has that a text begins with."""
    if text[0] != "(":
        return 2 if text[0] == "-" else 1
    depth = 0
    for place, symbol in enumerate(text):
        depth += {"(": 1, ")": -1}.get(symbol, 0)
        if depth == 0:
            return place + 1
    raise AssertionError(text)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 8])
def test_equations_have_the_probabilities_of_the_definition(length: int) -> None:
    likely: dict[str, float] = {}
    for side, p in expressions(length - 2, "+-").items() if length > 2 else ():
        for place in range(len(side)):
            while not side[place].isdigit():
                place = (place + 1) % len(side)
            equation = f"{side[:place]}x{side[place + 1 :]}={expression_value(side)}"
            likely[equation] = likely.get(equation, 0) + p / len(side)
    likely = likely or {"0" * length: 1.0}
    assert fits(sources("solve-equation", length), likely)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
def test_any_place_of_a_duplicate_may_be_missing(length: int) -> None:
    half = length // 2
    likely: dict[str, float] = {"1": 1.0} if length == 1 else {}
    for word in map("".join, product("01", repeat=half)):
        for place in range(2 * half):
            twice = list(word + word)
            twice[place] = "2"
            source = "".join(twice) + "3" * (length % 2)
            likely[source] = likely.get(source, 0) + 1 / 2**half / (2 * half)
    assert fits(sources("missing-duplicate", length), likely)


def test_the_missing_symbol_is_the_parity_of_the_others() -> None:
    """So the docs say: the task asks for less than a memory."""
    for source, target in drawn("missing-duplicate", 2_000, 1, 100):
        assert target == [str(source.count("1") % 2)]


@pytest.mark.parametrize("name", ["binary-addition", "binary-multiplication"])
@pytest.mark.parametrize("length", [3, 4, 5, 7])
def test_two_numbers_are_uniform_and_positive(name: str, length: int) -> None:
    likely = {}
    for first in range(1, length - 1):
        second = length - 1 - first
        for a in range(1, 2**first):
            for b in range(1, 2**second):
                source = f"{digits_of(a).ljust(first, '0')}2{digits_of(b).ljust(second, '0')}"
                likely[source] = 1 / (length - 2) / (2**first - 1) / (2**second - 1)
    assert fits(sources(name, length), likely)


@pytest.mark.parametrize("name", ["binary-addition", "binary-multiplication"])
def test_one_number_of_one_or_two_digits_is_never_all_ones(name: str) -> None:
    assert set(sources(name, 1)) == {"0"}
    assert fits(sources(name, 2), dict.fromkeys(["00", "10", "01"], 1 / 3))


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_what_the_root_is_taken_of_is_uniform_and_positive(length: int) -> None:
    numbers = [f"{number:0{length}b}" for number in range(1, 2**length)]
    assert fits(sources("square-root", length), dict.fromkeys(numbers, 1 / len(numbers)))


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_same_pairs_and_another_seed_others(name: str) -> None:
    assert drawn(name, 50, 1, 40) == drawn(name, 50, 1, 40)
    assert drawn(name, 50, 1, 40) != drawn(name, 50, 1, 40, seed=1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("count", "lengths", "message"),
    [
        (0, (1, 40), "0 pairs asked for: expected at least 1"),
        (-3, (1, 40), "-3 pairs asked for: expected at least 1"),
        (5, (0, 40), "lengths 0-40: expected low-high with 1 <= low <= high"),
        (5, (41, 40), "lengths 41-40: expected low-high with 1 <= low <= high"),
    ],
)
def test_a_bad_request_is_refused(
    name: str, count: int, lengths: tuple[int, int], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        task_of(name).sample(batch_rng(0, "chomsky", 0), count, lengths)


SIZES = {  # source symbols without the blank, classes, chance
    "even-pairs": (2, 2, 0.5),
    "parity": (2, 2, 0.5),
    "cycle-navigation": (3, 5, 0.2),
    "modular-arithmetic": (8, 5, 0.2),
    "stack-manipulation": (5, 3, 0.5),
    "reverse": (2, 2, 0.5),
    "modular-arithmetic-brackets": (10, 5, 0.2),
    "solve-equation": (11, 5, 0.2),
    "duplicate": (2, 2, 0.5),
    "missing-duplicate": (4, 2, 0.5),
    "odds-first": (2, 2, 0.5),
    "binary-addition": (3, 3, 0.5),
    "binary-multiplication": (3, 3, 0.5),
    "square-root": (2, 2, 0.5),
    "bucket-sort": (5, 5, 0.2),
}


@pytest.mark.parametrize("name", NAMES)
def test_symbols_and_chance_are_the_papers(name: str) -> None:
    task = task_of(name)
    symbols, classes, chance = SIZES[name]
    assert len(task.vocabulary.source) == symbols + 1
    assert len(task.vocabulary.target) == classes
    assert task.chance == chance
    used = {symbol for source, _ in drawn(name, 500, 1, 40) for symbol in source}
    assert used == set(task.vocabulary.source) - {"_"}


@pytest.mark.parametrize("name", NAMES)
def test_the_blank_is_the_last_source_symbol_and_survives_saving(name: str) -> None:
    vocabulary = task_of(name).vocabulary
    assert vocabulary.blank == vocabulary.source[-1] == "_"
    assert Vocabulary.from_dict(vocabulary.to_dict()) == vocabulary


@pytest.mark.parametrize("name", NAMES)
def test_a_terminator_occurs_once_and_only_0s_follow_it(name: str) -> None:
    ended = ("stack-manipulation", "binary-addition", "binary-multiplication")
    assert task_of(name).terminator == ("2" if name in ended else None)
    for _, target in drawn(name, 200, 1, 40) if name in ended else ():
        assert target.count("2") == 1
        assert set(target[target.index("2") + 1 :]) <= {"0"}


@pytest.mark.parametrize("name", NAMES)
def test_the_example_in_the_list_of_tasks_is_right(name: str) -> None:
    source, _, target = EXAMPLE_PAIRS[f"chomsky/{name}"].partition(" ||| ")
    assert defined(name, source.split()) == target.split()


def test_the_table_of_the_docs_is_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text("utf-8").replace(r"\|", "¦")
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+) / (\d+) \|.*\| (\S+) \| `(.+)` \|$", page, re.M)
    assert [name for name, *_ in rows] == NAMES
    for name, symbols, classes, chance, example in rows:
        assert (int(symbols), int(classes), float(chance)) == SIZES[name]
        source, target = (side.split() for side in example.split(" ¦¦¦ "))
        assert defined(name, source) == target


def test_only_what_comes_up_to_the_terminator_counts() -> None:
    task = get_task("chomsky/stack-manipulation")
    symbols = task.vocabulary
    pairs = Pairs.of(
        [
            ([0], symbols.encode_target(["1", "1", "0", "2", "0", "0", "0", "0"]).tolist()),
            ([1], symbols.encode_target(["0", "2"]).tolist()),
        ]
    )
    scored = task.scored(pairs)
    found = [symbols.decode_target(target) for _, target in scored]
    assert found == [["1", "1", "0", "2"], ["0", "2"]]
    assert scored.target_lengths.tolist() == [4, 2]
    reverse = get_task("chomsky/reverse")
    drawn = reverse.sample(batch_rng(0, "test", 0), 3, (4, 6))
    assert reverse.scored(drawn) is drawn
