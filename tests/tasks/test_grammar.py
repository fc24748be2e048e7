"""Grammars made in Python, not read from a file."""

from fractions import Fraction

import pytest

from pushpop.errors import InputError
from pushpop.tasks import Grammar, GrammarTask, Link, Rule, batch_rng, get_task

ONE = Fraction(1)
X, Y = Link("X", 1), Link("X", 2)


def test_a_grammar_can_be_made_of_rules() -> None:
    rules = (Rule("A", ONE, (X, "of", Y), (Y, X)), Rule("X", ONE, ("x",), ("y", "z")))
    task = GrammarTask(Grammar(rules), name="pairs of x")
    ((source, target),) = task.sample(batch_rng(0, "", 0), 1, (3, 3))
    assert task.name == "pairs of x"
    assert task.vocabulary.decode_source(source) == ["x", "of", "x"]
    assert task.vocabulary.decode_target(target) == ["y", "z", "y", "z"]


def test_a_mistake_names_the_rule_when_there_is_no_line() -> None:
    with pytest.raises(InputError, match=r"grammar:rule 2: X\[1\] is linked to nothing"):
        Grammar((Rule("X", ONE / 2, ("x",), ("y",)), Rule("X", ONE / 2, (X, "x"), ())))


def test_the_root_of_the_papers_grammars_inverts_verb_and_object() -> None:
    grammar = get_task("svo-sov").grammar  # type: ignore[attr-defined]
    assert grammar.rules[0].permutation == (0, 2, 1)
    inverted = [
        rule for rule in grammar.rules if list(rule.permutation) != sorted(rule.permutation)
    ]
    assert inverted == [grammar.rules[0]]


def test_units_come_before_those_that_lead_to_them() -> None:
    chain = [Rule(a, ONE, (Link(b, 1),), (Link(b, 1),)) for a, b in ("AB", "BC", "CD")]
    grammar = Grammar((*chain, Rule("D", ONE, ("d",), ("d",))))
    assert list(grammar.units_first()) == ["D", "C", "B", "A"]
