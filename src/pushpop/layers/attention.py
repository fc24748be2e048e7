"""A memory where a self-attention sits: whole sequences at once, causal, no recurrence."""

from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from pushpop.layers.inputs import NO_JIT, check_input, refuse_jit
from pushpop.layers.state import HeadsState
from pushpop.memory import Memory, make_memory
from pushpop.memory.state import would_sync


class MemoryAttention(nn.Module):
    """`num_heads` memories side by side, each `embed_dim // num_heads` wide, driven by x_t alone:

        push = sigmoid(W_d x + b_d)    pop = sigmoid(W_u x + b_u)    value = W_v x + b_v
        y_t  = W_y [reads of all heads at step t] + b_y

    Controls do not depend on reads, so a sequence needs no loop in time, and y_t depends on
    x_1 .. x_t only. A memory keeps order by itself: there is no positional encoding to add. A deque
    pushes, pops and reads at both ends; a memory with other gates has a projection for each sort of
    them, under its name.

    Weights start as those of `nn.Linear`, the gates' biases where the memory has them start (pops
    at -1: a memory that pops more than it pushes is empty, and nothing can be learned from it),
    else at 0.

    Args:
        embed_dim: E, the width of input and output.
        memory: a name, as in "stack", "queue", "deque", or a `Memory` of one's own that is
            `embed_dim // num_heads` wide.
        num_heads: how many memories; must divide `embed_dim`.
        batch_first: input and output are [B, T, E] rather than [T, B, E].
        bias: whether values and output have biases; the gates always have theirs.
        backend: as for the memories; "auto" takes the kernels on the CPU, and on a GPU where Triton
            is, the parallel form elsewhere.
        device: where the parameters are.
        dtype: the type of the parameters.

    It also takes the calls of `nn.MultiheadAttention` in layers of torch, `layer.self_attn =
    MemoryAttention(...)`: see `forward`.
    """

    in_proj_bias = None  # layers of torch that find none call this module, not a kernel of theirs
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        memory: str | Memory[Any] = "stack",
        num_heads: int = 1,
        batch_first: bool = False,
        bias: bool = True,
        backend: str = "auto",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if isinstance(memory, int):
            raise TypeError(
                "the second argument is memory, a name or a Memory, and what nn.MultiheadAttention "
                f"has there goes by name; got {memory}: did you mean num_heads={memory}?"
            )
        for name, size in {"embed_dim": embed_dim, "num_heads": num_heads}.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1; got {size}")
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim must be divisible by num_heads; got {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.memory = make_memory(memory, embed_dim // num_heads, backend)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        for name, count in self._gate_names().items():
            self.add_module(name, nn.Linear(embed_dim, num_heads * count, **factory))
        self.value = nn.Linear(embed_dim, embed_dim * self.memory.values, bias, **factory)
        self.out = nn.Linear(embed_dim * self.memory.reads, embed_dim, bias, **factory)
        self.reset_parameters()

    def _gate_names(self) -> dict[str, int]:
        """The names of the projections, one for each sort of gates, and how many gates it has."""
        taken = {"memory", "value", "out", *dir(type(self))}
        sorts = self.memory.gate_sorts.items()
        return {f"{sort}_gate" if sort in taken else sort: count for sort, count in sorts}

    @property
    def gate_projections(self) -> list[nn.Linear]:
        """A projection for each sort of gates of the memory, in their order."""
        return [getattr(self, name) for name in self._gate_names()]

    def reset_parameters(self) -> None:
        """Draw all weights anew and set the gates' biases."""
        for linear in (*self.gate_projections, self.value, self.out):
            linear.reset_parameters()
        starts = [start or 0.0 for start in self.memory.gate_bias()[0]]
        with torch.no_grad():
            for linear in self.gate_projections:
                count = linear.out_features // self.num_heads
                linear.bias.copy_(torch.tensor(starts[:count]).repeat(self.num_heads))
                starts = starts[count:]

    def __prepare_scriptable__(self) -> NoReturn:
        """Raise: `torch.jit.script` asks for this first."""
        raise RuntimeError(NO_JIT)

    def forward(
        self,
        x: Tensor,
        state: HeadsState | Tensor | None = None,
        *third: Tensor | None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> tuple[Tensor, HeadsState | None]:
        """x [T, B, E] (or [T, E]) -> output of the same shape, and the memories' state.

        `key_padding_mask` [B, T] (or [T]) is True at padding, as for `nn.MultiheadAttention`. A
        padded step leaves the memories as they are and its output is 0, so it changes no other
        step.

        The state is that of all heads; None is empty memories. Passing it on continues the
        sequence: pieces give what the whole gives.

        As in torch's transformer layers, (x, x, x) are query, key and value; the output comes with
        None then. Masks may be bool or float; `attn_mask` [T, T] must be the causal one, which this
        layer keeps to without it. Another key or value, another mask, and `need_weights` are
        refused.
        """
        refuse_jit()
        if isinstance(state, Tensor) and len(third) == 1:
            _check_self_attention(x, state, third[0], need_weights, attn_mask, is_causal)
            if key_padding_mask is not None and key_padding_mask.is_floating_point():
                key_padding_mask = _as_bool("key_padding_mask", key_padding_mask)
            return self._run(x, None, key_padding_mask)[0], None
        if len(third) > 1 or (third and key_padding_mask is not None):
            raise TypeError("expected x, state and key_padding_mask, or query, key and value")
        if need_weights or attn_mask is not None or is_causal:
            _check_self_attention(x, x, x, need_weights, attn_mask, is_causal)
        return self._run(x, state, third[0] if third else key_padding_mask)

    def _run(
        self, x: Tensor, state: HeadsState | Tensor | None, key_padding_mask: Tensor | None
    ) -> tuple[Tensor, HeadsState]:
        axes = "[B, T, E]" if self.batch_first else "[T, B, E]"
        check_input(x, (2, 3), f"{axes} or [T, E]", ("E", self.embed_dim), self.value.weight)
        batched = x.dim() == 3
        if not batched:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        T, B = x.shape[:2]
        state = self._checked_state(state, B)
        padded = None
        if key_padding_mask is not None:
            _check_mask(key_padding_mask, [B, T] if batched else [T], x)
            padded = key_padding_mask.reshape(B, T).T[..., None]
            x = x.masked_fill(padded, 0)  # what padding holds, even NaN, must reach no gradient
        values, gates = self._controls(x)
        if padded is not None:
            gates = self._with_idle_steps(gates, padded)
        reads, memory = self.memory.run(values, gates, None if state is None else state.memory)
        state = HeadsState(memory, self.num_heads)
        output: Tensor = self.out(reads.reshape(T, B, self.out.in_features))
        if padded is not None:
            output = output.masked_fill(padded, 0)
        if not batched:
            return output.squeeze(1), state
        return (output.transpose(0, 1) if self.batch_first else output), state

    def step(self, x: Tensor, state: HeadsState | None = None) -> tuple[Tensor, HeadsState]:
        """One step, for decoding: x [B, E] (or [E]) -> output of the same shape, and the state."""
        check_input(x, (1, 2), "[B, E] or [E]", ("E", self.embed_dim), self.value.weight)
        rows = x if x.dim() == 2 else x.unsqueeze(0)
        self._checked_state(state, rows.shape[0])
        before = None if state is None else state.memory
        read, memory = self.memory.call_step(*self._controls(rows), before)
        output: Tensor = self.out(read.reshape(rows.shape[0], self.out.in_features))
        return output.view_as(x), HeadsState(memory, self.num_heads)

    def _controls(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [..., B, E] -> values [..., B heads, V, D] and gates [..., B heads, G].

        Heads become rows of the batch. Under autocast the projections may come out in half
        precision; strengths add up over time, so the memory keeps the precision of the parameters.
        """
        dtype, memory = self.value.weight.dtype, self.memory
        logits = [
            getattr(self, name)(x).to(dtype).reshape(*x.shape[:-1], self.num_heads, count)
            for name, count in self._gate_names().items()
        ]
        lead = (*x.shape[:-2], x.shape[-2] * self.num_heads)
        gates = memory.squash(torch.cat(logits, dim=-1)).reshape(*lead, memory.gates)
        return self.value(x).to(dtype).reshape(*lead, memory.values, memory.width), gates

    def _with_idle_steps(self, gates: Tensor, padded: Tensor) -> Tensor:
        """The gates [T, B heads, G] with those that do nothing at padded steps [T, B, 1]."""
        idle = self.memory.idle()
        if idle is None:
            raise ValueError(
                f"key_padding_mask: memory {self.memory.kind!r} has no step that changes nothing, "
                "so padding cannot be left out; give it sequences of one length"
            )
        where = padded.repeat_interleave(self.num_heads, dim=1)
        return torch.where(where, gates.new_tensor(idle), gates)

    def _checked_state(self, state: HeadsState | Tensor | None, batch: int) -> HeadsState | None:
        if state is None:
            return None
        if not isinstance(state, HeadsState):
            raise TypeError(f"state must be a HeadsState or None; got {type(state).__name__}")
        if state.heads != self.num_heads:
            raise ValueError(f"state has {state.heads} heads, this layer has {self.num_heads}")
        if state.batch_size != batch:
            raise ValueError(f"state has {state.batch_size} rows, the input has a batch of {batch}")
        self.memory.check_state(state.memory, batch * self.num_heads, self.value.weight)
        return state

    def extra_repr(self) -> str:
        turned = ", batch_first=True" if self.batch_first else ""
        return f"{self.embed_dim}, {self.memory.kind!r}, num_heads={self.num_heads}{turned}"


def _check_self_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> None:
    """Raise unless a call of `nn.MultiheadAttention` asks for what a memory can do."""
    if key is not query or value is not query:
        raise ValueError(
            "MemoryAttention is a self-attention: query, key and value must be one tensor; for "
            "another sequence, as in a decoder's multihead_attn, keep nn.MultiheadAttention"
        )
    if need_weights:
        raise ValueError("need_weights must be False: a memory has no attention weights")
    if attn_mask is None or is_causal:
        return
    if torch.compiler.is_compiling() or attn_mask.is_meta:
        raise ValueError("attn_mask cannot be looked at in a graph: pass is_causal=True with it")
    forbidden = attn_mask if attn_mask.dtype == torch.bool else _as_bool("attn_mask", attn_mask)
    causal = torch.ones_like(forbidden).triu(1)
    if forbidden.dim() != 2 or not torch.equal(forbidden, causal):
        raise ValueError(
            "attn_mask must be the causal mask [T, T], or None: a memory knows all that came "
            f"before and nothing else; got another mask, {list(attn_mask.shape)}"
        )


def _as_bool(name: str, mask: Tensor) -> Tensor:
    """A mask of 0 and -inf, as torch's layers hand it on, as one that is True at -inf."""
    hidden = mask == -torch.inf
    if not (torch.compiler.is_compiling() or would_sync(mask) or ((mask == 0) | hidden).all()):
        raise ValueError(f"{name} must be bool, or float with 0 and -inf; got other numbers")
    return hidden


def _check_mask(mask: Tensor, shape: list[int], x: Tensor) -> None:
    axes = "[B, T]" if len(shape) == 2 else "[T]"
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"key_padding_mask must be a bool tensor, True at padding; got {kind}")
    if list(mask.shape) != shape:
        raise ValueError(f"key_padding_mask must be {axes} = {shape}; got {list(mask.shape)}")
    if mask.device != x.device:
        raise ValueError(
            f"key_padding_mask must be on the input's device, {x.device}; got {mask.device}"
        )
