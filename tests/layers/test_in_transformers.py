"""MemoryAttention where torch's transformer layers have their self-attention."""

from typing import Any

import pytest
import torch
from torch import nn

from pushpop import MemoryAttention

T, B, E = 7, 3, 8


def encoder_layer(batch_first: bool = False, memory: str = "stack") -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(E, 2, 16, batch_first=batch_first, norm_first=True)
    layer.self_attn = MemoryAttention(E, memory, 2, batch_first)
    return layer.eval()


def causal() -> torch.Tensor:
    return nn.Transformer.generate_square_subsequent_mask(T)


def padding() -> torch.Tensor:
    return torch.arange(T) >= torch.tensor([[T], [5], [2]])


def float_padding() -> torch.Tensor:
    return torch.zeros(B, T).masked_fill(padding(), -torch.inf)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("memory", ["stack", "deque", "superposition"])
def test_an_encoder_layer_calls_it_as_it_calls_attention(
    memory: str, batch_first: bool, grad: bool
) -> None:
    layer = encoder_layer(batch_first, memory)
    x = torch.randn(B, T, E) if batch_first else torch.randn(T, B, E)
    with torch.set_grad_enabled(grad):
        output = layer(x, src_mask=causal(), is_causal=True, src_key_padding_mask=float_padding())
        read, _ = layer.self_attn(layer.norm1(x), key_padding_mask=padding())
        wanted = x + read
        wanted = wanted + layer._ff_block(layer.norm2(wanted))
    torch.testing.assert_close(output, wanted)
    if grad:
        output.sum().backward()
        assert layer.self_attn.value.weight.grad.abs().max() > 0


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_a_whole_encoder_runs_it(grad: bool, masked: bool) -> None:
    with pytest.warns(UserWarning, match=r"norm_first|_qkv_same_embed_dim"):
        encoder = nn.TransformerEncoder(encoder_layer(batch_first=True), 2)
    x, mask = torch.randn(B, T, E), float_padding()
    with torch.set_grad_enabled(grad):
        output = encoder.eval()(x, causal() if masked else None, src_key_padding_mask=mask)
        one = encoder(x[1:2, :5])
    torch.testing.assert_close(output[1:2, :5], one)


def test_the_fast_path_over_nested_tensors_finds_no_weights_to_take() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, 2, 16, batch_first=True), 1)
    encoder.layers[0].self_attn = MemoryAttention(E, num_heads=2, batch_first=True)
    with (
        torch.no_grad(),
        pytest.raises(AttributeError, match="in_proj_weight"),
    ):
        encoder.eval()(torch.randn(B, T, E), src_key_padding_mask=padding())


def test_a_decoder_keeps_its_attention_over_the_source() -> None:
    layer = nn.TransformerDecoderLayer(E, 2, 16).eval()
    layer.self_attn = MemoryAttention(E, num_heads=2)
    decoder = nn.TransformerDecoder(layer, 2)
    target, source = torch.randn(T, B, E), torch.randn(4, B, E)
    whole = decoder(target, source, tgt_mask=causal())
    part = decoder(target[:3], source)
    assert whole.shape == (T, B, E)
    torch.testing.assert_close(whole[:3], part)  # causal
    layer.multihead_attn = MemoryAttention(E, num_heads=2)
    with pytest.raises(ValueError, match=r"one tensor; for another sequence, .* keep nn.Multihead"):
        layer(target, source)


@pytest.mark.parametrize("mask", [causal(), causal() == -torch.inf, None])
@pytest.mark.parametrize("is_causal", [True, False])
def test_causal_masks_change_nothing(mask: torch.Tensor | None, is_causal: bool) -> None:
    layer, x = MemoryAttention(E), torch.randn(T, B, E)
    output, nothing = layer(x, x, x, attn_mask=mask, is_causal=is_causal, need_weights=False)
    assert nothing is None
    assert torch.equal(output, layer(x)[0])
    output, _ = layer(x, x, x, key_padding_mask=float_padding())
    assert torch.equal(output, layer(x, None, padding())[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attn_mask": torch.zeros(T, T)}, r"must be the causal mask \[T, T\], .* got another"),
        ({"attn_mask": torch.zeros(T, T) > 0}, r"must be the causal mask \[T, T\]"),
        ({"attn_mask": causal().expand(6, T, T)}, r"got another mask, \[6, 7, 7\]"),
        ({"attn_mask": torch.randn(T, T)}, "attn_mask must be bool, or float with 0 and -inf"),
        ({"key_padding_mask": torch.randn(B, T)}, "key_padding_mask must be bool, or float with"),
        ({"need_weights": True}, "need_weights must be False: a memory has no attention weights"),
    ],
)
def test_what_a_memory_cannot_do_is_refused(options: dict[str, Any], message: str) -> None:
    layer, x = MemoryAttention(E), torch.randn(T, B, E)
    with pytest.raises(ValueError, match=message):
        layer(x, x, x, **options)
    with pytest.raises(ValueError, match="query, key and value must be one tensor"):
        layer(x, x, x.clone(), **options)


def test_too_many_arguments_are_refused() -> None:
    layer, x = MemoryAttention(E), torch.randn(T, B, E)
    with pytest.raises(TypeError, match="expected x, state and key_padding_mask, or query, key"):
        layer(x, None, padding(), key_padding_mask=padding())
