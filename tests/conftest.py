"""Every test runs on one thread with its own seed."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("pushpop", deadline=None)  # no test is about speed
settings.load_profile("pushpop")


@pytest.fixture(autouse=True)
def _one_thread_and_a_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
