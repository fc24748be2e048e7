"""What a memory accepts. Shapes, dtypes and devices are always checked; values on request."""

import torch
from torch import Tensor

from pushpop.memory.state import Cells, MemoryState, strength_dtype


def check_tensors(
    values: Tensor,
    push: Tensor,
    pop: Tensor,
    state: MemoryState | None,
    *,
    letters: str,
    ends: bool,
    width: int,
) -> None:
    """`letters` are the leading dimensions, "TB" or "B"; `ends` tells a deque's extra axis."""
    named = {"values": values, "push": push, "pop": pop}
    for name, x in named.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a tensor; got {type(x).__name__}")
    axes = [*letters, *(["2"] if ends else [])]
    want = f"[{', '.join([*axes, str(width)])}]"
    shape = list(values.shape)
    if len(shape) != len(axes) + 1 or shape[-1] != width or (ends and shape[-2] != 2):
        raise ValueError(f"values must be {want}; got {shape}")
    if not values.is_floating_point():
        raise TypeError(f"values must be floating point; got {values.dtype}")
    for name in ("push", "pop"):
        x = named[name]
        if list(x.shape) != shape[:-1]:
            raise ValueError(
                f"{name} must be [{', '.join(axes)}] = {shape[:-1]} as in values; "
                f"got {list(x.shape)}"
            )
        # Gates may be wider than values in half precision: so are the strengths.
        _check_like(name, x, values, strength_dtype(values.dtype))
    if state is not None:
        check_state(state, values, shape[len(letters) - 1], width)


def check_state(state: MemoryState, values: Tensor, batch: int, width: int) -> None:
    """Raise unless this is a state for `batch` rows of cells `width` wide, like `values`."""
    if not isinstance(state, MemoryState):
        raise TypeError(f"state must be a MemoryState or None; got {type(state).__name__}")
    if state.batch_size != batch:
        raise ValueError(f"state has {state.batch_size} rows, the input has a batch of {batch}")
    if state.width != width:
        raise ValueError(f"state has cells {state.width} wide, this memory is {width} wide")
    _check_like("state", state, values, values.dtype)


def _check_like(name: str, x: Tensor | MemoryState, values: Tensor, wider: torch.dtype) -> None:
    if x.dtype not in (values.dtype, wider):
        raise TypeError(f"{name} must have the dtype of values, {values.dtype}; got {x.dtype}")
    if x.device != values.device:
        raise ValueError(f"{name} must be on the device of values, {values.device}; got {x.device}")


def check_values(values: Tensor, push: Tensor, pop: Tensor, state: MemoryState | None) -> None:
    """Push and pop lie in [0, 1] and values are finite; the place is looked for only if not.

    A state is looked at if it was made by hand; one that a memory returned needs no look.
    """
    gates, vectors = {"push": push, "pop": pop}, {"values": values}
    if state is not None and isinstance(state._held, Cells):
        gates["strengths of the state"] = state.strengths
        vectors["values of the state"] = state.values
    for name, x in gates.items():
        if x.numel() == 0 or x.device.type == "meta":
            continue
        low, high = x.detach().aminmax()
        if not (low >= 0 and high <= 1):
            place, found = _first(~((x >= 0) & (x <= 1)), x)
            raise ValueError(f"{name} must lie in [0, 1]; got {found} at {place}")
    for name, x in vectors.items():
        if x.device.type == "meta" or x.detach().sum().isfinite():
            continue
        bad = ~torch.isfinite(x)  # none if the numbers are only too large to add up
        if bad.any():
            place, found = _first(bad, x)
            raise ValueError(f"{name} must be finite; got {found} at {place}")


def _first(bad: Tensor, x: Tensor) -> tuple[list[int], float]:
    place = [int(i) for i in bad.nonzero()[0]]
    return place, x[tuple(place)].item()
