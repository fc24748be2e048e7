"""What a model writes when its memory returns nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pushpop.layers import MemoryRNN
from pushpop.models import Transducer
from pushpop.models.decoding import Request, greedy


def answer_without_reads(
    model: Transducer, layer: MemoryRNN, source: Sequence[str], limit: int
) -> tuple[str, ...]:
    """The model's answer with zeros in the place of every read."""
    numbers = model.vocabulary.encode_source(source).tolist()
    with _without_reads(layer):
        (found,) = greedy(model, Request([numbers], [limit]))
    return found.symbols


@contextmanager
def _without_reads(layer: MemoryRNN) -> Iterator[None]:
    """The controller sees its input, and after it the read: the latter is taken from it."""

    def cut(cell: Any, given: Any) -> Any:
        seen = given[0].clone()
        seen[:, layer.input_size :] = 0
        return (seen, *given[1:])

    hook = layer.cell.register_forward_pre_hook(cut)
    try:
        yield
    finally:
        hook.remove()
