"""How a recurrent layer's whole sequence runs by kernels: the only place that says when they can,
and what they take.

`fused` has the CPU's loop over time and `triton` a GPU's; both must equal
`memory_layer._run_step_by_step`, which runs whatever they cannot. They are imported when they first
run.

A layer may have M memories: B sequences then have R = B*M rows of cells, row b*M + m for memory m
of sequence b. A memory takes V values D wide and G gates a step. Values are projected in the order
(m, v, d), gates in the order (m, g). H is the width of h, S = H + that of what is read. Steps of
all sequences may be packed, N rows: those that have a first step, then those that have a second,
and so on; on a GPU [T, B, ...] stands for [N, ...].

A cell has blocks, K wide together: i, f, g, o of an LSTM; n, r, z of a GRU and h's share of n,
which a gate multiplies; h of an Elman network. Weights over the input and what was read concern the
first J of these numbers, weights over h the last J: of a GRU three blocks each, of the others all.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from pushpop.layers.backends.products import product
from pushpop.layers.cells import Cell, ElmanCell, GRUCell, LSTMCell
from pushpop.layers.inputs import Noise
from pushpop.layers.state import RNNState
from pushpop.memory.backends import BACKENDS as MEMORY_BACKENDS
from pushpop.memory.backends import WALKABLE
from pushpop.memory.base import Shifts, State, TensorState, has_hooks
from pushpop.memory.operators import Operator, declare, final_of, runs_eagerly, under_transform
from pushpop.memory.state import MemoryState, WalkResult

if TYPE_CHECKING:
    from pushpop.layers.memory_layer import MemoryLayer

KERNELS: dict[type[nn.Module], str] = {LSTMCell: "lstm", GRUCell: "gru", ElmanCell: "rnn"}
"""The cells that there are kernels for, by the names that these know them by."""
REPLACEABLE = {"forward", "run_step", "step", "squash", "update"}
"""Methods that somebody may have set on a part itself, in place of those of its class."""


class RecurrenceInput(NamedTuple):
    """What a recurrence takes."""

    memory: list[int]  # a number in `kinds.KINDS`, or encoded `Shifts`; []: there is none
    memories: int  # M
    keep: bool  # whether there may be a backward pass
    cell: str
    sizes: list[int]  # [T], sequences that have a step t: the first ones; []: all, any T in a graph
    x: Tensor  # [T, B, I]
    weight_ih: Tensor  # [J, I + S - H], over the input and what was read
    weight_hh: Tensor  # [J, H]
    bias: Tensor  # [K]
    value_weight: Tensor  # [M*V*D, H]
    value_bias: Tensor  # [M*V*D]
    gate_weight: Tensor  # [M*G, H]
    gate_bias: Tensor  # [M*G]
    h: Tensor  # [B, H]
    c: Tensor  # [B, H]
    read: Tensor  # [B, S - H]
    initial: Tensor  # [R, N, D], the cells at the start
    strengths: Tensor  # [R, N], theirs; unused where cells are mixed
    gate_noise: Tensor | None  # [T, B, M*G]
    cell_noise: Tensor | None  # [T, B, 2 H], for i and f, or r and z


class RecurrenceOutput(NamedTuple):
    """What a recurrence returns: its results, and what the backward pass needs."""

    hidden: Tensor  # [T, B, H]
    carry: Tensor  # [B, S], the final h and reads
    c: Tensor  # [B, H], final
    values: Tensor  # [T, R, V, D]
    strengths: Tensor  # [R, room], of the final cells (`memory.state.WalkResult`)
    row_ids: Tensor  # [R, room]
    counts: Tensor  # [R]
    prev_carry: Tensor  # [N, S], before each step
    prev_c: Tensor  # [N, H]
    activations: Tensor  # [N, K]
    gates: Tensor  # [T, R, G]
    log_row_ids: Tensor  # [R, room], the log of the pops (`fused/walk.py`)
    log_strengths: Tensor  # [R, room]
    dropped: Tensor  # [T*R, 2]
    trimmed_from: Tensor  # [T*R, 2]
    cells: Tensor  # [R, N', D], the final cells where they are mixed
    history: Tensor  # those that mixing keeps for the backward pass


class RecurrenceBackwardInput(NamedTuple):
    """What the backward pass of a recurrence takes."""

    memory: list[int]
    memories: int
    cell: str
    sizes: list[int]
    x: Tensor
    weight_ih: Tensor
    weight_hh: Tensor
    value_weight: Tensor
    gate_weight: Tensor
    initial: Tensor
    hidden: Tensor
    values: Tensor
    strengths: Tensor
    row_ids: Tensor
    counts: Tensor
    prev_carry: Tensor
    prev_c: Tensor
    activations: Tensor
    gates: Tensor
    log_row_ids: Tensor
    log_strengths: Tensor
    dropped: Tensor
    trimmed_from: Tensor
    history: Tensor
    grad_hidden: Tensor | None
    grad_carry: Tensor | None
    grad_c: Tensor | None
    grad_values: Tensor | None
    grad_strengths: Tensor | None
    grad_cells: Tensor | None


class RecurrenceGradients(NamedTuple):
    """The gradients of the inputs of a recurrence."""

    x: Tensor
    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor
    value_weight: Tensor
    value_bias: Tensor
    gate_weight: Tensor
    gate_bias: Tensor
    h: Tensor
    c: Tensor
    read: Tensor
    initial: Tensor
    strengths: Tensor


def shifts_of(memory: list[int]) -> Shifts | None:
    """How a memory mixes its cells; `None`: it is one of the paper's, or there is none."""
    return None if len(memory) < 2 else Shifts.decode(memory)


