"""With strengths of 0 or 1 the memories are Python's `list` and `collections.deque`."""

from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .samples import PAPER

BACKENDS = pytest.mark.parametrize("backend", ["fused", "parallel", "reference"])
one_end = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)
two_ends = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=40
)


def numbered(*shape: int) -> torch.Tensor:
    """Values 1, 2, 3, ...: a read of 0 means that the memory was empty."""
    n = torch.Size(shape).numel()
    return torch.arange(1, n + 1, dtype=torch.float64).reshape(*shape, 1)


@BACKENDS
@settings(max_examples=60, deadline=None)
@given(script=one_end)
def test_a_stack_is_a_list(backend: str, script: list[tuple[bool, bool]]) -> None:
    values = numbered(len(script), 1)
    model: list[float] = []
    wanted = []
    for (push, pop), value in zip(script, values.flatten().tolist(), strict=True):
        if pop and model:
            model.pop()
        if push:
            model.append(value)
        wanted.append(model[-1] if model else 0.0)
    gates = torch.tensor(script, dtype=torch.float64)
    reads, state = PAPER["stack"](1, backend)(values, gates[:, :1], gates[:, 1:])
    assert reads.flatten().tolist() == wanted
    assert state.values[0, state.strengths[0] > 0, 0].tolist() == model


@BACKENDS
@settings(max_examples=60, deadline=None)
@given(script=one_end)
def test_a_queue_is_a_deque_popped_on_the_left(
    backend: str, script: list[tuple[bool, bool]]
) -> None:
    values = numbered(len(script), 1)
    model: deque[float] = deque()
    wanted = []
    for (push, pop), value in zip(script, values.flatten().tolist(), strict=True):
        if pop and model:
            model.popleft()
        if push:
            model.append(value)
        wanted.append(model[0] if model else 0.0)
    gates = torch.tensor(script, dtype=torch.float64)
    reads, _ = PAPER["queue"](1, backend)(values, gates[:, :1], gates[:, 1:])
    assert reads.flatten().tolist() == wanted


@BACKENDS
@settings(max_examples=60, deadline=None)
@given(script=two_ends)
def test_a_deque_is_a_deque(backend: str, script: list[tuple[bool, bool, bool, bool]]) -> None:
    values = numbered(len(script), 1, 2)
    model: deque[float] = deque()
    wanted = []
    for (push_top, push_bottom, pop_top, pop_bottom), (top, bottom) in zip(
        script, values[:, 0, :, 0].tolist(), strict=True
    ):
        if pop_top and model:
            model.pop()
        if pop_bottom and model:
            model.popleft()
        if push_top:
            model.append(top)
        if push_bottom:
            model.appendleft(bottom)
        wanted.append([model[-1], model[0]] if model else [0.0, 0.0])
    gates = torch.tensor(script, dtype=torch.float64)[:, None]
    reads, _ = PAPER["deque"](1, backend)(values, gates[..., :2], gates[..., 2:])
    assert reads[:, 0, :, 0].tolist() == wanted
