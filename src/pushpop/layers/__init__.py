"""Layers around the memories, and the benchmark without one."""

from pushpop.layers.attention import MemoryAttention
from pushpop.layers.deep_lstm import DeepLSTM
from pushpop.layers.noise import NoiseLevels
from pushpop.layers.recurrent import LayerState, MemoryRNN
from pushpop.layers.state import HeadsState, LayeredState, LSTMState, RNNState

__all__ = [
    "DeepLSTM",
    "HeadsState",
    "LSTMState",
    "LayerState",
    "LayeredState",
    "MemoryAttention",
    "MemoryRNN",
    "NoiseLevels",
    "RNNState",
]
