"""How fast DeepLSTM is: against torch's nn.LSTM of as many layers, forward and backward.

    python benchmarks/deep_lstm_speed.py        writes results/deep_lstm_speed.json

One thread, T=130, B=10, input 64, hidden 256, float32, seed 0: ten rows of 130 steps, and ten
packed rows of 18 to 130 as the copying task has them. Layers after the first of a DeepLSTM are
wider than those of nn.LSTM (they also see the input), so the same work is a chain of nn.LSTM
modules that get the input beside the output of the one before; plain nn.LSTM does less. The three
take turns in one run. Nothing is reported unless DeepLSTM and the chain agree on these very inputs.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from machine import interleave, write_results
from pushpop import DeepLSTM

T, B, INPUT, HIDDEN = 130, 10, 64, 256
LENGTHS = [130, 118, 105, 93, 80, 68, 55, 43, 30, 18]
ROUNDS = {1: 40, 2: 30, 4: 20, 8: 12}
Input = Tensor | PackedSequence


class Chain(nn.Module):
    """nn.LSTM modules that do the work of a given DeepLSTM, with its weights."""

    def __init__(self, lstm: DeepLSTM) -> None:
        super().__init__()
        widths = [INPUT] + [INPUT + HIDDEN] * (lstm.num_layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(width, HIDDEN) for width in widths)
        self.h0, self.c0 = nn.Parameter(lstm.h0.detach()), nn.Parameter(lstm.c0.detach())
        with torch.no_grad():
            for k, layer in enumerate(self.layers):
                layer.weight_ih_l0.copy_(getattr(lstm, f"weight_ih_l{k}"))
                layer.weight_hh_l0.copy_(getattr(lstm, f"weight_hh_l{k}"))
                layer.bias_ih_l0.copy_(getattr(lstm, f"bias_l{k}"))
                layer.bias_hh_l0.zero_()

    def forward(self, x: Input) -> tuple[Input, None]:
        output = x
        for k, layer in enumerate(self.layers):
            given = x if k == 0 else _with_data(x, torch.cat([_data(x), _data(output)], dim=-1))
            first = (self.h0[k].expand(1, B, -1), self.c0[k].expand(1, B, -1))
            output, _ = layer(given, tuple(part.contiguous() for part in first))
        return output, None


def _data(x: Input) -> Tensor:
    return x if isinstance(x, Tensor) else x.data


def _with_data(x: Input, data: Tensor) -> Input:
    return data if isinstance(x, Tensor) else PackedSequence(data, x.batch_sizes)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    whole = torch.randn(T, B, INPUT)
    inputs: dict[str, Input] = {"whole": whole, "packed": pack_padded_sequence(whole, LENGTHS)}
    figures = {name: {n: _measure(name, x, n) for n in ROUNDS} for name, x in inputs.items()}
    setting = {"T": T, "B": B, "input": INPUT, "hidden": HIDDEN, "threads": 1, "seed": 0}
    write_results(
        "deep_lstm_speed",
        {"setting": {**setting, "packed_lengths": LENGTHS}, **figures},
    )


def _measure(name: str, x: Input, n_layers: int) -> dict[str, Any]:
    deep = DeepLSTM(INPUT, HIDDEN, n_layers)
    models = {
        "deep_lstm": deep,
        "chain_with_the_same_work": Chain(deep),
        "nn_lstm": nn.LSTM(INPUT, HIDDEN, n_layers),
    }
    grad = torch.randn(*_data(x).shape[:-1], HIDDEN)
    _check_agreement(models, x, grad)
    seconds = interleave(
        {who: partial(_gradients, model, x, grad) for who, model in models.items()},
        dict.fromkeys(models, ROUNDS[n_layers]),
        warmup=2,
    )
    ratios = {
        who: round(seconds["deep_lstm"] / seconds[who], 3)
        for who in ("chain_with_the_same_work", "nn_lstm")
    }
    ms = 1e3 * seconds["deep_lstm"]
    print(f"{name}, {n_layers} layers: {ms:.1f} ms, over: {ratios}", flush=True)
    return {
        "forward_backward_ms": {who: round(1e3 * s, 2) for who, s in seconds.items()},
        "deep_lstm_over": ratios,
    }


def _gradients(model: nn.Module, x: Input, grad: Tensor) -> tuple[Tensor, Tensor]:
    model.zero_grad()
    leaf = _data(x).detach().requires_grad_()
    output, _ = model(_with_data(x, leaf))
    _data(output).backward(grad)
    assert leaf.grad is not None
    return _data(output).detach(), leaf.grad


def _check_agreement(models: dict[str, nn.Module], x: Input, grad: Tensor) -> None:
    wanted = _gradients(models["chain_with_the_same_work"], x, grad)
    for found, want in zip(_gradients(models["deep_lstm"], x, grad), wanted, strict=True):
        error = float((found - want).abs().max() / want.abs().max())
        if error > 1e-4:
            raise SystemExit(f"DeepLSTM differs from the chain by {error}; nothing measured")


if __name__ == "__main__":
    main()
