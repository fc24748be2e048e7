"""The two grammars of the paper's appendix, transcribed once more, with a rejection sampler, a
parser and an enumeration that share nothing with the package.

Capitalised tokens are nonterminals, and the digit at their end links the two sides. The words of
a class are numbered: `si` stands for si1 | so1, si2 | so2 and so on.
"""

import random
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache
from itertools import accumulate

Words = tuple[str, ...]


class PaperGrammar:
    def __init__(self, class_size: int, classes: str, table: str) -> None:
        self.class_size = class_size
        self.classes = classes.split()
        self.rules: list[tuple[Fraction, str, Words, Words]] = []
        self.rules_of: dict[str, list[int]] = defaultdict(list)
        for line in table.strip().splitlines():
            probability, left, source, target = line.split(";")
            self.rules_of[left.strip()].append(len(self.rules))
            rule = Fraction(probability.strip()), left.strip()
            self.rules.append((*rule, tuple(source.split()), tuple(target.split())))
        self.children = [[bare(s) for s in rule[2] if s[0].isupper()] for rule in self.rules]
        self.cumulative = {
            left: list(accumulate(float(self.rules[r][0]) for r in numbers))
            for left, numbers in self.rules_of.items()
        }

    def draw(self, rng: random.Random, longest: int) -> tuple[int, Counter[int]] | None:
        """A free derivation: its source length and how often it used each rule; None as soon as
        its source is sure to be longer than `longest`."""
        used: Counter[int] = Counter()
        words, pending = 0, ["A"]
        while pending:
            left = pending.pop()
            (rule,) = rng.choices(self.rules_of[left], cum_weights=self.cumulative[left])
            used[rule] += 1
            words += len(self.rules[rule][2]) - len(self.children[rule])
            pending += self.children[rule]
            if words + len(pending) > longest:
                return None
        return words, used

    def rejection(
        self, seed: int, count: int, low: int, high: int
    ) -> list[tuple[int, Counter[int]]]:
        """Free derivations, the first `count` of them whose source length is in the range."""
        rng = random.Random(seed)
        accepted: list[tuple[int, Counter[int]]] = []
        while len(accepted) < count:
            drawn = self.draw(rng, high)
            if drawn is not None and drawn[0] >= low:
                accepted.append(drawn)
        return accepted

    def translations(self, source: Words) -> frozenset[Words]:
        """Every target that some derivation of the source has; none if there is no derivation."""

        @cache
        def derive(left: str, i: int, j: int) -> frozenset[Words]:
            found = set()
            for number in self.rules_of[left]:
                for bound in match(number, 0, i, j):
                    parts = dict(bound)
                    target = self.rules[number][3]
                    found.add(sum((parts[token] for token in target), ()))
            return frozenset(found)

        @cache
        def match(number: int, k: int, i: int, j: int) -> frozenset[tuple[tuple[str, Words], ...]]:
            """Ways to read source[i:j] as the rule's source side from its k-th token on, each a
            list of target tokens and what they become."""
            _, _, side, target = self.rules[number]
            if k == len(side):
                return frozenset({()} if i == j else ())
            found = set()
            remaining = len(side) - k - 1
            ends = range(i + 1, j - remaining + 1) if side[k][0].isupper() else [i + 1]
            for end in ends if remaining else [j]:
                if end > j or end <= i:
                    continue
                if side[k][0].isupper():
                    heads = {((side[k], words),) for words in derive(bare(side[k]), i, end)}
                else:
                    heads = self._read_word(side[k], target, source[i:end])
                for head in heads:
                    found |= {head + tail for tail in match(number, k + 1, end, j)}
            return frozenset(found)

        return derive("A", 0, len(source))

    def _read_word(self, token: str, target: Words, words: Words) -> set[tuple[tuple[str, Words]]]:
        if len(words) != 1 or bare(words[0]) != token:
            return set()
        digits = words[0][len(token) :]
        if token in self.classes:
            if not digits or not 1 <= int(digits) <= self.class_size:
                return set()
        elif digits:
            return set()
        (twin,) = (symbol for symbol in target if not symbol[0].isupper())
        return {((twin, (twin + digits,)),)}

    @cache  # noqa: B019
    def skeletons(self, left: str, length: int) -> dict[Words, Fraction]:
        """Every source of a length, with its words as classes, and its probability."""
        total: dict[Words, Fraction] = defaultdict(Fraction)
        for number in self.rules_of[left]:
            for words, probability in self._skeletons_of(number, 0, length).items():
                total[words] += self.rules[number][0] * probability
        return dict(total)

    @cache  # noqa: B019
    def _skeletons_of(self, number: int, k: int, length: int) -> dict[Words, Fraction]:
        side = self.rules[number][2]
        if k == len(side):
            return {(): Fraction(1)} if length == 0 else {}
        total: dict[Words, Fraction] = defaultdict(Fraction)
        rest = len(side) - k - 1
        for part in range(1, length - rest + 1):
            if rest == 0 and part != length:
                continue
            if side[k][0].isupper():
                heads = self.skeletons(bare(side[k]), part)
            else:
                heads = {(side[k],): Fraction(1)} if part == 1 else {}
            for head, p in heads.items():
                for tail, q in self._skeletons_of(number, k + 1, length - part).items():
                    total[head + tail] += p * q
        return dict(total)


def bare(token: str) -> str:
    return token.rstrip("0123456789")


SVO_SOV = PaperGrammar(
    33,
    "si oi vi",
    """
    1   ; A  ; S1 VT2 O3     ; S1 O3 VT2
    1/5 ; S  ; S1 S2         ; S1 S2
    1/5 ; S  ; S1 rpi S2 VT3 ; S1 rpo S2 VT3
    3/5 ; S  ; ST1           ; ST1
    1/5 ; O  ; O1 O2         ; O1 O2
    1/5 ; O  ; S1 rpi S2 VT3 ; S1 rpo S2 VT3
    3/5 ; O  ; OT1           ; OT1
    1   ; ST ; si            ; so
    1   ; OT ; oi            ; oo
    1   ; VT ; vi            ; vo
    """,
)

GENDER = PaperGrammar(
    25,
    "we me fe ne",
    """
    1   ; A ; B1        ; B1
    1/4 ; B ; B1 or B2  ; B1 oder B2
    1/4 ; B ; S1 and S2 ; S1 und S2
    1/2 ; B ; B1 V2     ; B1 V2
    3/4 ; V ; W1 B2     ; W1 B2
    1/4 ; V ; W1        ; W1
    1/6 ; S ; the M1    ; der M1
    1/6 ; S ; the F1    ; die F1
    1/6 ; S ; the N1    ; das N1
    1/6 ; S ; a M1      ; ein M1
    1/6 ; S ; a F1      ; eine F1
    1/6 ; S ; a N1      ; ein N1
    1   ; W ; we        ; wg
    1   ; M ; me        ; mg
    1   ; F ; fe        ; fg
    1   ; N ; ne        ; ng
    """,
)

PAPER = {"svo-sov": SVO_SOV, "gender": GENDER}