def empty_recurrence(inputs: RecurrenceInput, packed: bool = True) -> RecurrenceOutput:
    """The result of a recurrence, empty."""
    x, (R, N, D), K = inputs.x, inputs.initial.shape, len(inputs.bias)
    (T, B, _), H, new = x.shape, inputs.h.shape[1], x.new_empty
    S = H + inputs.read.shape[1]
    G = len(inputs.gate_bias) // inputs.memories
    V = len(inputs.value_bias) // (inputs.memories * D)
    real_steps = sum(size > 0 for size in inputs.sizes) if inputs.sizes else T
    steps = (T, B) if not packed else (sum(inputs.sizes) if inputs.sizes else T * B,)
    shifts = shifts_of(inputs.memory)
    rows = room = pops = kept = 0
    cells = 0, 0, D
    if shifts is not None:
        cells = R, shifts.cells(N, real_steps), D
        kept = R * D * shifts.kept(N, T) if inputs.keep else 0
    elif inputs.memory:
        rows, room, pops = R, N + T * V, T * R
    return RecurrenceOutput(
        hidden=new(T, B, H),
        carry=new(B, S),
        c=new(B, H),
        values=new(T, R, V, D),
        strengths=new(rows, room),
        row_ids=new(rows, room, dtype=torch.int64),
        counts=new(rows, dtype=torch.int64),
        prev_carry=new(*steps, S),
        prev_c=new(*steps, H),
        activations=new(*steps, K),
        gates=new(T, R, G),
        log_row_ids=new(rows, room, dtype=torch.int64),
        log_strengths=new(rows, room),
        dropped=x.new_zeros(pops, 2, dtype=torch.int64),
        trimmed_from=x.new_zeros(pops, 2),
        cells=new(cells),
        history=new(kept),
    )


def empty_unpacked_recurrence(inputs: RecurrenceInput) -> RecurrenceOutput:
    """The same with [T, B] steps in place of packed ones, as on a GPU."""
    return empty_recurrence(inputs, packed=False)


def empty_recurrence_gradients(inputs: RecurrenceBackwardInput) -> RecurrenceGradients:
    _, B, H = inputs.hidden.shape
    new, S = inputs.x.new_empty, inputs.prev_carry.shape[-1]
    return RecurrenceGradients(
        x=new(inputs.x.shape),
        weight_ih=new(inputs.weight_ih.shape),
        weight_hh=new(inputs.weight_hh.shape),
        bias=new(inputs.activations.shape[-1]),
        value_weight=new(inputs.value_weight.shape),
        value_bias=new(inputs.value_weight.shape[:1]),
        gate_weight=new(inputs.gate_weight.shape),
        gate_bias=new(inputs.gate_weight.shape[:1]),
        h=new(B, H),
        c=new(B, H),
        read=new(B, S - H),
        initial=new(inputs.initial.shape),
        strengths=new(inputs.initial.shape[:2]),
    )


