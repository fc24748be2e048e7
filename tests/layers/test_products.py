"""Products with packed weights: right, and used only where torch has them and they are right."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from pushpop import DeepLSTM, MemoryRNN
from pushpop.layers.backends import products
from pushpop.layers.backends.products import Product, product

B, T, WIDE = 9, 11, 96


@pytest.fixture
def probed() -> Iterator[None]:
    products._works.cache_clear()
    yield
    products._works.cache_clear()


@pytest.fixture
def always_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch has no oneDNN with packed weights")
    assert products._works()
    monkeypatch.setattr(products, "SMALLEST", 1)
    monkeypatch.setattr(products, "SMALLEST_ONCE", 1)


def gradients(
    layer: torch.nn.Module, backend: str, x: Tensor, lengths: list[int] | None
) -> list[Tensor]:
    layer.backend = backend
    output, state = layer(x, lengths=lengths)
    last = state.h[-1]
    leaves = [x, *layer.parameters()]
    found = torch.autograd.grad((output.cos().sum() + last.sin().sum()), leaves)
    return [output, last, *found]


@pytest.mark.usefixtures("always_packed")
@pytest.mark.parametrize("lengths", [None, [11, 3, 9, 9, 1, 11, 2, 5, 8]], ids=["full", "ragged"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn", "deep"])
def test_layers_with_packed_weights_equal_the_equations(
    cell: str, lengths: list[int] | None
) -> None:
    torch.manual_seed(1)
    layer: Any = DeepLSTM(16, WIDE, 2)
    if cell != "deep":
        layer = MemoryRNN(16, WIDE, "deque", 24, cell, num_memories=2)
    x = torch.randn(T, B, 16, requires_grad=True)
    fused = gradients(layer, "auto", x, lengths)
    for a, b in zip(fused, gradients(layer, "reference", x, lengths), strict=True):
        assert float(((a - b).abs().max() / b.abs().max().clamp(min=1)).detach()) < 1e-4


@pytest.mark.usefixtures("always_packed")
def test_a_row_of_a_product_depends_on_no_other_row() -> None:
    x, weight = torch.randn(20, 64), torch.randn(48, 64)
    packed, whole = Product(weight, 20), torch.empty(20, 48)
    assert packed.packs
    packed.write(x, 20, whole)
    torch.testing.assert_close(whole, x @ weight.T, atol=1e-4, rtol=1e-5)
    for n in range(1, 20):
        some = torch.zeros(20, 48)
        packed.write(x, n, some)
        assert torch.equal(some[:n], whole[:n])
        assert not some[n:].any()


@pytest.mark.usefixtures("probed")
@pytest.mark.parametrize("fault", ["missing", "refuses", "wrong"])
def test_without_the_operators_or_with_wrong_ones_products_are_those_of_torch(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = torch.randn(512, 512), torch.randn(512, 512)
    calls = []

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        calls.append(x)
        if fault == "wrong":
            return torch.zeros(len(x), len(weight))
        raise {"missing": AttributeError, "refuses": RuntimeError}[fault]

    monkeypatch.setattr(products, "_linear", linear)
    packed, written = Product(weight, 512), torch.empty(512, 512)
    assert not packed.packs
    packed.write(x, 512, written)
    torch.testing.assert_close(written, x @ weight.T, atol=1e-3, rtol=1e-4)
    assert torch.equal(product(x, weight), x @ weight.T)
    assert all(len(tried) == 5 for tried in calls)  # those of the probe


def test_float64_small_products_and_oneDNN_switched_off_stay_as_they_are() -> None:
    weight = torch.randn(1024, 1024)
    assert Product(weight, 16).packs == products._works()
    assert not Product(weight.double(), 16).packs
    assert not Product(weight, 1).packs
    assert not Product(weight[:16, :16], 16).packs
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        assert not Product(weight, 16).packs


def test_the_probe_draws_no_random_numbers() -> None:
    products._works.cache_clear()
    before = torch.get_rng_state()
    products._works()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("always_packed")
def test_parts_of_a_matrix_are_multiplied_as_fast_as_matrices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OneDNN has only a very slow way for matrices with gaps between their rows."""
    linear, dense = products._linear, []

    def watched(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        dense.append(x.is_contiguous() or x.T.is_contiguous())
        dense.append(weight.is_contiguous() or weight.T.is_contiguous())
        return linear(x, weight, bias)

    monkeypatch.setattr(products, "_linear", watched)
    x, weight = torch.randn(40, 30)[:, 3:20], torch.randn(50, 30)[:, 3:20]
    torch.testing.assert_close(product(x, weight), x @ weight.T)
    torch.testing.assert_close(product(x.T, weight[:40].T), x.T @ weight[:40])
    assert all(dense)
