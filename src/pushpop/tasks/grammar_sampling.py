"""Exact derivations of a given source length, compiled: arrays of a grammar, the inside recursion
and the draw.

Importing this module imports Numba; `grammar_task.py` does so when it first draws.
"""

from itertools import chain
from typing import NamedTuple

import numpy as np

from pushpop.compiled import compiled
from pushpop.tasks.base import FloatArray, IntArray, Vocabulary
from pushpop.tasks.grammar import Grammar, Link, Rule


class Tables(NamedTuple):
    """A grammar as arrays. Nonterminals, rules and terminals are numbers; the rules of a
    nonterminal stand together. `first_*` has one entry more than it has things: those of thing i
    go from first[i] to first[i + 1]. On a side, a terminal is its number and child k is -1 - k."""

    weight: FloatArray  # [rules] probability
    words: IntArray  # [rules] terminals on the source side
    first_rule: IntArray  # [nonterminals + 1]
    first_child: IntArray  # [rules + 1]
    child: IntArray  # nonterminals, in the order of the source side
    first_source: IntArray  # [rules + 1]
    source: IntArray
    first_target: IntArray  # [rules + 1]
    target: IntArray
    units_first: IntArray  # [nonterminals] each after those its unit rules lead to
    chain: int  # the most nonterminals in a row of unit rules, the last one's other rules included


def compile_grammar(grammar: Grammar, vocabulary: Vocabulary) -> Tables:
    """The grammar as arrays; its root becomes nonterminal 0."""
    numbers = {name: number for number, name in enumerate(grammar.by_left)}
    rules = [rule for group in grammar.by_left.values() for rule in group]

    def codes(rule: Rule, side: str) -> list[int]:
        words = {word: number for number, word in enumerate(getattr(vocabulary, side))}
        return [
            -1 - rule.children.index(symbol) if isinstance(symbol, Link) else words[symbol]
            for symbol in getattr(rule, side)
        ]

    chains: dict[str, int] = {}
    for name in grammar.units_first():
        units = (rule.children[0].name for rule in grammar.by_left[name] if rule.unit)
        chains[name] = 1 + max((chains[child] for child in units), default=0)
    first_child, child = _flat([[numbers[link.name] for link in rule.children] for rule in rules])
    first_source, source = _flat([codes(rule, "source") for rule in rules])
    first_target, target = _flat([codes(rule, "target") for rule in rules])
    return Tables(
        weight=np.array([float(rule.probability) for rule in rules]),
        words=np.array([len(rule.source) - len(rule.children) for rule in rules]),
        first_rule=np.cumsum([0, *map(len, grammar.by_left.values())]),
        first_child=first_child,
        child=child,
        first_source=first_source,
        source=source,
        first_target=first_target,
        target=target,
        units_first=np.array([numbers[name] for name in chains]),
        chain=max(chains.values()),
    )


def _flat(rows: list[list[int]]) -> tuple[IntArray, IntArray]:
    """Where each row starts (and the last one ends), and the rows end to end."""
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return first, np.fromiter(chain.from_iterable(rows), np.int64)


class Inside(NamedTuple):
    """Probabilities over source lengths n = 0 ... longest, for a grammar's `Tables`."""

    P: FloatArray  # [nonterminals, n] that nonterminal x derives a source of length n
    Q: FloatArray  # [children, n] that a child and those after it in its rule do so together
    R: FloatArray  # [n, rules] P of the left-hand side, its rules summed up to this one


@compiled()
def inside(g: Tables, longest: int) -> Inside:
    """Everything derives at least one symbol, so a sum over two or more children only asks for
    shorter lengths, and a unit rule asks for the same length of a nonterminal already done."""
    P = np.zeros((len(g.first_rule) - 1, longest + 1))
    Q = np.zeros((len(g.child), longest + 1))
    R = np.zeros((longest + 1, len(g.weight)))
    for n in range(1, longest + 1):
        for rule in range(len(g.weight)):
            for c in range(g.first_child[rule], g.first_child[rule + 1] - 1):
                total = 0.0
                for part in range(1, n):
                    total += P[g.child[c], part] * Q[c + 1, n - part]
                Q[c, n] = total
        for x in g.units_first:
            total = 0.0
            for rule in range(g.first_rule[x], g.first_rule[x + 1]):
                rest = n - g.words[rule]
                first, children = g.first_child[rule], g.first_child[rule + 1] - g.first_child[rule]
                if children == 0 and rest == 0:
                    total += g.weight[rule]
                elif children == 1 and rest > 0:
                    total += g.weight[rule] * P[g.child[first], rest]
                elif children > 1 and rest > 0:
                    total += g.weight[rule] * Q[first, rest]
                R[n, rule] = total
            P[x, n] = total
        for rule in range(len(g.weight)):
            last = g.first_child[rule + 1] - 1
            if last >= g.first_child[rule]:
                Q[last, n] = P[g.child[last], n]
    return Inside(P, Q, R)


