"""How a recurrent layer's whole sequence runs by kernels: the only place that says when they can,
and what they take.

`fused` has the CPU's loop over time and `triton` a GPU's; both must equal
`memory_layer._run_step_by_step`, which runs whatever they cannot. They are imported when they first
run.

A layer may have M memories: B sequences then have R = B*M rows of cells, row b*M + m for memory m
of sequence b. A memory takes V values D wide and G gates a step. Values are projected in the order
(m, v, d), gates in the order (m, g). H is the width of h, S = H + that of what is read, K that of
the cell's blocks. Steps of all sequences may be packed, N rows: those that have a first step, then
those that have a second, and so on; on a GPU [T, B, ...] stands for [N, ...].
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from pushpop.layers.cells import Cell, ElmanCell, GRUCell, LSTMCell
from pushpop.layers.inputs import Noise
from pushpop.layers.state import RNNState
from pushpop.memory.backends import BACKENDS as MEMORY_BACKENDS
from pushpop.memory.backends import WALKABLE
from pushpop.memory.base import Shifts, State, TensorState, has_hooks
from pushpop.memory.operators import Operator, final_of, runs_eagerly, under_transform
from pushpop.memory.state import MemoryState, WalkResult

if TYPE_CHECKING:
    from pushpop.layers.memory_layer import MemoryLayer

KERNELS: dict[type[nn.Module], str] = {LSTMCell: "lstm", GRUCell: "gru", ElmanCell: "rnn"}
"""The cells that there are kernels for, by the names that these know them by."""
REPLACEABLE = {"forward", "run_step", "step", "squash", "update"}
"""Methods that somebody may have set on a part itself, in place of those of its class."""


class RecurrenceInput(NamedTuple):
    """What a recurrence takes."""

    memory: list[int]  # the number of the paper's memory (`kinds.KINDS`), or encoded `Shifts`
    memories: int  # M
    keep: bool  # whether there may be a backward pass
    cell: str
    sizes: list[int]  # [T], sequences that have a step t: the first ones; []: all, any T in a graph
    x: Tensor  # [T, B, I]
    x_weight: Tensor  # [K, I]
    bias: Tensor  # [K]
    carry_weight: Tensor  # [K, S], over h and what was read
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
    cell_noise: Tensor | None  # [T, B, at most K], for the first blocks


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
    x_weight: Tensor
    carry_weight: Tensor
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
    x_weight: Tensor
    bias: Tensor
    carry_weight: Tensor
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
    """How a memory mixes its cells; `None`: it is one of the paper's."""
    return None if len(memory) == 1 else Shifts.decode(memory)


def empty_recurrence(inputs: RecurrenceInput, packed: bool = True) -> RecurrenceOutput:
    """The result of a recurrence, empty."""
    x, (R, N, D), (K, S) = inputs.x, inputs.initial.shape, inputs.carry_weight.shape
    (T, B, _), H, new = x.shape, inputs.h.shape[1], x.new_empty
    G = len(inputs.gate_bias) // inputs.memories
    V = len(inputs.value_bias) // (inputs.memories * D)
    real_steps = sum(size > 0 for size in inputs.sizes) if inputs.sizes else T
    steps = (T, B) if not packed else (sum(inputs.sizes) if inputs.sizes else T * B,)
    shifts = shifts_of(inputs.memory)
    if shifts is None:
        rows, room, pops, cells, kept = R, N + T * V, T * R, (0, 0, D), 0
    else:
        n_cells = shifts.cells(N, real_steps)
        rows = room = pops = 0
        cells, kept = (R, n_cells, D), R * D * shifts.kept(N, T) if inputs.keep else 0
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


