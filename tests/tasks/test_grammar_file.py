"""Grammar files: what a user can write, and what they are told when it is wrong."""

from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from pushpop.errors import InputError
from pushpop.tasks import Link, Rule, get_task, parse_grammar, read_grammar

GOOD = """\
# a comment
1/2  A -> A[1] and A[7] | A[7] und A[1]   # another

0.25 A -> x{1..2}       | y{8..9}
"""

BAD = {
    "no arrow": ("1 A x | y", 1, "expected `probability left -> source | target`, found `1 A x`"),
    "no probability": ("A -> x | y", 1, "expected `probability left"),
    "two arrows": ("1 A -> x -> y | z", 1, "expected `probability left"),
    "no bar": ("1 A -> x y", 1, "one | between source and target, found 0"),
    "two bars": ("1 A -> x | y | z", 1, "one | between source and target, found 2"),
    "probability no number": ("# ok\np A -> x | y", 2, "p: expected a probability, such as 1/4"),
    "negative probability": ("-1 A -> x | y", 1, "-1: expected a probability"),
    "division by zero": ("1/0 A -> x | y", 1, "1/0: division by 0"),
    "probability zero": ("1 A -> x | y\n0 A -> z | y", 2, "probability 0: expected above 0"),
    "probability above one": ("3/2 A -> x | y", 1, "probability 3/2: expected above 0, at most 1"),
    "left side no name": ("1 A[1] -> x | y", 1, "A[1]: a nonterminal's name is a letter"),
    "sum below one": (
        "1 A -> B[1] | B[1]\n\n1/5 B -> x | y\n3/5 B -> z | y",
        3,
        "probabilities of B sum to 4/5 = 0.8, expected 1",
    ),
    "sum above one": ("1 A -> x | y\n1 A -> z | y", 1, "probabilities of A sum to 2, expected 1"),
    "unknown nonterminal": (
        "1 A -> Noun[1] | Noun[1]\n1 Nuon -> x | y",
        1,
        "Noun[1]: no rule for Noun; did you mean 'Nuon'?",
    ),
    "nonterminal without its index": ("1 A -> B | B[1]\n1 B -> x | y", 1, "B looks like a"),
    "index without its brackets": ("1 A -> B1 | B1\n1 B -> x | y", 1, "write B[1], or B1 in quo"),
    "linked on the source side only": (
        "1/2 A -> x | y\n1/2 A -> A[1] A[2] | A[1]",
        2,
        "A[2] is linked to nothing: only on the source side",
    ),
    "linked on the target side only": (
        "1/2 A -> x | y\n1/2 A -> z A[1] | A[1] A[2]",
        2,
        "A[2] is linked to nothing: only on the target side",
    ),
    "linked to another nonterminal": (
        "1 A -> B[1] C[2] | B[2] C[1]\n1 B -> x | y\n1 C -> x | y",
        1,
        "B[1] on the source side is linked to C[1]",
    ),
    "index twice": ("1/2 A -> x | y\n1/2 A -> A[1] A[1] | A[1]", 2, "[1] occurs twice on the sou"),
    "empty source": ("1/2 A -> x | y\n1/2 A -> | y", 2, "the source side is empty"),
    "nothing terminates": ("1 A -> x A[1] | A[1] y", 1, "A never terminates"),
    "a part never terminates": (
        "1/2 A -> x | y\n1/2 A -> B[1] | B[1]\n1 B -> B[1] A[2] | A[2] B[1]",
        3,
        "B never terminates",
    ),
    "derives itself": (
        "1/2 A -> B[1] | B[1]\n1/2 A -> x | y\n1/2 B -> z | y\n1/2 B -> A[1] | A[1]",
        4,
        "A derives itself alone (A -> B -> A)",
    ),
    "never used": ("1 A -> x | y\n1 B -> x | y", 2, "B is never used"),
    "ranges of different sizes": (
        "1/3 A -> x{1..3} | y{1..4}",
        1,
        "ranges of different sizes: x{1..3} has 3, y{1..4} has 4",
    ),
    "empty range": ("1 A -> x{3..1} | y", 1, "x{3..1}: the range is empty"),
    "open quote": ('1 A -> "x | y', 1, '"x: expected "symbol" in double quotes'),
    "text after a quote": ('1 A -> "x"s | y', 1, '"x"s: expected "symbol" in double quotes'),
}