def draws_needed(g: Tables, lengths: IntArray) -> int:
    """At most so many uniform numbers make derivations of these lengths."""
    total = int(lengths.sum())
    return (2 * total - len(lengths)) * g.chain + total - len(lengths)


@compiled()
def derive(
    g: Tables, probabilities: Inside, lengths: IntArray, uniforms: FloatArray
) -> tuple[IntArray, IntArray, IntArray]:
    """For each length a derivation from nonterminal 0, drawn given that its source has it: the
    sources and the targets, each laid end to end, and the targets' lengths.

    The tree is a list of nodes in which children come after their parent and stand together, so
    that walking it up or down is a loop and no depth is too deep. A rule either has a word of its
    own or splits its length, which can happen 2n - 1 times; between two such rules there are at
    most `g.chain` - 1 unit rules. A node asks for one uniform number, and for another each time it
    splits, which `draws_needed` counts.
    """
    P, Q, R = probabilities
    capacity = (2 * lengths.max() - 1) * g.chain
    symbol = np.empty(capacity, np.int64)  # the node's nonterminal
    size = np.empty(capacity, np.int64)  # its source length
    rule = np.empty(capacity, np.int64)
    kids = np.empty(capacity, np.int64)  # its first child
    target_size = np.empty(capacity, np.int64)
    source_at = np.empty(capacity, np.int64)  # where its part of the source starts
    target_at = np.empty(capacity, np.int64)

    source = np.empty(lengths.sum(), np.int64)
    target = np.empty(2 * lengths.sum() + 64, np.int64)
    target_lengths = np.empty(len(lengths), np.int64)
    source_end = 0
    target_end = 0
    drawn = 0
    for row in range(len(lengths)):
        symbol[0] = 0
        size[0] = lengths[row]
        count = 1
        node = 0
        while node < count:
            x, n = symbol[node], size[node]
            threshold = uniforms[drawn] * P[x, n]
            drawn += 1
            r, beyond = g.first_rule[x], g.first_rule[x + 1] - 1
            while r < beyond:  # the first rule whose running sum is above the threshold
                middle = (r + beyond) // 2
                if R[n, middle] > threshold:
                    beyond = middle
                else:
                    r = middle + 1
            rule[node] = r
            kids[node] = count
            rest = n - g.words[r]
            for c in range(g.first_child[r], g.first_child[r + 1]):
                part = rest
                if c + 1 < g.first_child[r + 1]:
                    threshold = uniforms[drawn] * Q[c, rest]
                    drawn += 1
                    total = 0.0
                    for candidate in range(1, rest):
                        weight = P[g.child[c], candidate] * Q[c + 1, rest - candidate]
                        if weight > 0.0:  # whatever rounding does, an impossible part is not taken
                            part = candidate
                            total += weight
                            if total > threshold:
                                break
                symbol[count] = g.child[c]
                size[count] = part
                rest -= part
                count += 1
            node += 1

        for node in range(count - 1, -1, -1):
            r = rule[node]
            target_size[node] = 0
            for i in range(g.first_target[r], g.first_target[r + 1]):
                code = g.target[i]
                target_size[node] += 1 if code >= 0 else target_size[kids[node] - 1 - code]

        while target_end + target_size[0] > len(target):
            target = np.concatenate((target, np.empty_like(target)))
        source_at[0] = source_end
        target_at[0] = target_end
        source_end += size[0]
        target_end += target_size[0]
        target_lengths[row] = target_size[0]
        for node in range(count):
            r = rule[node]
            at = source_at[node]
            for i in range(g.first_source[r], g.first_source[r + 1]):
                code = g.source[i]
                if code >= 0:
                    source[at] = code
                    at += 1
                else:
                    source_at[kids[node] - 1 - code] = at
                    at += size[kids[node] - 1 - code]
            at = target_at[node]
            for i in range(g.first_target[r], g.first_target[r + 1]):
                code = g.target[i]
                if code >= 0:
                    target[at] = code
                    at += 1
                else:
                    target_at[kids[node] - 1 - code] = at
                    at += target_size[kids[node] - 1 - code]
    return source, target[:target_end].copy(), target_lengths
