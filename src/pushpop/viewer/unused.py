"""Memories that a model does not use: what it writes without its reads, and the remark beside a
trace in which the memory does little for the answer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pushpop.evaluation import without_reads
from pushpop.models import Transducer
from pushpop.models.decoding import Search, greedy

if TYPE_CHECKING:
    from pushpop.viewer.tracing import Trace

STRONG = 0.1  # values pushed with less, and reads of less, do not count
UNNEEDED = (
    "The memory is hardly used here: with zeros in the place of its reads, the model writes "
    "the same."
)
HARDLY = 0.2  # the share of values read later, below which a memory is hardly used


def answer_without_reads(model: Transducer, source: Sequence[str], limit: int) -> tuple[str, ...]:
    """The answer of a model with a memory, with zeros in the place of every read."""
    blind = without_reads(model)
    assert blind is not None
    numbers = model.vocabulary.encode_source(source).tolist()
    (answer,) = greedy(blind, [numbers], Search(max_length=limit))
    return answer.symbols


def remark(trace: "Trace") -> str:
    """A sentence or two about a memory that is hardly used, or "".

    Of a model that has another way to its source, what it writes without its memory decides; of
    others, how much of what was pushed is read at a later step.
    """
    if trace.without_memory is not None:
        return UNNEEDED if trace.without_memory == trace.output and trace.output else ""
    written = {
        number: cell.step
        for number, cell in enumerate(trace.cells)
        if cell.strength >= STRONG and cell.part == "source"
    }
    if trace.picture == "none" or len(trace.source) < 2:
        return ""
    later = {
        cell
        for t, step in enumerate(trace.steps)
        for read in step.reads
        for cell, weight in read
        if weight >= STRONG and cell in written and written[cell] < t
    }
    if len(later) >= HARDLY * len(trace.source):
        return ""
    return (
        f"The memory is hardly used here: of {len(trace.source)} symbols read, {len(later)} "
        f"{'was' if len(later) == 1 else 'were'} pushed and read again later."
    )