def empty_recurrence_gradients(inputs: RecurrenceBackwardInput) -> RecurrenceGradients:
    """The gradients of a recurrence, empty."""
    _, B, H = inputs.hidden.shape
    new, S = inputs.x.new_empty, inputs.carry_weight.shape[1]
    return RecurrenceGradients(
        x=new(inputs.x.shape),
        x_weight=new(inputs.x_weight.shape),
        bias=new(inputs.carry_weight.shape[:1]),
        carry_weight=new(inputs.carry_weight.shape),
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
    carry_weight, x_weight, bias = _arrange(name, cell, layer.input_size)
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
        x_weight=x_weight,
        bias=bias,
        carry_weight=carry_weight,
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


def _arrange(name: str, cell: Cell, input_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights over (h, read), weights over x, and bias, in the blocks that kernels work on.

    An LSTM's three sigmoids come first. A GRU multiplies h's share of its third block by a gate, so
    that share is a fourth block, with the bias that it may have.
    """
    over_x, over_read = cell.weight_ih[:, :input_size], cell.weight_ih[:, input_size:]
    over_h = cell.weight_hh
    bias = over_h.new_zeros(len(over_h)) if cell.bias is None else cell.bias
    whole = torch.cat([over_h, over_read], dim=1)
    if name == "lstm":
        return sigmoids_first(whole), sigmoids_first(over_x), sigmoids_first(bias)
    if name == "rnn":
        return whole, over_x, bias
    H = over_h.shape[1]
    new_h, new_read = over_h[2 * H :], over_read[2 * H :]
    rows = [
        whole[: 2 * H],
        torch.cat([torch.zeros_like(new_h), new_read], dim=1),
        torch.cat([new_h, torch.zeros_like(new_read)], dim=1),
    ]
    zeros = torch.zeros_like(over_x[:H])
    assert isinstance(cell, GRUCell)
    last = zeros[:, 0] if cell.bias_hn is None else cell.bias_hn
    return torch.cat(rows), torch.cat([over_x, zeros]), torch.cat([bias, last])


def sigmoids_first(weight: Tensor) -> Tensor:
    """An LSTM's weight or bias with its blocks i, f, g, o in the order i, f, o, g."""
    i, f, g, o = weight.chunk(4)
    return torch.cat([i, f, o, g])


Bundle = TypeVar("Bundle", RecurrenceInput, RecurrenceBackwardInput)


def _with_sizes(inputs: Bundle) -> Bundle:
    """The same with sizes, which a graph leaves out where all sequences have all steps."""
    T, B, _ = inputs.x.shape
    return inputs if inputs.sizes else inputs._replace(sizes=[B] * T)


def _run_fused(inputs: RecurrenceInput) -> RecurrenceOutput:
    from pushpop.layers.backends.fused import loop

    return loop.run_recurrence(_with_sizes(inputs))


def _run_fused_backward(inputs: RecurrenceBackwardInput) -> RecurrenceGradients:
    from pushpop.layers.backends.fused import loop

    return loop.run_recurrence_backward(_with_sizes(inputs))


def _run_triton(inputs: RecurrenceInput) -> RecurrenceOutput:
    from pushpop.layers.backends.triton import loop

    return loop.run_recurrence(_with_sizes(inputs))


def _run_triton_backward(inputs: RecurrenceBackwardInput) -> RecurrenceGradients:
    from pushpop.layers.backends.triton import loop

    return loop.run_recurrence_backward(_with_sizes(inputs))


def _empty_unpacked(inputs: RecurrenceInput) -> RecurrenceOutput:
    return empty_recurrence(inputs, packed=False)


recurrence = Operator(
    "recurrence",
    _run_fused,
    empty_recurrence,
    "fused",
    Operator(
        "recurrence_backward",
        _run_fused_backward,
        empty_recurrence_gradients,
        "fused",
        devices="cpu",
    ),
    devices="cpu",
)
recurrence_triton = Operator(
    "recurrence_triton",
    _run_triton,
    _empty_unpacked,
    "triton",
    Operator(
        "recurrence_triton_backward", _run_triton_backward, empty_recurrence_gradients, "triton"
    ),
)
BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("fused", "on the CPU", recurrence, mixes_cells=True),
        Backend("triton", "on a GPU, with the package triton", recurrence_triton, False),
    )
}
