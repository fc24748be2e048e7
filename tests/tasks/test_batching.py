"""Batches: what a model reads, what it predicts, and what is scored."""

import pytest
import torch

from pushpop.errors import InputError
from pushpop.tasks import (
    TASKS,
    Pairs,
    Vocabulary,
    batch_rng,
    batches,
    draw_batch,
    get_task,
    make_batch,
)

VOCABULARY = Vocabulary(("a", "b", "c"), ("x", "y"))


def test_two_pairs_worked_by_hand() -> None:
    # ids read: SOS 0, SEP 1, a b c 2 3 4, x y 5 6; ids predicted: EOS 0, x y 1 2
    batch = make_batch(Pairs.of([([0, 1, 2], [1]), ([2], [0, 0, 1])]), VOCABULARY)
    assert batch.inputs.T.tolist() == [[0, 2, 3, 4, 1, 6], [0, 4, 1, 5, 5, 6]]
    assert batch.outputs.T.tolist() == [[0, 0, 0, 0, 2, 0], [0, 0, 1, 1, 2, 0]]
    assert batch.mask.T.int().tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1]]
    assert batch.lengths.tolist() == [6, 6]


def test_a_shorter_pair_is_padded_with_ids_that_exist_and_are_not_scored() -> None:
    batch = make_batch(Pairs.of([([0], [1]), ([0, 0], [1, 1])]), VOCABULARY)
    assert batch.inputs.T.tolist() == [[0, 2, 1, 6, 0, 0], [0, 2, 2, 1, 6, 6]]
    assert batch.mask.T.int().tolist() == [[0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1]]
    assert batch.lengths.tolist() == [4, 6]


def test_an_empty_target_scores_eos_alone() -> None:
    batch = make_batch(Pairs.of([([0, 1], [])]), VOCABULARY)
    assert batch.inputs.T.tolist() == [[0, 2, 3, 1]]
    assert batch.mask.T.int().tolist() == [[0, 0, 0, 1]]
    assert batch.outputs[3, 0] == VOCABULARY.EOS


@pytest.mark.parametrize("name", TASKS)
def test_joint_sequences_are_sos_source_sep_target_eos(name: str) -> None:
    task = get_task(name)
    vocabulary = task.vocabulary
    pairs = task.sample(batch_rng(0, "t", 0), 20, (8, 40))
    batch = make_batch(pairs, vocabulary)
    steps, size = batch.inputs.shape
    assert (steps, size) == (int(batch.lengths.max()), 20)
    assert batch.outputs.shape == batch.mask.shape == (steps, size)
    assert batch.inputs.dtype == batch.outputs.dtype == batch.lengths.dtype == torch.int64
    assert batch.mask.dtype == torch.bool
    assert all(t.is_contiguous() for t in (batch.inputs, batch.outputs, batch.mask))
    assert 0 <= int(batch.inputs.min()) <= int(batch.inputs.max()) < vocabulary.input_size
    assert 0 <= int(batch.outputs.min()) <= int(batch.outputs.max()) < vocabulary.output_size
    for row, (source, target) in enumerate(pairs):
        read = batch.inputs[: batch.lengths[row], row].tolist()
        separator = 1 + len(source)
        assert read[0] == vocabulary.SOS
        assert [i - vocabulary.source_input_start for i in read[1:separator]] == source.tolist()
        assert read[separator] == vocabulary.SEP
        fed_back = [i - vocabulary.target_input_start for i in read[separator + 1 :]]
        assert fed_back == target.tolist()
        scored = batch.outputs[batch.mask[:, row], row].tolist()
        assert scored[-1] == vocabulary.EOS
        assert vocabulary.decode_output(scored) == vocabulary.decode_target(target)
        assert batch.mask[:, row].nonzero()[0] == separator
        assert int(batch.mask[:, row].sum()) == len(target) + 1


def test_a_drawn_batch_is_a_function_of_its_arguments() -> None:
    task = get_task("reverse")
    options = {"stream": "train", "batch_size": 10, "lengths": (8, 64)}
    first, again, other = (draw_batch(task, seed=0, index=k, **options) for k in (3, 3, 4))
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.outputs, again.outputs)
    assert not torch.equal(first.lengths, other.lengths)


def test_a_run_can_start_at_any_batch() -> None:
    options = {"seed": 0, "stream": "train", "batch_size": 3, "lengths": (8, 12)}
    task = get_task("gender")
    for start in (0, 5):
        run = batches(task, start=start, ahead=2, **options)
        for index in range(start, start + 5):
            expected = draw_batch(task, index=index, **options)
            assert torch.equal(next(run).inputs, expected.inputs)


def test_a_batch_can_be_moved() -> None:
    batch = make_batch(Pairs.of([([0], [1])]), VOCABULARY).to("meta")
    assert {batch.inputs.device.type, batch.lengths.device.type} == {"meta"}


def test_no_pairs_make_no_batch() -> None:
    with pytest.raises(InputError, match="no pairs"):
        make_batch(Pairs.of([]), VOCABULARY)
