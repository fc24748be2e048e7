"""Exact sampling from grammars: the paper's distribution at a given range of source lengths."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from pushpop.errors import InputError
from pushpop.tasks import Grammar, GrammarTask, batch_rng, get_task, parse_grammar

from . import chi_square
from .paper_grammars import PAPER, bare

NAMES = list(PAPER)
SURE = 1e-3  # a p-value below this is no accident: the seeds are fixed


def words(task: GrammarTask, count: int, low: int, high: int, seed: int = 0) -> list[tuple]:
    pairs = task.sample(batch_rng(seed, "words", 0), count, (low, high))
    vocabulary = task.vocabulary
    return [
        (tuple(vocabulary.decode_source(source)), tuple(vocabulary.decode_target(target)))
        for source, target in pairs
    ]


def traced(task: GrammarTask, count: int, low: int, high: int) -> list[tuple[int, Counter[int]]]:
    """Source length and rule counts of derivations: the targets are made to spell the rules."""
    lines = list(dict.fromkeys(rule.line for rule in task.grammar.rules))
    rules = tuple(
        replace(rule, target=(str(lines.index(rule.line)), *rule.children))
        for rule in task.grammar.rules
    )
    drawn = words(GrammarTask(Grammar(rules)), count, low, high)
    return [(len(source), Counter(map(int, target))) for source, target in drawn]


@pytest.fixture(scope="module", params=NAMES)
def both(request: pytest.FixtureRequest) -> tuple[list, list]:
    """Derivations with sources of 8 to 64 words: ours, and those of plain rejection."""
    ours = traced(get_task(request.param), 20_000, 8, 64)
    return ours, PAPER[request.param].rejection(seed=1, count=8_000, low=8, high=64)


def test_lengths_are_distributed_as_by_rejection(both: tuple[list, list]) -> None:
    ours, rejection = ([length for length, _ in side] for side in both)
    assert chi_square.same(ours, rejection) > SURE


def test_rules_are_used_as_often_as_by_rejection(both: tuple[list, list]) -> None:
    ours, rejection = both
    rules = range(max(max(used) for _, used in ours) + 1)
    p_values = [
        chi_square.same((used[rule] for _, used in ours), (used[rule] for _, used in rejection))
        for rule in rules
    ]
    assert min(p_values) * len(p_values) > SURE


def test_rules_are_used_as_often_as_by_rejection_within_each_length(
    both: tuple[list, list],
) -> None:
    ours, rejection = both
    rules = range(max(max(used) for _, used in ours) + 1)
    p_values = [
        chi_square.same(
            ((length // 4, used[rule]) for length, used in ours),
            ((length // 4, used[rule]) for length, used in rejection),
        )
        for rule in rules
    ]
    assert min(p_values) * len(p_values) > SURE


@pytest.mark.parametrize("name", NAMES)
def test_the_comparison_would_notice_uniform_lengths(name: str) -> None:
    rejection = [length for length, _ in PAPER[name].rejection(2, 1_000, 8, 64)]
    uniform = np.random.default_rng(0).integers(8, 65, 4_000).tolist()
    assert chi_square.same(uniform, rejection) < 1e-6


@pytest.mark.parametrize(("name", "low", "high"), [("svo-sov", 3, 7), ("gender", 5, 11)])
def test_short_sources_have_exactly_their_probabilities(name: str, low: int, high: int) -> None:
    paper = PAPER[name]
    exact = {
        skeleton: probability
        for length in range(low, high + 1)
        for skeleton, probability in paper.skeletons("A", length).items()
    }
    total = sum(exact.values())
    drawn = [tuple(map(bare, source)) for source, _ in words(get_task(name), 40_000, low, high)]
    assert chi_square.fit(drawn, {key: float(p / total) for key, p in exact.items()}) > SURE


@pytest.mark.parametrize("name", NAMES)
def test_the_probability_of_a_length_is_the_sum_over_its_sources(name: str) -> None:
    inside = get_task(name).length_probabilities(9)
    exact = [float(sum(PAPER[name].skeletons("A", n).values())) for n in range(10)]
    np.testing.assert_allclose(inside, exact, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_words_of_a_class_are_equally_likely(name: str) -> None:
    paper = PAPER[name]
    counts: dict[str, Counter[str]] = {name: Counter() for name in paper.classes}
    for source, _ in words(get_task(name), 2_000, 8, 64):
        for word in source:
            if bare(word) in counts:
                counts[bare(word)][word] += 1
    for name, seen in counts.items():
        share = 1 / paper.class_size
        uniform = {f"{name}{i + 1}": share for i in range(paper.class_size)}
        assert chi_square.fit(seen.elements(), uniform) > SURE


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("count", "low", "high"), [(150, 5, 18), (3, 30, 34)])
def test_the_target_is_what_parsing_the_source_gives(
    name: str, count: int, low: int, high: int
) -> None:
    for source, target in words(get_task(name), count, low, high):
        assert PAPER[name].translations(source) == {target}


def test_the_parser_refuses_what_the_grammar_cannot_derive() -> None:
    assert PAPER["gender"].translations(("we1", "the", "me1", "and", "the", "fe2")) == set()
    assert PAPER["svo-sov"].translations(("si1", "vi34", "oi1")) == set()
    assert PAPER["svo-sov"].translations(("si1", "vi33", "oi1")) == {("so1", "oo1", "vo33")}


def gendered(source: tuple[str, ...]) -> tuple[str, ...]:
    """Word for word; an article looks at the noun after it."""
    articles = {"the": {"m": "der", "f": "die", "n": "das"}}
    articles["a"] = {"m": "ein", "f": "eine", "n": "ein"}
    target = []
    for i, word in enumerate(source):
        if word in articles:
            target.append(articles[word][source[i + 1][0]])
        else:
            target.append({"or": "oder", "and": "und"}.get(word) or word.replace("e", "g", 1))
    return tuple(target)


def verb_moved_last(source: tuple[str, ...]) -> tuple[str, ...]:
    """The sentence's own verb is the first with no relative pronoun left open before it."""
    waiting = 0
    for i, word in enumerate(source):
        if bare(word) == "vi" and waiting == 0:
            order = (*source[:i], *source[i + 1 :], word)
            return tuple(f"{bare(w)[:-1]}o{w[len(bare(w)) :]}" for w in order)
        waiting += (word == "rpi") - (bare(word) == "vi")
    raise AssertionError(f"no verb of its own: {source}")