@dataclass(frozen=True)
class Backend:
    """Kernels for whole sequences of a layer."""

    name: str
    where: str
    """Where they run, for messages."""
    recurrence: Operator[RecurrenceInput, RecurrenceOutput]
    mixes_cells: bool
    """Whether they run memories that mix their cells (`Shifts`)."""

    def unsupported(self, layer: "MemoryLayer", x: Tensor) -> str | None:
        """Return what there are no kernels for: the cell, the memory, the input's dtype or device;
        `None`: there are."""
        if not isinstance(layer.cell, tuple(KERNELS)):
            return f"the cell {type(layer.cell).__name__}"
        kernel = layer.memory.kernel
        if kernel is None or (isinstance(kernel, Shifts) and not self.mixes_cells):
            return f"the memory {layer.memory.kind!r}"
        supported = MEMORY_BACKENDS[self.name].supports(x.device, x.dtype)
        return None if x.dtype in WALKABLE and supported else f"{x.dtype} on {x.device}"

    def may_run(self, layer: "MemoryLayer") -> bool:
        """Whether the layer does what its kernels do, and torch wants no more than they can give.

        A part that somebody replaced, parametrized or hung a hook on must be called to count. A
        kernel belongs to the class of the memory itself: a subclass may do something else.
        """
        cell, memory = layer.cell, layer.memory
        plain = (
            type(cell) in KERNELS
            and type(layer.value) is type(layer.gates) is nn.Linear
            and layer.gates.bias is not None
            and "kernel" in vars(type(memory))
            and memory.backend in ("auto", self.name)
        )
        parts = (cell, layer.value, layer.gates, memory)
        changed = any(has_hooks(part) or REPLACEABLE & vars(part).keys() for part in parts)
        return plain and not changed and not under_transform()

    def run(
        self, layer: "MemoryLayer", x: Tensor, state: RNNState, sizes: list[int], noise: Noise
    ) -> tuple[Tensor, RNNState]:
        """x [T, B, I] with sizes[t] rows at step t, or all -> hidden [T, B, H] and the state after
        each row."""
        T, B, _ = x.shape
        if T == 0 or B == 0:
            return x.new_zeros(T, B, layer.hidden_size), state
        eager = runs_eagerly(x)
        inputs = recurrence_input(layer, x, state, sizes, noise, keep=not eager)
        out = self.recurrence.run(inputs) if eager else self.recurrence(inputs)
        memory: State
        if isinstance(state.memory, TensorState):
            memory = type(state.memory)(out.cells)
        else:
            final = WalkResult(out.values, inputs.initial, *final_of(out))
            memory = MemoryState._from_store(final)
        h, read = out.carry[:, : layer.hidden_size], out.carry[:, layer.hidden_size :]
        read = read.reshape(B, *layer.read_shape)
        return out.hidden, RNNState((h, out.c) if layer.has_c else h, read, memory)


def choose_backend(layer: "MemoryLayer", x: Tensor) -> Backend | None:
    """Choose the kernels that run this input; `None`: plain torch does.

    Asking for kernels by name that there are not raises.
    """
    if layer.backend not in ("auto", *BACKENDS):
        return None
    default = "triton" if x.is_cuda else "fused"
    backend = BACKENDS[default if layer.backend == "auto" else layer.backend]
    unsupported = backend.unsupported(layer, x)
    if unsupported is not None and layer.backend == backend.name:
        raise ValueError(
            f"backend {backend.name!r} runs the cells lstm, gru and rnn and memories with kernels, "
            f"in float32 or float64 {backend.where}; got {unsupported}: use backend 'auto' or "
            "'reference'"
        )
    return backend if unsupported is None and backend.may_run(layer) else None


