"""Random streams, length ranges and pairs."""

import ast
import hashlib
from pathlib import Path

import numpy as np
import pytest

import pushpop.tasks
from pushpop.errors import InputError
from pushpop.tasks import TASKS, Pairs, batch_rng, get_task, parse_lengths

# The first 12 digits of the SHA-256 of batch 7 of seed 5, ten pairs of 8 to 64 symbols. A change
# here changes the data of every run that anybody has recorded.
FINGERPRINTS = {
    "copy": "ecbbb5d1d2ab",
    "reverse": "27759a5661d7",
    "flip": "2b04100a942e",
    "svo-sov": "401dd8f5fdae",
    "gender": "d9613bce3c6b",
    "duplicate": "db4bf589d703",
    "odds-first": "d12d8b9e482f",
    "brackets": "58f32ed7efc7",
    "chomsky/even-pairs": "c17bddc2970e",
    "chomsky/parity": "0034ea0cd8f8",
    "chomsky/cycle-navigation": "d437beece4a1",
    "chomsky/modular-arithmetic": "08c9c00379f9",
    "chomsky/stack-manipulation": "fde835676a54",
    "chomsky/reverse": "30281ff50633",
    "chomsky/modular-arithmetic-brackets": "3ff646de0c7c",
    "chomsky/solve-equation": "08a8dd8f686e",
    "chomsky/duplicate": "21b3bd95717f",
    "chomsky/missing-duplicate": "88bbbb242581",
    "chomsky/odds-first": "e9530939fe06",
    "chomsky/binary-addition": "3630f772cd0a",
    "chomsky/binary-multiplication": "5edffa9a0b2d",
    "chomsky/square-root": "7f0dd6b79844",
    "chomsky/bucket-sort": "26ce54fe8077",
}


def fingerprint(pairs: Pairs) -> str:
    fields = (pairs.source, pairs.source_lengths, pairs.target, pairs.target_lengths)
    content = b"".join(field.astype("<i8").tobytes() for field in fields)
    return hashlib.sha256(content).hexdigest()[:12]


@pytest.mark.parametrize("name", TASKS)
def test_a_seed_means_the_same_data_everywhere(name: str) -> None:
    drawn = get_task(name).sample(batch_rng(5, "train", 7), 10, (8, 64))
    assert fingerprint(drawn) == FINGERPRINTS[name]


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_does_not_depend_on_those_before_it(name: str) -> None:
    task = get_task(name)
    in_order = [fingerprint(task.sample(batch_rng(0, "t", k), 4, (8, 40))) for k in range(6)]
    for k in (5, 0, 3):
        alone = get_task(name).sample(batch_rng(0, "t", k), 4, (8, 40))
        assert fingerprint(alone) == in_order[k]
    assert len(set(in_order)) == 6


@pytest.mark.parametrize("name", TASKS)
def test_the_global_random_state_is_neither_used_nor_changed(name: str) -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    first = fingerprint(get_task(name).sample(batch_rng(1, "t", 0), 4, (8, 40)))
    assert (np.random.get_state()[1] == before).all()
    np.random.seed(4)
    assert fingerprint(get_task(name).sample(batch_rng(1, "t", 0), 4, (8, 40))) == first


def test_seed_stream_and_index_each_make_another_batch() -> None:
    keys = [(0, "train", 0), (1, "train", 0), (0, "test", 0), (0, "train", 1), (2**64 - 1, "", 0)]
    assert len({batch_rng(*key).random() for key in keys}) == len(keys)


def test_a_long_batch_does_not_run_into_the_next() -> None:
    long, following = batch_rng(0, "t", 0).random(10_000), batch_rng(0, "t", 1).random(100)
    assert not np.isin(following, long).any()


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (2**64, 0), (0, -1)])
def test_seeds_and_indices_out_of_range_are_refused(seed: int, index: int) -> None:
    with pytest.raises(InputError, match="expected a number from 0"):
        batch_rng(seed, "t", index)


@pytest.mark.parametrize(
    ("text", "lengths"), [("8-12", (8, 12)), ("10", (10, 10)), ("1-1", (1, 1))]
)
def test_lengths_are_written_as_a_range_or_as_one(text: str, lengths: tuple[int, int]) -> None:
    assert parse_lengths(text) == lengths


@pytest.mark.parametrize("text", ["", "x", "8-", "-8", "8-x", "12-8", "0-5", "8--9", "8.5"])
def test_lengths_that_are_no_range_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"lengths .*expected"):
        parse_lengths(text)


@pytest.mark.parametrize("name", TASKS)
def test_no_task_draws_an_impossible_request(name: str) -> None:
    for count, lengths in ((0, (8, 9)), (1, (9, 8)), (1, (0, 8))):
        with pytest.raises(InputError, match="expected"):
            get_task(name).sample(batch_rng(0, "t", 0), count, lengths)


def test_pairs_come_back_one_by_one() -> None:
    given = [([1, 2], [3]), ([], [4, 5]), ([6], [])]
    pairs = Pairs.of(given)
    assert len(pairs) == 3
    assert [(list(source), list(target)) for source, target in pairs] == given
    assert len(Pairs.of([])) == 0
    assert list(Pairs.of([])) == []


def test_tasks_import_nothing_of_the_package_but_what_serves_all() -> None:
    for path in Path(pushpop.tasks.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            ours = [module for module in modules if module.split(".")[0] == "pushpop"]
            allowed = ("pushpop.tasks", "pushpop.errors", "pushpop.compiled", "pushpop.lazy")
            assert all(m.startswith(allowed) for m in ours), path
