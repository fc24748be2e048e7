"""Train torch's own transformer layers, with stacks in place of self-attention, to reverse strings.

    python examples/memory_transformer.py                about 15 seconds on one core

Source and target share their symbols, so a stack must know whether SEP has come before it can
decide to push or to pop. The first block detects that; the second block reverses. There is no
positional encoding. The model is trained on lengths 4 to 12 and tested on longer ones. All that is
changed of a layer is one line: layer.self_attn = MemoryAttention(...).
"""

import argparse
import time

import torch
from torch import Tensor, nn

from pushpop import MemoryAttention
from pushpop.layers import HeadsState

N_SYMBOLS = 16
EOS = SOS = N_SYMBOLS  # one is only predicted, the other only read
SEP = N_SYMBOLS + 1
STEPS = 800
TRAINED = (4, 12)
TRIED = (TRAINED, (13, 20), (40, 60))


def block(width: int) -> nn.TransformerEncoderLayer:
    """Torch's layer with a memory as its self-attention."""
    layer = nn.TransformerEncoderLayer(
        width, 4, 2 * width, dropout=0.0, activation="gelu", norm_first=True
    )
    layer.self_attn = MemoryAttention(width, memory="stack", num_heads=4)
    return layer


class Transformer(nn.Module):
    """Map symbols to logits of the next symbol."""

    def __init__(self, width: int = 64, n_blocks: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(N_SYMBOLS + 2, width)
        self.blocks = nn.ModuleList(block(width) for _ in range(n_blocks))
        self.predict = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, N_SYMBOLS + 1))

    def forward(self, symbols: Tensor) -> Tensor:
        """Whole sequences [T, B], as in training: the memories are causal by themselves."""
        x = self.embed(symbols)
        for layer in self.blocks:
            x = layer(x)
        return self.predict(x)

    def step(
        self, symbols: Tensor, states: list[HeadsState | None]
    ) -> tuple[Tensor, list[HeadsState | None]]:
        """One symbol of each sequence [B], or more of them [T, B], after the given states: what a
        block computes, written out, since torch's layers carry no state."""
        x, after = self.embed(symbols), []
        for layer, state in zip(self.blocks, states, strict=True):
            memory = layer.self_attn if x.dim() == 3 else layer.self_attn.step
            read, state = memory(layer.norm1(x), state)
            x = x + read
            x = x + layer.linear2(layer.activation(layer.linear1(layer.norm2(x))))
            after.append(state)
        return self.predict(x), after


def draw(lengths: tuple[int, int], batch: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw prompts, SOS source SEP [n + 2, B], and answers, reversed source EOS [n + 1, B]."""
    n = int(torch.randint(lengths[0], lengths[1] + 1, (), generator=random))
    source = torch.randint(N_SYMBOLS, (n, batch), generator=random)
    sos, sep, eos = (torch.full((1, batch), symbol) for symbol in (SOS, SEP, EOS))
    return torch.cat([sos, source, sep]), torch.cat([source.flip(0), eos])


def train(model: Transformer, steps: int, random: torch.Generator) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=steps + 1, pct_start=0.1
    )
    start = time.perf_counter()
    for step in range(1, steps + 1):
        prompt, answer = draw(TRAINED, 32, random)
        logits = model(torch.cat([prompt, answer[:-1]]))
        loss = nn.functional.cross_entropy(logits[-len(answer) :].flatten(0, 1), answer.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps:
            seconds = time.perf_counter() - start
            print(f"step {step:5}  loss {loss.item():.4f}  {seconds:5.1f} s", flush=True)


@torch.no_grad()
def answer_greedily(model: Transformer, prompt: Tensor, steps: int) -> Tensor:
    """Read the whole prompt in one call, then decode step by step."""
    logits, states = model.step(prompt, [None] * len(model.blocks))
    symbols = [logits[-1].argmax(-1)]
    while len(symbols) < steps:
        # EOS is not an input; a string that ended early is wrong whatever comes after it.
        logits, states = model.step(symbols[-1].clamp(max=N_SYMBOLS - 1), states)
        symbols.append(logits.argmax(-1))
    return torch.stack(symbols)


def accuracy(
    model: Transformer, lengths: tuple[int, int], random: torch.Generator, batches: int = 10
) -> float:
    """Return the share of strings that are reversed without a single error."""
    right = []
    for _ in range(batches):
        prompt, answer = draw(lengths, 50, random)
        right.append((answer_greedily(model, prompt, len(answer)) == answer).all(0))
    return torch.cat(right).float().mean().item()


def learn(steps: int = STEPS, seed: int = 0) -> dict[tuple[int, int], float]:
    """Train a model; return the share of strings that it reverses exactly, by length range."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    model = Transformer()
    train(model, steps, random)
    return {lengths: accuracy(model.eval(), lengths, random) for lengths in TRIED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS, help="batches of 32 strings")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for (low, high), share in learn(options.steps, options.seed).items():
        seen = "as trained" if (low, high) == TRAINED else "never seen"
        print(f"lengths {low:2} to {high:2} ({seen}): {share:.1%} exactly reversed")


if __name__ == "__main__":
    main()