def recurrence_input(
    layer: "MemoryLayer", x: Tensor, state: RNNState, sizes: list[int], noise: Noise, keep: bool
) -> RecurrenceInput:
    """A layer's weights and state as the operators take them."""
    cell, kernel = layer.cell, layer.memory.kernel
    assert isinstance(cell, Cell)
    assert kernel is not None
    name = KERNELS[type(cell)]
    weight_ih, weight_hh, bias = _arrange(cell)
    value_bias: Tensor | None = layer.value.bias
    if value_bias is None:
        value_bias = layer.value.weight.new_zeros(layer.value.out_features)
    if isinstance(kernel, Shifts):
        assert isinstance(state.memory, TensorState)
        memory, initial = kernel.encode(), state.memory.cells
        strengths = initial.new_empty(initial.shape[:2])
    else:
        assert isinstance(state.memory, MemoryState)
        cells = state.memory._materialise()
        memory, initial, strengths = [kernel], cells.values, cells.strengths
    return RecurrenceInput(
        memory=memory,
        memories=layer.num_memories,
        keep=keep,
        cell=name,
        sizes=sizes,
        x=x,
        weight_ih=weight_ih,
        weight_hh=weight_hh,
        bias=bias,
        value_weight=layer.value.weight,
        value_bias=value_bias,
        gate_weight=layer.gates.weight,
        gate_bias=layer.gates.bias,
        h=state.parts[0],
        c=state.parts[-1],
        read=state.read.flatten(1),
        initial=initial,
        strengths=strengths,
        gate_noise=noise.memory,
        cell_noise=noise.controller,
    )


def _arrange(cell: Cell) -> tuple[Tensor, Tensor, Tensor]:
    """Weights over what is seen, weights over h, and bias, in the blocks that kernels work on."""
    bias = cell.weight_hh.new_zeros(len(cell.weight_hh)) if cell.bias is None else cell.bias
    if not isinstance(cell, GRUCell):
        return cell.weight_ih, cell.weight_hh, bias
    H = cell.hidden_size
    bias_hn = bias.new_zeros(H) if cell.bias_hn is None else cell.bias_hn
    return cell.weight_ih.roll(H, 0), cell.weight_hh, torch.cat([bias.roll(H), bias_hn])


def weight_gradients(
    inputs: RecurrenceBackwardInput,
    seen: Tensor,
    hidden: Tensor,
    d_blocks: Tensor,
    d_values: Tensor,
    d_gates: Tensor,
) -> dict[str, Tensor]:
    """The gradients of weights and biases from tables with a row for each step of each sequence:
    the input and what was read, h after the step, and the gradients of all that is made from them.
    """
    J, H = inputs.weight_hh.shape
    d_seen, d_over_h = d_blocks[:, :J], d_blocks[:, d_blocks.shape[1] - J :]
    prev_h = inputs.prev_carry.flatten(0, -2)[:, :H]
    return {
        "weight_ih": product(d_seen.T, seen.T),
        "weight_hh": product(d_over_h.T, prev_h.T),
        "bias": d_blocks.sum(0),
        "value_weight": product(d_values.T, hidden.T),
        "value_bias": d_values.sum(0),
        "gate_weight": d_gates.T @ hidden,
        "gate_bias": d_gates.sum(0),
    }


Bundle = TypeVar("Bundle", RecurrenceInput, RecurrenceBackwardInput)


def with_sizes(inputs: Bundle) -> Bundle:
    """The same with sizes, which a graph leaves out where all sequences have all steps."""
    T, B, _ = inputs.x.shape
    return inputs if inputs.sizes else inputs._replace(sizes=[B] * T)


_LOOP = "pushpop.layers.backends.{}.loop.run_recurrence"
recurrence = declare(
    "recurrence", "fused", _LOOP.format("fused"), empty_recurrence, empty_recurrence_gradients,
    devices="cpu",
)  # fmt: skip
recurrence_triton = declare(
    "recurrence_triton", "triton", _LOOP.format("triton"), empty_unpacked_recurrence,
    empty_recurrence_gradients,
)  # fmt: skip
BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("fused", "on the CPU", recurrence, mixes_cells=True),
        Backend("triton", "on a GPU, with the package triton", recurrence_triton, False),
    )
}
