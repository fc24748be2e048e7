"""Ranges of lengths, without numpy: the options of training are read with them."""

from pushpop.errors import InputError

LengthRange = tuple[int, int]
"""The shortest and the longest source, both included."""


def check_request(batch_size: int, lengths: LengthRange) -> LengthRange:
    """Refuse what no task can draw; gives the lengths back."""
    low, high = lengths
    if not 1 <= low <= high:
        raise InputError(f"lengths {low}-{high}: expected low-high with 1 <= low <= high")
    if batch_size < 1:
        raise InputError(f"{batch_size} pairs asked for: expected at least 1")
    return low, high


def parse_lengths(text: str) -> LengthRange:
    """Read `8-12`, or `10` for one length only."""
    low, dash, high = text.partition("-")
    try:
        lengths = int(low), int(high if dash else low)
    except ValueError:
        raise InputError(f"lengths {text!r}: expected 8-12, say, or one length") from None
    return check_request(1, lengths)
