"""How many threads torch computes with, for as long as something lasts."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many inside, as many as before afterwards.

    More than one costs dearly where others use the machine too: threads that wait for each other at
    every small product keep all cores busy.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
