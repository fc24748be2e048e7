"""How fast DeepLSTM is: against torch's nn.LSTM of as many layers, forward and backward.

    python benchmarks/deep_lstm_speed.py        writes results/deep_lstm_speed.json

One thread, T=130, B=10, input 64, hidden 256, float32, seed 0. Layers after the first of a DeepLSTM
are wider than those of nn.LSTM (they also see the input), so the same work is a chain of nn.LSTM
modules that get the input beside the output of the one before; plain nn.LSTM does less. The three
take turns in one run. Nothing is reported unless DeepLSTM and the chain agree on these very inputs.
"""

from functools import partial

import torch
from torch import Tensor, nn

from machine import interleave, write_results
from pushpop import DeepLSTM

T, B, INPUT, HIDDEN = 130, 10, 64, 256
ROUNDS = {1: 40, 2: 30, 4: 20, 8: 12}


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

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        output = x
        for k, layer in enumerate(self.layers):
            given = x if k == 0 else torch.cat([x, output], dim=-1)
            first = (self.h0[k].expand(1, B, -1), self.c0[k].expand(1, B, -1))
            output, _ = layer(given, tuple(part.contiguous() for part in first))
        return output, None


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = {}
    for n_layers, rounds in ROUNDS.items():
        deep = DeepLSTM(INPUT, HIDDEN, n_layers)
        models = {
            "deep_lstm": deep,
            "chain_with_the_same_work": Chain(deep),
            "nn_lstm": nn.LSTM(INPUT, HIDDEN, n_layers),
        }
        x, grad = torch.randn(T, B, INPUT), torch.randn(T, B, HIDDEN)
        _check_agreement(models, x, grad)
        seconds = interleave(
            {name: partial(_gradients, model, x, grad) for name, model in models.items()},
            dict.fromkeys(models, rounds),
            warmup=2,
        )
        ratios = {
            name: round(seconds["deep_lstm"] / seconds[name], 3)
            for name in ("chain_with_the_same_work", "nn_lstm")
        }
        figures[n_layers] = {
            "forward_backward_ms": {name: round(1e3 * s, 2) for name, s in seconds.items()},
            "deep_lstm_over": ratios,
        }
        print(f"{n_layers} layers: {1e3 * seconds['deep_lstm']:.1f} ms, over: {ratios}", flush=True)
    setting = {"T": T, "B": B, "input": INPUT, "hidden": HIDDEN, "threads": 1, "seed": 0}
    write_results("deep_lstm_speed", {"setting": setting, "layers": figures})


def _gradients(model: nn.Module, x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    model.zero_grad()
    leaf = x.detach().requires_grad_()
    output, _ = model(leaf)
    output.backward(grad)
    assert leaf.grad is not None
    return output.detach(), leaf.grad


def _check_agreement(models: dict[str, nn.Module], x: Tensor, grad: Tensor) -> None:
    wanted = _gradients(models["chain_with_the_same_work"], x, grad)
    for found, want in zip(_gradients(models["deep_lstm"], x, grad), wanted, strict=True):
        error = float((found - want).abs().max() / want.abs().max())
        if error > 1e-4:
            raise SystemExit(f"DeepLSTM differs from the chain by {error}; nothing measured")


if __name__ == "__main__":
    main()