@pytest.mark.parametrize(("low", "high"), [(8, 64), (65, 128), (500, 520)])
def test_the_target_follows_from_the_source(low: int, high: int) -> None:
    for name, transduce in (("gender", gendered), ("svo-sov", verb_moved_last)):
        for source, target in words(get_task(name), 300, low, high):
            assert low <= len(source) <= high
            assert target == transduce(source)


def test_the_papers_own_example_of_svo_sov_translates_as_printed() -> None:
    source = "si1 vi28 oi5 oi7 si15 rpi si19 vi16 oi10 oi24"
    target = "so1 oo5 oo7 so15 rpo so19 vo16 oo10 oo24 vo28"
    assert PAPER["svo-sov"].translations(tuple(source.split())) == {tuple(target.split())}
    assert verb_moved_last(tuple(source.split())) == tuple(target.split())


def test_vocabularies_have_the_papers_sizes() -> None:
    svo, gender = get_task("svo-sov").vocabulary, get_task("gender").vocabulary
    assert (len(svo.source), len(svo.target)) == (3 * 33 + 1, 3 * 33 + 1)
    assert (len(gender.source), len(gender.target)) == (4 * 25 + 4, 4 * 25 + 7)


def test_a_sure_grammar_worked_by_hand() -> None:
    text = """
    1   A -> x B[1] y C[2] | C[2] B[1] z
    1   B -> b | p q
    1   C -> c |
    """
    task = GrammarTask(parse_grammar(text))
    assert words(task, 2, 4, 4) == [(("x", "b", "y", "c"), ("p", "q", "z"))] * 2


def test_catalan_numbers_come_out_of_binary_trees() -> None:
    task = GrammarTask(parse_grammar("1/2 A -> A[1] A[2] | A[2] A[1]\n1/2 A -> a | b"))
    catalan = [1, 1, 2, 5, 14, 42, 132]
    expected = [0.0] + [catalan[n - 1] / 2 ** (2 * n - 1) for n in range(1, 8)]
    np.testing.assert_allclose(task.length_probabilities(7), expected, rtol=1e-15)


def test_a_length_is_divided_among_children_by_its_probability() -> None:
    text = """
    1   A -> L[1] R[2]  | R[2] L[1]
    1/2 L -> L[1] L[2]  | L[1] L[2]
    1/2 L -> l          | l
    1/3 R -> r R[1]     | R[1] r
    2/3 R -> r          | r
    """
    total = 64
    catalan = [1.0]
    for n in range(total):
        catalan.append(catalan[-1] * 2 * (2 * n + 1) / (n + 2))
    weights = {n: catalan[n - 1] / 4**n / 3 ** (total - n) for n in range(1, total)}
    share = {n: weight / sum(weights.values()) for n, weight in weights.items()}
    drawn = words(GrammarTask(parse_grammar(text)), 20_000, total, total)
    assert chi_square.fit([source.count("l") for source, _ in drawn], share) > SURE