def test_a_file_is_read_rule_by_rule(tmp_path: Path) -> None:
    path = tmp_path / "good.itg"
    path.write_text(GOOD)
    grammar = read_grammar(path)
    first, second = Link("A", 1), Link("A", 7)
    assert grammar.rules == (
        Rule("A", Fraction(1, 2), (first, "and", second), (second, "und", first), 2),
        Rule("A", Fraction(1, 4), ("x1",), ("y8",), 4),
        Rule("A", Fraction(1, 4), ("x2",), ("y9",), 4),
    )
    assert grammar.root == "A"
    assert grammar.rules[0].permutation == (1, 0)
    assert grammar.terminals() == (("and", "x1", "x2"), ("und", "y8", "y9"))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_windows_line_ends_and_byte_order_marks_do_no_harm(
    tmp_path: Path, newline: str, mark: str
) -> None:
    path = tmp_path / "windows.itg"
    path.write_bytes((mark + GOOD.replace("\n", newline)).encode())
    assert read_grammar(path).rules == parse_grammar(GOOD).rules


def test_quotes_make_a_terminal_of_anything() -> None:
    grammar = parse_grammar('1 A -> "|" "->" "#" "A1" "B[1]" "x{1..2}" """ | a"b a#b')
    assert grammar.rules[0].source == ("|", "->", "#", "A1", "B[1]", "x{1..2}", '"')
    assert grammar.rules[0].target == ('a"b', "a#b")


def test_a_side_may_have_several_ranges_and_a_target_may_be_empty() -> None:
    grammar = parse_grammar("1/2 A -> x{1..2}y{3..4} z{5..6} |")
    assert [rule.source for rule in grammar.rules] == [("x1y3", "z5"), ("x2y4", "z6")]
    assert grammar.rules[0].target == ()


def test_decimals_may_miss_one_by_a_billionth_but_not_by_more() -> None:
    parse_grammar("0.3333333333 A -> x | y\n0.6666666666 A -> z | y")
    with pytest.raises(InputError, match="sum to"):
        parse_grammar("0.333 A -> x | y\n0.666 A -> z | y")


@pytest.mark.parametrize(("text", "line", "message"), BAD.values(), ids=BAD.keys())
def test_a_mistake_is_named_with_file_and_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = tmp_path / "bad.itg"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        get_task(str(path))
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


def test_a_file_without_rules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.itg"
    path.write_text("# nothing here\n\n")
    with pytest.raises(InputError, match=r"empty\.itg: no rules"):
        read_grammar(path)


def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin1.itg"
    path.write_bytes("1/2 A -> x | y\n1/2 A -> für | y".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin1\.itg:2: not UTF-8"):
        read_grammar(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.itg: cannot be read \(No such file"):
        read_grammar(tmp_path / "no.itg")
    with pytest.raises(InputError, match="cannot be read"):
        read_grammar(tmp_path)


TOKENS = ["1", "1/2", "A", "B", "->", "|", "A[1]", "B[2]", "x", "x{1..2}", '"y"', "#", "\n", "0"]


@given(st.lists(st.sampled_from(TOKENS), max_size=24).map(" ".join) | st.text(max_size=60))
@example("1 A -> x | y")
@example("9" * 5000 + " A -> x[" + "9" * 5000 + "] | y")
def test_any_text_is_a_grammar_or_an_input_error(text: str) -> None:
    try:
        grammar = parse_grammar(text)
    except InputError:
        return
    assert grammar.root in grammar.by_left


def test_the_example_in_the_docs_is_a_grammar() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "tasks.md").read_text(encoding="utf-8")
    text = page.partition("## Writing a grammar")[2].split("```")[1]
    assert len(parse_grammar(text).rules) == 4 + 20 + 10
