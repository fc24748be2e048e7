"""What a trace should be told of in words: a memory that does little for the answer."""

from pushpop.viewer.trace import Trace

STRONG = 0.1  # values pushed with less, and reads of less, do not count
HARDLY = 0.2  # the share of values read later, below which a memory is hardly used


def remark(trace: Trace) -> str:
    """One sentence about a memory that is hardly used, or ""."""
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
    what = "attention" if any(step.attention for step in trace.steps) else "controller"
    return (
        f"The memory is hardly used here: of {len(trace.source)} symbols read, {len(later)} "
        f"{'was' if len(later) == 1 else 'were'} pushed and read again later. The {what} does the "
        "work."
    )
