"""The weights of a trained nn.LSTM or nn.GRU in layers with a memory."""

from collections.abc import Sequence

import torch
from torch import nn

from pushpop.layers.cells import Cell, GRUCell
from pushpop.layers.memory_layer import MemoryLayer


@torch.no_grad()
def copy_weights(trained: nn.RNNBase, layers: Sequence[MemoryLayer], directions: int) -> None:
    """Have each layer and direction compute what that of `trained` does.

    The first state becomes 0, and so do the weights over what memories give: they have no say until
    training moves those weights.
    """
    for place, layer in enumerate(layers):
        cell = layer.cell
        assert isinstance(cell, Cell)
        suffix = f"_l{place // directions}" + ("_reverse" if place % directions else "")
        cell.weight_ih.zero_()
        cell.weight_ih[:, : layer.input_size] = getattr(trained, f"weight_ih{suffix}")
        cell.weight_hh.copy_(getattr(trained, f"weight_hh{suffix}"))
        for start in (layer.h0, layer.c0):
            if start is not None:
                start.zero_()
        if not trained.bias:
            continue
        assert cell.bias is not None
        over_x, over_h = (getattr(trained, f"bias_{side}{suffix}") for side in ("ih", "hh"))
        if isinstance(cell, GRUCell):  # a gate multiplies h's share of the candidate, and its bias
            over_h, over_candidate = over_h.split([2 * layer.hidden_size, layer.hidden_size])
            over_h = torch.cat([over_h, torch.zeros_like(over_candidate)])
            cell.bias_hn = nn.Parameter(over_candidate.clone())
        cell.bias.copy_(over_x + over_h)
