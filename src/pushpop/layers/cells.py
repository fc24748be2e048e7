"""Controllers: one step of an LSTM, a GRU or an Elman network, one bias vector a gate.

They have the signatures of torch's cells, `cell(x, state) -> state`, and any module with such a
signature can stand in for them.
"""

from math import sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

Controller = Tensor | tuple[Tensor, Tensor]
"""A controller's state: h, or (h, c), each [B, H]."""


class Cell(nn.Module):
    """What the three share: some blocks of H rows over the input and over h, and one bias."""

    blocks: ClassVar[int]
    has_c: ClassVar[bool] = False
    """Whether the state is a pair (h, c)."""
    has_gates: ClassVar[bool] = False
    """Whether there are gates that can be given noise."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True,
        device: Any = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        shapes = {"weight_ih": (input_size,), "weight_hh": (hidden_size,), "bias": ()}
        for name, columns in shapes.items():
            empty = torch.empty(self.blocks * hidden_size, *columns, device=device, dtype=dtype)
            absent = name == "bias" and not bias
            self.register_parameter(name, None if absent else nn.Parameter(empty))
        self.reset_parameters()

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias: nn.Parameter | None

    def reset_parameters(self) -> None:
        """Draw everything uniformly from +-1/sqrt(hidden_size)."""
        bound = 1 / sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def from_input(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """The input's share of all blocks, with the bias; noise is added to the first ones."""
        blocks = nn.functional.linear(x, self.weight_ih, self.bias)
        if noise is None:
            return blocks
        return blocks + nn.functional.pad(noise, (0, blocks.shape[1] - noise.shape[1]))

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class LSTMCell(Cell):
    """i, f, o = sigmoid(...), g = tanh(...); c = f c + i g; h = o tanh(c). Blocks: i, f, g, o."""

    blocks = 4
    has_c = True
    has_gates = True

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor], noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """x [B, I] and (h, c) -> the next (h, c). Noise [B, 2 H] is added to i and f."""
        h, c = state
        z = self.from_input(x, noise) + h @ self.weight_hh.T
        i, f, g, o = z.chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class GRUCell(Cell):
    """r, z = sigmoid(...); n = tanh(W_n x + b + r U_n h); h = (1 - z) n + z h. Blocks: r, z, n."""

    blocks = 3
    has_gates = True
    bias_hn: nn.Parameter | None
    """A second bias of the candidate, U_n h + b_hn, which only cells made from an nn.GRU have."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register_parameter("bias_hn", None)

    def forward(self, x: Tensor, h: Tensor, noise: Tensor | None = None) -> Tensor:
        """x [B, I] and h -> the next h. Noise [B, 2 H] is added to r and z."""
        from_x = self.from_input(x, noise).chunk(3, dim=-1)
        from_h = (h @ self.weight_hh.T).chunk(3, dim=-1)
        r = torch.sigmoid(from_x[0] + from_h[0])
        z = torch.sigmoid(from_x[1] + from_h[1])
        candidate = from_h[2] if self.bias_hn is None else from_h[2] + self.bias_hn
        n = torch.tanh(from_x[2] + r * candidate)
        return n + z * (h - n)


class ElmanCell(Cell):
    """h = tanh(W x + U h + b)."""

    blocks = 1

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """x [B, I] and h -> the next h."""
        return torch.tanh(self.from_input(x) + h @ self.weight_hh.T)


CELLS: dict[str, type[Cell]] = {"lstm": LSTMCell, "gru": GRUCell, "rnn": ElmanCell}


def make_cell(
    cell: str | nn.Module, input_size: int, hidden_size: int, bias: bool = True,
    device: Any = None, dtype: torch.dtype | None = None,
) -> nn.Module:  # fmt: skip
    """A cell by name, or the given one if it fits."""
    if isinstance(cell, str):
        if cell not in CELLS:
            raise ValueError(f"cell must be one of {', '.join(CELLS)} or a module; got {cell!r}")
        return CELLS[cell](input_size, hidden_size, bias, device, dtype)
    if not isinstance(cell, nn.Module):
        raise TypeError(f"cell must be a name or a module; got {type(cell).__name__}")
    takes = getattr(cell, "input_size", input_size)
    if takes != input_size:
        raise ValueError(
            f"the given cell takes {takes} inputs; the layer's input and the memory's reads "
            f"together are {input_size}"
        )
    shape = probe(cell, input_size)[0]
    if shape != hidden_size:
        raise ValueError(f"the given cell has hidden size {shape}, this layer {hidden_size}")
    return cell


def probe(cell: nn.Module, input_size: int) -> tuple[int, bool]:
    """A cell's hidden size, and whether its state is a pair (h, c)."""
    if isinstance(cell, Cell):
        return cell.hidden_size, cell.has_c
    if isinstance(cell, nn.RNNCellBase):
        return cell.hidden_size, isinstance(cell, nn.LSTMCell)
    like = next(cell.parameters(), torch.empty(0))
    modes = [(module, module.training) for module in cell.modules()]
    try:
        with torch.no_grad():
            state = cell.eval()(like.new_zeros(1, input_size))
    except Exception as error:
        raise ValueError(
            f"the given cell could not be called as cell(x) with x [1, {input_size}], as "
            f"nn.LSTMCell and nn.GRUCell can: {error}"
        ) from error
    finally:
        for module, training in modes:
            module.training = training
    pair = isinstance(state, tuple)
    return int((state[0] if pair else state).shape[-1]), pair
