"""A memory where a self-attention sits: whole sequences at once, causal, no recurrence."""

import torch
from torch import Tensor, nn

from pushpop.layers.precision import check_like
from pushpop.memory import MEMORIES, MemoryState


class MemoryAttention(nn.Module):
    """`num_heads` memories side by side, each `embed_dim // num_heads` wide, driven by x_t alone:

        push = sigmoid(W_d x + b_d)    pop = sigmoid(W_u x + b_u)    value = W_v x + b_v
        y_t  = W_y [reads of all heads at step t] + b_y

    Controls do not depend on reads, so a sequence needs no loop in time, and y_t depends on
    x_1 .. x_t only. A memory keeps order by itself: there is no positional encoding to add. A deque
    pushes, pops and reads at both ends.

    Weights start as those of `nn.Linear`, the pushes' biases at 0 and the pops' at -1: a memory
    that pops more than it pushes is empty, and nothing can be learned from it.

    Args:
        embed_dim: E, the width of input and output.
        memory: "stack", "queue" or "deque".
        num_heads: how many memories; must divide `embed_dim`.
        batch_first: input and output are [B, T, E] rather than [T, B, E].
        bias: whether values and output have biases; the gates always have theirs.
        backend: as for the memories; "auto" takes the kernels on the CPU, the parallel form
            elsewhere.
    """

    def __init__(
        self,
        embed_dim: int,
        memory: str = "stack",
        num_heads: int = 1,
        batch_first: bool = False,
        bias: bool = True,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, size in {"embed_dim": embed_dim, "num_heads": num_heads}.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1; got {size}")
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim must be divisible by num_heads; got {embed_dim} and {num_heads}"
            )
        if memory not in MEMORIES:
            raise ValueError(f"memory must be one of {', '.join(MEMORIES)}; got {memory!r}")
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.memory = MEMORIES[memory](embed_dim // num_heads, backend)
        ends = self.memory.ends
        self.push = nn.Linear(embed_dim, num_heads * ends)
        self.pop = nn.Linear(embed_dim, num_heads * ends)
        self.value = nn.Linear(embed_dim, embed_dim * ends, bias=bias)
        self.out = nn.Linear(embed_dim * ends, embed_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew and set the gates' biases."""
        for linear in (self.push, self.pop, self.value, self.out):
            linear.reset_parameters()
        nn.init.zeros_(self.push.bias)
        nn.init.constant_(self.pop.bias, -1.0)

    def forward(
        self,
        x: Tensor,
        state: MemoryState | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, MemoryState]:
        """x [T, B, E] (or [T, E]) -> output of the same shape, and the memories' state.

        `key_padding_mask` [B, T] (or [T]) is True at padding, as for `nn.MultiheadAttention`. A
        padded step pushes and pops nothing and its output is 0, so it changes no other step.

        The state has a row for each head of each row of the batch, `b * num_heads + head`; None is
        empty memories. Passing it on continues the sequence: pieces give what the whole gives.
        """
        axes = "[B, T, E]" if self.batch_first else "[T, B, E]"
        self._check_input(x, (2, 3), f"{axes} or [T, E]")
        batched = x.dim() == 3
        if not batched:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        T, B = x.shape[:2]
        self._check_state(state, B)
        padded = None
        if key_padding_mask is not None:
            _check_mask(key_padding_mask, [B, T] if batched else [T], x)
            padded = key_padding_mask.reshape(B, T).T[..., None]
            x = x.masked_fill(padded, 0)  # what padding holds, even NaN, must reach no gradient
        values, push, pop = self._controls(x)
        if padded is not None:
            push, pop = push.masked_fill(padded, 0), pop.masked_fill(padded, 0)
        reads, state = self.memory(*self._fold(values, push, pop), state)
        output: Tensor = self.out(reads.reshape(T, B, self.out.in_features))
        if padded is not None:
            output = output.masked_fill(padded, 0)
        if not batched:
            return output.squeeze(1), state
        return (output.transpose(0, 1) if self.batch_first else output), state

    def step(self, x: Tensor, state: MemoryState | None = None) -> tuple[Tensor, MemoryState]:
        """One step, for decoding: x [B, E] (or [E]) -> output of the same shape, and the state."""
        self._check_input(x, (1, 2), "[B, E] or [E]")
        rows = x if x.dim() == 2 else x.unsqueeze(0)
        self._check_state(state, rows.shape[0])
        read, state = self.memory.step(*self._fold(*self._controls(rows)), state)
        output: Tensor = self.out(read.reshape(rows.shape[0], self.out.in_features))
        return output.view_as(x), state

    def select(self, state: MemoryState, rows: Tensor) -> MemoryState:
        """The state of some rows of the batch, all their heads, in the order given (for beams)."""
        heads = torch.arange(self.num_heads, device=rows.device)
        return state[(rows[:, None] * self.num_heads + heads).flatten()]

    def _controls(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values [..., heads * ends * D], push and pop [..., heads * ends], as the state's dtype.

        Under autocast the projections may come out in half precision; strengths add up over time,
        so the memory keeps the precision of the parameters.
        """
        dtype = self.value.weight.dtype
        values, push, pop = (linear(x).to(dtype) for linear in (self.value, self.push, self.pop))
        return values, torch.sigmoid(push), torch.sigmoid(pop)

    def _fold(self, values: Tensor, push: Tensor, pop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Heads become rows of the batch: [..., B, heads * ends (* D)] -> [..., B * heads, ...]."""
        lead = (*values.shape[:-2], values.shape[-2] * self.num_heads)
        ends = (2,) if self.memory.ends == 2 else ()
        return (
            values.reshape(*lead, *ends, self.memory.width),
            push.reshape(*lead, *ends),
            pop.reshape(*lead, *ends),
        )

    def _check_input(self, x: Tensor, dims: tuple[int, ...], wanted: str) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"the input must be a tensor; got {type(x).__name__}")
        if x.dim() not in dims or x.shape[-1] != self.embed_dim:
            raise ValueError(
                f"the input must be {wanted} with E = {self.embed_dim}; got {list(x.shape)}"
            )
        check_like("the input", x, self.value.weight)

    def _check_state(self, state: MemoryState | None, batch: int) -> None:
        """What the memory itself would say in terms of its folded batch."""
        if isinstance(state, MemoryState) and state.batch_size != batch * self.num_heads:
            raise ValueError(
                f"state must have {batch * self.num_heads} rows, a batch of {batch} with "
                f"{self.num_heads} heads; got {state.batch_size}"
            )

    def extra_repr(self) -> str:
        """The arguments, as `print(module)` shows them."""
        turned = ", batch_first=True" if self.batch_first else ""
        return f"{self.embed_dim}, {self.memory.kind!r}, num_heads={self.num_heads}{turned}"


def _check_mask(mask: Tensor, shape: list[int], x: Tensor) -> None:
    axes = "[B, T]" if len(shape) == 2 else "[T]"
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        given = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"key_padding_mask must be a bool tensor, True at padding; got {given}")
    if list(mask.shape) != shape:
        raise ValueError(f"key_padding_mask must be {axes} = {shape}; got {list(mask.shape)}")
    if mask.device != x.device:
        raise ValueError(
            f"key_padding_mask must be on the input's device, {x.device}; got {mask.device}"
        )
