"""Layers around the memories, and the benchmark without one."""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
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

import_when_asked(
    __name__,
    {
        "MemoryAttention": "attention",
        "DeepLSTM": "deep_lstm",
        "NoiseLevels": "noise",
        "LayerState": "recurrent",
        "MemoryRNN": "recurrent",
        "HeadsState": "state",
        "LayeredState": "state",
        "LSTMState": "state",
        "RNNState": "state",
    },
)
