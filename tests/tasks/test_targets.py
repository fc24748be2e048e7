"""Tasks tell the right target of a source that somebody typed."""

import pytest

from pushpop.tasks import batch_rng
from pushpop.tasks.grammar import parse_grammar
from pushpop.tasks.grammar_task import LONGEST, translate
from pushpop.tasks.registry import TASKS, get_task

TOLD = [name for name in TASKS if not name.startswith("chomsky/")]
TOLD += [f"chomsky/{name}" for name in ("parity", "reverse", "duplicate", "bucket-sort")]


@pytest.mark.parametrize("name", TOLD)
def test_the_target_of_a_source_is_the_one_that_is_drawn_with_it(name: str) -> None:
    task = get_task(name)
    for lengths in ((2, 8), (9, 24)):
        for source, target in task.scored(task.sample(batch_rng(3, "test", 0), 5, lengths)):
            symbols = task.vocabulary.decode_source(source)
            assert task.target_of(symbols) == tuple(task.vocabulary.decode_target(target))


@pytest.mark.parametrize("name", TASKS)
def test_a_target_is_told_right_or_not_at_all(name: str) -> None:
    task = get_task(name)
    ((source, target),) = task.scored(task.sample(batch_rng(5, "test", 0), 1, (12, 12)))
    found = task.target_of(task.vocabulary.decode_source(source))
    assert found in (None, tuple(task.vocabulary.decode_target(target)))
    assert task.target_of([]) is None
    assert task.target_of(["no such symbol", "nor this"]) is None


@pytest.mark.parametrize(
    ("task", "source"),
    [
        ("flip", "a1 a2 a3"),
        ("brackets", "( ]"),
        ("brackets", ")"),
        ("svo-sov", "si1 oi1 vi1"),
        ("svo-sov", "si1 vi1 vi2 oi1"),
        ("gender", "the me1"),
        ("chomsky/reverse", "0 1 _"),
    ],
)
def test_what_is_no_source_of_a_task_has_no_target(task: str, source: str) -> None:
    assert get_task(task).target_of(source.split()) is None


@pytest.mark.parametrize(
    ("task", "source", "target"),
    [
        ("svo-sov", "si1 vi28 oi5 oi7 si15 rpi si19 vi16", "so1 oo5 oo7 so15 rpo so19 vo16 vo28"),
        ("gender", "the ne19 and the me17 we11", "das ng19 und der mg17 wg11"),
        ("brackets", "( [ ] [ (", ") ] )"),
        ("flip", "a5 a7 a1 a2", "a7 a5 a2 a1"),
    ],
)
def test_examples(task: str, source: str, target: str) -> None:
    assert get_task(task).target_of(source.split()) == tuple(target.split())


def test_a_source_with_two_targets_has_no_right_one() -> None:
    grammar = parse_grammar(
        "1/2 A -> x B[1] | B[1] y\n1/2 A -> x B[1] | y B[1]\n1 B -> b | c\n", "g"
    )
    assert translate(grammar, ("x", "b")) is None
    assert translate(grammar, ("b",)) is None


def test_targets_are_not_lost_among_derivations_of_the_same_one() -> None:
    grammar = parse_grammar(
        "1 S -> A[1] B[2] | A[1] B[2]\n"
        "1/3 A -> p | a\n1/3 A -> p q | a b\n1/3 A -> p q | z\n"
        "1/2 B -> q r | b c\n1/2 B -> r | c\n",
        "g",
    )
    assert translate(grammar, ("p", "q", "r")) is None  # a b c, in two ways, and z c


def test_a_source_that_would_take_too_long_is_left_alone() -> None:
    task = get_task("svo-sov")
    long = ["si1"] * (LONGEST - 1) + ["vi1", "oi1"]
    assert task.target_of(long) is None
    assert task.target_of(long[40:]) == ("so1",) * (LONGEST - 41) + ("oo1", "vo1")
