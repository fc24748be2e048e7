"""What a transducer is made of, apart from its symbols."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from sys import float_info
from typing import Any, Literal, get_args

from pushpop.errors import InputError, did_you_mean

Memory = Literal["stack", "queue", "deque", "none"]
CellName = Literal["lstm", "gru", "rnn"]
Encoder = Literal["none", "bidirectional"]
Bias = float | tuple[float, float]
WIDEST, DEEPEST = 2**16, 1000


@dataclass(frozen=True)
class TransducerConfig:
    """The sizes of a transducer and how its gates start.

    Args:
        memory: "stack", "queue" or "deque" around a controller, or "none" for a deep LSTM.
        layers: the layers of the deep LSTM, or of controllers with a memory each; those above the
            first also receive the input.
        cell: the controller, "lstm", "gru" or "rnn"; "lstm" without a memory.
        embedding: the width of the input and of the output table.
        hidden: the width of the controller or of a layer.
        memory_width: the width of what is pushed; means nothing without a memory.
        push_bias: what the push gates' biases start at: a number, a deque's (top, bottom), or
            `None`: drawn as the weights are. Means nothing without a memory.
        pop_bias: the same for the pop gates.
        encoder: "bidirectional": the source is read by an LSTM in both directions first, and what
            it makes of each symbol is what fills the memory; "none": the symbols themselves.
        attention: whether outputs also look at the source directly, beside the memory.
        heads: memories side by side in a layer, each with a controller of its own.
        dropout: the share of the input, of what goes between layers and of the output that is set
            to 0 in training.
    """

    memory: Memory = "stack"
    layers: int = 1
    cell: CellName = "lstm"
    embedding: int = 64
    hidden: int = 256
    memory_width: int = 256
    push_bias: Bias | None = None
    pop_bias: Bias | None = -1.0
    encoder: Encoder = "none"
    attention: bool = False
    heads: int = 1
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name, kind in (("memory", Memory), ("cell", CellName), ("encoder", Encoder)):
            given, accepted = getattr(self, name), get_args(kind)
            if given not in accepted:
                raise InputError(f"{name} is {given!r}, expected {', '.join(accepted)}")
        if type(self.attention) is not bool:
            raise InputError(f"attention is {self.attention!r}, expected true or false")
        if not _is_number(self.dropout) or not 0 <= self.dropout < 1:
            raise InputError(f"dropout is {self.dropout!r}, expected a number from 0 to below 1")
        object.__setattr__(self, "dropout", float(self.dropout))
        for name, most in (
            ("layers", DEEPEST),
            ("embedding", WIDEST),
            ("hidden", WIDEST),
            ("memory_width", WIDEST),
            ("heads", DEEPEST),
        ):
            given = getattr(self, name)
            if type(given) is not int or not 1 <= given <= most:
                raise InputError(f"{name} is {given!r}, expected a whole number from 1 to {most}")
        if self.memory == "none" and self.heads != 1:
            raise InputError(f"heads is {self.heads} with memory 'none', expected 1")
        if self.memory == "none" and self.cell != "lstm":
            raise InputError(f"cell is {self.cell!r} with memory 'none', expected 'lstm'")
        for name in ("push_bias", "pop_bias"):
            object.__setattr__(self, name, self._bias(name, getattr(self, name)))

    def _bias(self, name: str, given: Any) -> Bias | None:
        numbers = list(given) if isinstance(given, list | tuple) else [given]
        if given is not None and not all(_is_number(x) for x in numbers):
            raise InputError(f"{name} is {given!r}, expected a finite number, two or none")
        if not isinstance(given, list | tuple):
            return None if given is None else float(given)
        if self.memory != "deque" or len(numbers) != 2:
            raise InputError(
                f"{name} is {given!r} with memory {self.memory!r}, expected one number; "
                "memory 'deque' can have two, (top, bottom)"
            )
        return float(numbers[0]), float(numbers[1])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TransducerConfig":
        """Undo `to_dict`: every field, and nothing else."""
        names = [field.name for field in fields(cls)]
        for name in data:
            if name not in names:
                raise InputError(f"unknown setting {name!r}{did_you_mean(str(name), names)}")
        for name in names:
            if name not in data:
                raise InputError(f"no setting {name!r}")
        return cls(**data)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and type(x) is not bool and abs(x) <= float_info.max
