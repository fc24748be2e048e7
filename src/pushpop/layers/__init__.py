"""Recurrent layers around the memories."""

from pushpop.layers.recurrent import MemoryRNN
from pushpop.layers.state import RNNState

__all__ = ["MemoryRNN", "RNNState"]
