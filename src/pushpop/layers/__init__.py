"""Controllers and recurrences around the memories."""

from pushpop.layers.attention import MemoryAttention
from pushpop.layers.deep_lstm import DeepLSTM

__all__ = ["DeepLSTM", "MemoryAttention"]
