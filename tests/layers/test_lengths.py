"""Rows of several lengths: how many go on at each step, and packed rows laid out with padding."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from pushpop.layers.inputs import pad, row_counts

LENGTHS = [2, 5, 1, 5]


@pytest.mark.parametrize(
    ("lengths", "steps", "counts"),
    [
        pytest.param([3, 1, 2], 3, [3, 2, 1], id="one row ends at each step"),
        pytest.param([2, 2], 4, [2, 2, 0, 0], id="no row has the last steps"),
        pytest.param([4], 4, [1, 1, 1, 1], id="one row"),
        pytest.param([], 2, [0, 0], id="no rows"),
    ],
)
def test_rows_that_have_a_step_are_counted(
    lengths: list[int], steps: int, counts: list[int]
) -> None:
    assert row_counts(lengths, steps) == counts


@pytest.mark.parametrize("steps", [5, 7], ids=["to the longest", "longer"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()], ids=str)
@pytest.mark.parametrize("as_given", [True, False], ids=["in the given order", "sorted"])
def test_packed_rows_are_padded_as_torch_does_it(
    steps: int, shape: tuple[int, ...], as_given: bool
) -> None:
    x = torch.randn(5, 4, *shape, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(steps, 4, *shape, dtype=torch.float64)
    packed = pack_padded_sequence(x, torch.tensor(LENGTHS), enforce_sorted=False)
    if not as_given:
        packed = PackedSequence(packed.data, packed.batch_sizes)
    ours, theirs = pad(packed, steps), pad_packed_sequence(packed, total_length=steps)[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    for found, wanted in zip(
        torch.autograd.grad((ours * weight).sum(), x, retain_graph=True),
        torch.autograd.grad((theirs * weight).sum(), x),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
