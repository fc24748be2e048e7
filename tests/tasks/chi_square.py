"""Chi-square tests for samples, with rare outcomes pooled so that the approximation holds."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from scipy import stats

FEWEST = 8  # expected in a cell, at least


def fit(samples: Iterable[Hashable], probabilities: Mapping[Hashable, float]) -> float:
    """The p-value of samples against a distribution; 0 if it gives one of them no chance."""
    counts = Counter(samples)
    if not set(counts) <= set(probabilities):
        return 0.0
    size = counts.total()
    observed, expected = [], []
    rest = [0, 0.0]
    for outcome, probability in probabilities.items():
        if size * probability >= FEWEST:
            observed.append(counts[outcome])
            expected.append(size * probability)
        else:
            rest = [rest[0] + counts[outcome], rest[1] + size * probability]
    if rest[1] >= FEWEST:
        observed.append(rest[0])
        expected.append(rest[1])
    scale = sum(observed) / sum(expected)
    return float(stats.chisquare(observed, np.array(expected) * scale).pvalue)


def same(first: Iterable[Hashable], second: Iterable[Hashable]) -> float:
    """The p-value of two samples having come from one distribution; 1 if all are one outcome."""
    a, b = Counter(first), Counter(second)
    share = min(a.total(), b.total()) / (a.total() + b.total())
    cells = [[a[x], b[x]] for x in a | b if (a[x] + b[x]) * share >= FEWEST]
    rare = [[a[x], b[x]] for x in a | b if (a[x] + b[x]) * share < FEWEST]
    pooled = np.sum(rare, axis=0) if rare else np.zeros(2)
    if pooled.sum() * share >= FEWEST:
        cells.append(pooled.tolist())
    return float(stats.chi2_contingency(cells).pvalue) if len(cells) > 1 else 1.0