def test_a_derivation_may_be_deeper_than_any_recursion_limit() -> None:
    task = GrammarTask(parse_grammar("1/1000 A -> a | b\n999/1000 A -> a A[1] | A[1] b"))
    ((source, target),) = words(task, 1, 5_000, 5_000)
    assert (source, target) == (("a",) * 5_000, ("b",) * 5_000)


def test_a_target_may_be_much_longer_than_its_source() -> None:
    task = GrammarTask(parse_grammar(f"1/2 A -> a | {'b ' * 50}\n1/2 A -> a A[1] | A[1] A1b"))
    ((_, target),) = words(task, 1, 9, 9)
    assert target == ("b",) * 50 + ("A1b",) * 8


def test_only_lengths_that_the_grammar_has_are_drawn() -> None:
    task = GrammarTask(parse_grammar("1/3 A -> a a | b\n2/3 A -> A[1] A[2] A[3] | A[3] A[1] A[2]"))
    drawn = {len(source) for source, _ in words(task, 5_000, 1, 14)}
    assert drawn == {2, 6, 10, 14}


def test_lengths_can_be_made_equally_likely() -> None:
    usual = get_task("svo-sov")
    drawn = [len(source) for source, _ in words(usual.with_uniform_lengths(), 5_000, 8, 17)]
    assert chi_square.fit(drawn, dict.fromkeys(range(8, 18), 0.1)) > SURE
    as_before = [len(source) for source, _ in words(usual, 5_000, 8, 17)]
    assert chi_square.fit(as_before, dict.fromkeys(range(8, 18), 0.1)) < SURE


@pytest.mark.parametrize(("low", "high", "near"), [(3, 5, "2, 6"), (1, 1, "2")])
def test_lengths_that_the_grammar_cannot_have_are_refused(low: int, high: int, near: str) -> None:
    task = GrammarTask(parse_grammar("1/3 A -> a a | b\n2/3 A -> A[1] A[2] A[3] | A[3] A[1] A[2]"))
    with pytest.raises(InputError, match=f"no source of length {low}-{high}.* {near}$"):
        task.sample(batch_rng(0, "", 0), 1, (low, high))


def test_tables_grown_in_steps_give_the_same_pairs() -> None:
    grown, fresh = get_task("gender"), get_task("gender")
    for high in (16, 64, 40, 128):
        grown.sample(batch_rng(0, "", 0), 3, (8, high))
    assert words(grown, 20, 8, 64) == words(fresh, 20, 8, 64)


@st.composite
def small_grammars(draw: st.DrawFn) -> str:
    """Grammars of up to three nonterminals in which each can end and unit rules lead downwards."""
    names = "ABC"[: draw(st.integers(1, 3))]
    lines = []
    for i, name in enumerate(names):
        reach = f"{names[i + 1]}[1]" if i + 1 < len(names) else "w"
        sides = [f"u {reach}" if reach != "w" else "w", "w"]
        for _ in range(draw(st.integers(0, 3))):
            children = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
            side = [f"{child}[{k}]" for k, child in enumerate(children)]
            if len(side) == 1 and children[0] <= name:
                side.append("v")
            sides.append(" ".join(draw(st.permutations(side))))
        weights = [draw(st.integers(1, 9)) for _ in sides]
        for side, weight in zip(sides, weights, strict=True):
            lines.append(f"{weight}/{sum(weights)} {name} -> {side} | {side}")
    return "\n".join(lines)


@settings(deadline=None, max_examples=60)
@given(small_grammars())
def test_length_probabilities_are_the_fixed_point_of_the_rules(text: str) -> None:
    grammar = parse_grammar(text)
    longest = 6
    exact = {name: [Fraction(0)] * (longest + 1) for name in grammar.by_left}
    for _ in range(longest * len(exact) + 1):
        exact = {
            name: [
                sum(column) for column in zip(*(expand(rule, exact) for rule in rules), strict=True)
            ]
            for name, rules in grammar.by_left.items()
        }
    inside = GrammarTask(grammar).length_probabilities(longest)
    np.testing.assert_allclose(inside, np.array(exact["A"], float), rtol=1e-12)


def expand(rule, exact) -> list[Fraction]:  # type: ignore[no-untyped-def]
    """The distribution of a rule's source length, its children having those in `exact`."""
    longest = len(exact["A"]) - 1
    own = len(rule.source) - len(rule.children)
    total = [rule.probability if n == own else Fraction(0) for n in range(longest + 1)]
    for child in rule.children:
        part = exact[child.name]
        total = [sum(total[i] * part[n - i] for i in range(n + 1)) for n in range(longest + 1)]
    return total
