"""Layers around the memories, and the benchmark without one.

`MemoryRNN` (memory_rnn.py) stacks a `MemoryLayer` a layer and direction (memory_layer.py): a cell
(cells.py) around memories. `backends` says when kernels run it, and has them.
`DeepLSTM` and `MemoryAttention` are a file each. state.py has all states; inputs.py checks what
layers take.
"""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.layers.attention import MemoryAttention
    from pushpop.layers.deep_lstm import DeepLSTM
    from pushpop.layers.inputs import NoiseLevels
    from pushpop.layers.memory_rnn import LayerState, MemoryRNN
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

import_when_asked(__name__)
