"""Matrix products with the same weights at many steps: packed once a call for oneDNN, where that
pays, else by `torch.mm`.

The operators are torch's own, made for its compiler, and not part of its public interface: they are
used only where a first small product shows that they are there and right. A row of their result
does not depend on the other rows, nor on how many there are.
"""

from functools import cache

import torch
from torch import Tensor

FEWEST_ROWS = 4
"""With fewer rows than this, packed weights are no faster."""
SMALLEST = 2**19
"""Multiplications of one product from which packed weights pay for the way to oneDNN."""
SMALLEST_ONCE = 2**27
"""The same for a product of its own, for which oneDNN makes a plan first."""
ROWS_AT_ONCE = 8
"""Products are made for multiples of so many rows, as each number of rows needs a plan too."""


class Product:
    """The product with a matrix, [n, K] -> [n, N], for batches of up to `rows` rows."""

    def __init__(self, weight: Tensor, rows: int) -> None:
        """Prepare x @ weight.T for a weight [N, K], of any strides."""
        self.rows = rows
        self.packs = rows >= FEWEST_ROWS and rows * weight.numel() >= SMALLEST and _packs(weight)
        self.weight = _pack(weight) if self.packs else _cache_padded(weight.T)

    def write(self, x: Tensor, n: int, out: Tensor) -> None:
        """Replace the first n rows of `out` by the product with those of x."""
        if self.packs:
            out[:n].copy_(self._rows(x, n))
        else:
            torch.mm(x[:n], self.weight, out=out[:n])

    def add(self, x: Tensor, n: int, out: Tensor) -> None:
        """Add the product with the first n rows of x to those of `out`."""
        if self.packs:
            out[:n].add_(self._rows(x, n))
        else:
            out[:n].addmm_(x[:n], self.weight)

    def _rows(self, x: Tensor, n: int) -> Tensor:
        rounded = min(-(-n // ROWS_AT_ONCE) * ROWS_AT_ONCE, self.rows)
        return _linear(x[:rounded], self.weight)[:n]


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias, of matrices of any strides."""
    if len(x) * weight.numel() >= SMALLEST_ONCE and _packs(weight):
        return _linear(_dense(x), _dense(weight), None if bias is None else bias.contiguous())
    return x @ weight.T if bias is None else torch.addmm(bias, x, weight.T)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(_dense(weight))
    return packed


def _dense(x: Tensor) -> Tensor:
    """The same matrix without gaps between its rows or columns, for which oneDNN has no kernels but
    those of its own tests, a hundred times slower."""
    if x.is_contiguous() or x.T.is_contiguous():
        return x
    return x.contiguous() if x.stride(1) == 1 else x.T.contiguous().T


def _packs(weight: Tensor) -> bool:
    usable = weight.dtype == torch.float32 and weight.device.type == "cpu"
    return bool(usable and torch.backends.mkldnn.enabled and _works())


@cache
def _works() -> bool:
    """Whether torch has the operators and they are right."""
    x, weight = (torch.arange(n * 24, dtype=torch.float32).sin().view(n, 24) for n in (5, 40))
    try:
        with torch.no_grad():
            results = (
                _linear(x, _pack(weight)),
                _linear(x, weight, weight[:, 0].contiguous()),
                _linear(x.T[:5], weight[:, :5]),
            )
    except (AttributeError, RuntimeError, TypeError):
        return False
    expected = (x @ weight.T, x @ weight.T + weight[:, 0], x.T[:5] @ weight[:, :5].T)
    return all(torch.allclose(*pair, atol=1e-5) for pair in zip(results, expected, strict=True))


def _cache_padded(weight: Tensor) -> Tensor:
    """The same matrix with rows a little longer in memory: rows of a power of two collide in the
    cache, and a small product then takes up to half as long again.
    """
    n, m = weight.shape
    return weight.new_empty(n, m + 16)[:, :m].copy_(weight)
