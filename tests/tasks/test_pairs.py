"""Given pairs in batches: every pair once an epoch, in an order that depends on nothing but the
seed and the epoch."""

from collections import Counter

import numpy as np
import pytest

from pushpop.errors import InputError
from pushpop.tasks.pairs import PairsData, encode_pairs, hold_out, vocabulary_of
from pushpop.tasks.pairs_text import UNKNOWN

PAIRS = [(list(f"{n:b}"), ["s"] * (n % 7 + 1)) for n in range(1, 101)]
VOCABULARY = vocabulary_of(PAIRS)


def rows_of(data: PairsData, batches: range, seed: int = 0) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for index in batches:
        for source, target in data.batch_pairs(seed, index):
            found[(*source.tolist(), -1, *target.tolist())] += 1
    return found


def never_hiding(data: PairsData) -> PairsData:
    data._rates = np.zeros_like(data._rates)
    return data


def test_the_vocabulary_has_the_unknown_symbol_and_what_occurs() -> None:
    vocabulary = vocabulary_of([(["b", "a"], ["x"]), (["a"], ["y", "x"])])
    assert vocabulary.source == (UNKNOWN, "a", "b")
    assert vocabulary.target == (UNKNOWN, "x", "y")
    assert vocabulary.encode_source(["b", "never seen"]).tolist() == [2, 0]
    assert vocabulary.knows("source", "a")
    assert not vocabulary.knows("source", "x")
    assert not vocabulary.knows("target", UNKNOWN)


@pytest.mark.parametrize("batch_size", [1, 7, 32, 100, 1000])
def test_every_epoch_has_every_pair_once(batch_size: int) -> None:
    data = never_hiding(PairsData(PAIRS, VOCABULARY, batch_size))
    n = data.batches_per_epoch
    wanted = Counter(
        (*source.tolist(), -1, *target.tolist())
        for source, target in encode_pairs(PAIRS, VOCABULARY)
    )
    for epoch in range(3):
        assert rows_of(data, range(epoch * n, (epoch + 1) * n)) == wanted


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    data = PairsData(PAIRS, VOCABULARY, 10)
    n = data.batches_per_epoch
    first, second = data.batch(0, 0), data.batch(0, n)
    other = data.batch(1, 0)
    for batch in (second, other):
        assert batch.inputs.shape != first.inputs.shape or not batch.inputs.equal(first.inputs)


def test_a_batch_depends_on_its_number_alone() -> None:
    forwards, backwards = (PairsData(PAIRS, VOCABULARY, 8) for _ in range(2))
    numbers = [0, 5, 12, 13, 14, 30, 64]
    found = {n: forwards.batch(3, n) for n in numbers}
    for n in reversed(numbers):
        assert backwards.batch(3, n).inputs.equal(found[n].inputs)
        assert backwards.batch(3, n).outputs.equal(found[n].outputs)


def test_pairs_of_like_length_share_a_batch() -> None:
    pairs = [(["a"] * (n % 40 + 1), ["x"]) for n in range(1000)]
    data = PairsData(pairs, vocabulary_of(pairs), 20)
    padded = sum(data.batch(0, n).inputs.numel() for n in range(data.batches_per_epoch))
    real = sum(int(data.batch(0, n).lengths.sum()) for n in range(data.batches_per_epoch))
    assert padded < 1.15 * real  # 1.9 if they were mixed


def test_rare_symbols_are_often_read_as_unknown_and_their_twins_with_them() -> None:
    pairs = [(["q", "a"], ["q", "z"]), *[(["a"], ["a"])] * 9]
    vocabulary = vocabulary_of(pairs)
    data = PairsData(pairs, vocabulary, 10)
    hidden = 0
    for index in range(500):
        for source, target in data.batch_pairs(0, index):
            read = vocabulary.decode_source(source)
            written = vocabulary.decode_target(target)
            if len(read) == 2 and read[0] == UNKNOWN:
                hidden += 1
                assert written[0] == UNKNOWN
                assert written[1] == "z"  # no twin in the source
    assert 70 < hidden < 130  # a fifth of 500


def test_a_share_is_held_out_by_the_seed() -> None:
    train, valid = hold_out(PAIRS, 0.1, seed=0)
    assert (len(train), len(valid)) == (90, 10)
    assert sorted(map(str, [*train, *valid])) == sorted(map(str, PAIRS))
    assert hold_out(PAIRS, 0.1, seed=0) == (train, valid)
    assert hold_out(PAIRS, 0.1, seed=1) != (train, valid)
    assert [len(part) for part in hold_out(PAIRS[:2], 0.1, 0)] == [1, 1]
    with pytest.raises(InputError, match="1 pair: expected at least 2"):
        hold_out(PAIRS[:1], 0.1, 0)
