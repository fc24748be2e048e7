"""Accuracy: the paper's definitions, by one pass what greedy decoding gives."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from pushpop import MemoryRNN, Transducer, TransducerConfig
from pushpop.errors import InputError
from pushpop.evaluation import (
    accuracy_by_length,
    evaluate,
    evaluate_lengths,
    score,
    without_reads,
)
from pushpop.tasks import Pairs, batch_rng, draw_batch, get_task
from pushpop.tasks.synthetic import RearrangementTask
from tests.models.examples import BODIES, READERS, VOCABULARY, lively_model, small_model

X, Y = 0, 1


class Reciter(Transducer):
    """Says the same target whatever it reads: at step n after SEP, symbol n of it, then EOS."""

    def __init__(self, target: Sequence[int]) -> None:
        super().__init__(TransducerConfig(embedding=2, hidden=2, memory_width=2), VOCABULARY)
        self.says = [number + 1 for number in target] + [VOCABULARY.EOS]

    def scored_logits(self, batch, noise=None, attend=True):  # type: ignore[no-untyped-def]
        logits = torch.zeros(*batch.mask.shape, VOCABULARY.output_size)
        for row in range(batch.mask.shape[1]):
            for n, step in enumerate(batch.mask[:, row].nonzero()[:, 0].tolist()):
                logits[step, row, self.says[min(n, len(self.says) - 1)]] = 1
        return logits[batch.mask]


@pytest.mark.parametrize(
    ("target", "coarse", "fine"),
    [
        ([X, Y, Y], 1, 1),
        ([Y, Y, Y], 0, 0),  # wrong at once; what is right later counts for nothing
        ([X, X, Y], 0, 1 / 4),
        ([X, Y, X], 0, 2 / 4),
        ([X, Y], 0, 2 / 3),  # y where EOS was wanted
        ([X, Y, Y, X], 0, 3 / 5),  # EOS too early
    ],
)
def test_fine_is_the_share_of_target_and_eos_before_the_first_error(
    target: list[int], coarse: float, fine: float
) -> None:
    found = score(Reciter([X, Y, Y]), Pairs.of([([0, 1], target)]))
    assert (found.coarse, found.fine) == (coarse, fine)


def test_fine_is_a_mean_over_sequences_and_not_over_symbols() -> None:
    pairs = Pairs.of([([0], [X, Y, Y]), ([1], []), ([2], [X, X, X, X, X, X, X])])
    found = score(Reciter([X, Y, Y]), pairs)
    assert found.correct.tolist() == [4, 0, 1]
    assert found.symbols.tolist() == [4, 1, 8]
    assert found.coarse == pytest.approx(1 / 3)
    assert found.fine == pytest.approx((1 + 0 + 1 / 8) / 3)


def by_decoding(model: Transducer, pairs: Pairs) -> tuple[list[int], float, float]:
    """The definitions, word by word, on what greedy decoding writes."""
    right, fine = [], 0.0
    for source, target in pairs:
        wanted = [number + 1 for number in target.tolist()] + [VOCABULARY.EOS]
        (best,) = model.decode([source.tolist()], max_length=len(target) + 3)[0]
        written = [*best.ids, VOCABULARY.EOS] if best.finished else list(best.ids)
        correct = 0
        while correct < len(wanted) and written[correct : correct + 1] == [wanted[correct]]:
            correct += 1
        right.append(correct)
        fine += correct / len(wanted)
    coarse = sum(n == len(t) + 1 for n, (_, t) in zip(right, pairs, strict=True)) / len(pairs)
    return right, coarse, fine / len(pairs)


@pytest.mark.parametrize("body", [*BODIES, *READERS])
def test_one_pass_gives_what_greedy_decoding_gives_untrained(body: str) -> None:
    model = lively_model(body)
    generator = torch.Generator().manual_seed(1)
    pairs = []
    for n in range(60):
        source = torch.randint(3, (1 + n % 7,), generator=generator).tolist()
        (best,) = model.decode([source], max_length=6)[0]
        target = [k - 1 for k in best.ids]
        if n % 3 and target:  # two thirds of the targets have an error somewhere
            target[n % len(target)] ^= n % 2
        pairs.append((source, target))
    found = score(model, Pairs.of(pairs))
    right, coarse, fine = by_decoding(model, Pairs.of(pairs))
    assert found.correct.tolist() == right
    assert (found.coarse, found.fine) == (coarse, pytest.approx(fine))
    assert 0 < coarse < 1


def test_one_pass_gives_what_greedy_decoding_gives_after_some_training() -> None:
    task = RearrangementTask("copy", symbols=4)
    torch.manual_seed(0)
    model = Transducer(
        TransducerConfig("queue", embedding=8, hidden=16, memory_width=8), task.vocabulary
    )
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    for index in range(150):
        batch = draw_batch(task, seed=0, stream="train", index=index, batch_size=10, lengths=(1, 4))
        optimiser.zero_grad()
        model.loss(batch).backward()
        optimiser.step()
    pairs = task.sample(batch_rng(0, "test", 0), 100, (1, 8))
    found = score(model.double(), pairs)
    right, coarse, fine = by_decoding(model, pairs)
    assert found.correct.tolist() == right
    assert (found.coarse, found.fine) == (coarse, pytest.approx(fine))
    assert 0 < found.coarse < found.fine < 1


@pytest.mark.parametrize("steps", [1, 40, 173, 10**6])
def test_the_size_of_a_pass_changes_nothing(steps: int) -> None:
    model = small_model(vocabulary=get_task("copy").vocabulary).double()
    pairs = get_task("copy").sample(batch_rng(3, "test", 0), 40, (1, 20))
    whole, parts = score(model, pairs), score(model, pairs, steps_at_once=steps)
    assert parts.correct.tolist() == whole.correct.tolist()
    assert parts.nll == pytest.approx(whole.nll)


def test_perplexity_is_the_models_own() -> None:
    task = get_task("reverse")
    model = small_model(vocabulary=task.vocabulary)
    batch = draw_batch(task, seed=5, stream="evaluate", index=2, batch_size=20, lengths=(3, 9))
    found = evaluate(model, task, (3, 9), 20, seed=5, index=2)
    assert found["perplexity"] == pytest.approx(model.perplexity(batch), rel=1e-5)


def test_evaluation_returns_plain_values_and_repeats_itself() -> None:
    task = get_task("copy")
    model = small_model(vocabulary=task.vocabulary)
    first = evaluate(model, task, (2, 5), 30)
    assert json.loads(json.dumps(first)) == first
    assert first["lengths"] == [2, 5]
    assert first["sequences"] == 30
    assert evaluate(model, task, (2, 5), 30) == first
    assert evaluate(model, task, (2, 5), 30, seed=1) != first
    assert evaluate(model, task, (2, 5), 30, stream="final") != first


def test_a_curve_has_a_point_a_length() -> None:
    task = get_task("flip")
    model = small_model(vocabulary=task.vocabulary)
    points = evaluate_lengths(model, task, [2, 8, 64], 5)
    assert [point["lengths"] for point in points] == [[2, 2], [8, 8], [64, 64]]
    assert points[1] == evaluate(model, task, (8, 8), 5)


def test_between_is_called_after_every_pass() -> None:
    task, calls = get_task("copy"), []
    model = small_model(vocabulary=task.vocabulary)
    evaluate(model, task, (1000, 1000), 16, between=lambda: calls.append(1))
    assert len(calls) == 2  # 16 rows of 2,002 steps, 8 to a pass


def test_a_model_of_another_task_is_refused() -> None:
    with pytest.raises(InputError, match="other symbols than the task 'copy'"):
        evaluate(small_model(), get_task("copy"))


def test_accuracy_by_length_has_parts_of_about_as_many_pairs() -> None:
    lengths = np.array([3, 1, 1, 2, 9, 4, 4, 4])
    right = np.array([True, True, False, True, False, True, True, False])
    assert accuracy_by_length(lengths, right, parts=2) == [
        {"lengths": [1, 3], "pairs": 4, "accuracy": 0.75},
        {"lengths": [4, 9], "pairs": 4, "accuracy": 0.5},
    ]
    assert [row["lengths"] for row in accuracy_by_length(lengths, right)] == [
        [1, 1], [2, 3], [4, 9],
    ]  # fmt: skip
    (row,) = accuracy_by_length(np.array([5]), np.array([True]))
    assert row == {"lengths": [5, 5], "pairs": 1, "accuracy": 1.0}


@pytest.mark.parametrize("memory", ["stack", "deque", "tape"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_without_reads_whole_sequences_run_as_steps_with_zeros_in_their_place(
    memory: str, cell: str
) -> None:
    torch.manual_seed(1)
    config = TransducerConfig(memory, cell=cell, embedding=4, hidden=5, memory_width=3, memories=2)
    model = Transducer(config, VOCABULARY)
    blind = without_reads(model)
    assert blind is not None
    inputs = torch.randint(VOCABULARY.input_size, (6, 2))
    (layer,) = [module for module in model.modules() if isinstance(module, MemoryRNN)]

    def cut(_: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        seen = arguments[0].clone()
        seen[:, 4:] = 0  # the input is 4 wide
        return (seen, *arguments[1:])

    with torch.no_grad():
        usual = model(inputs)[0]
        layer.cell.register_forward_pre_hook(cut)
        state, stepped = None, []
        for ids in inputs:
            logits, state = model.step(ids, state)
            stepped.append(logits)
        torch.testing.assert_close(blind(inputs)[0], torch.stack(stepped))
    assert not torch.allclose(usual, blind(inputs)[0])


def test_without_a_memory_there_are_no_reads_to_leave_out() -> None:
    assert without_reads(lively_model("lstm-1")) is None
