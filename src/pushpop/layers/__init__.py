"""Controllers and recurrences around the memories."""

from pushpop.layers.attention import MemoryAttention
from pushpop.layers.deep_lstm import DeepLSTM
from pushpop.layers.recurrent import MemoryRNN
from pushpop.layers.state import RNNState

__all__ = ["DeepLSTM", "MemoryAttention", "MemoryRNN", "RNNState"]
