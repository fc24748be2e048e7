"""What a transducer is made of, apart from its symbols."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal, get_args

from pushpop.errors import InputError, check_keys, did_you_mean
from pushpop.memory.kinds import BIASES, ENDS, MEMORY_NAMES, check_biases

if TYPE_CHECKING:
    from pushpop.memory import Memory

NO_MEMORY = "none"
CellName = Literal["lstm", "gru", "rnn"]
EncoderName = Literal["none", "bidirectional"]
Bias = float | tuple[float, ...] | tuple[tuple[float, ...], ...]
StartingBias = Bias | Literal["auto", "drift"] | None
WIDEST, DEEPEST = 2**16, 1000
LARGEST = {
    "layers": DEEPEST, "embedding": WIDEST, "hidden": WIDEST, "memory_width": WIDEST,
    "heads": DEEPEST, "memories": DEEPEST,
}  # fmt: skip
CELL_NAMES = get_args(CellName)

OUTPUT_SCALE = 2.0
"""The output table's initial values are uniform on plus or minus this. With smaller ones the
memory's gradient is too small at first, and the controller learns without it (docs/results.md)."""


@dataclass(frozen=True)
class TransducerConfig:
    """The sizes of a transducer and how its gates start.

    Args:
        memory: the memory around a controller by its name in `pushpop.memory.MEMORIES`, or "none"
            for a deep LSTM (or `cell`).
        layers: the layers of the deep LSTM, or of controllers with a memory each; those above the
            first also receive the input.
        cell: the controller, "lstm", "gru" or "rnn"; without a memory, the network itself.
        embedding: the width of the input and of the output table.
        hidden: the width of the controller or of a layer.
        memory_width: the width of what is pushed; means nothing without a memory.
        push_bias: what the push gates' biases start at: a number, a deque's (top, bottom), a list
            of these for several memories, "drift": each drawn from N(pop bias, 1), or `None`: drawn
            as the weights are. "auto" becomes what the memory has: `None`. Only for memories that
            push and pop; means nothing without a memory.
        pop_bias: the same for the pop gates; "auto" becomes -1 where there are any.
        encoder: "bidirectional": the source is read by an LSTM in both directions first, and what
            it makes of each symbol is what fills the memory; "none": the symbols themselves.
        attention: whether outputs also look at the source directly, beside the memory.
        heads: memories side by side in a layer, each with a controller of its own.
        memories: memories side by side under one controller, which reads them all.
        dropout: the share of the input, of what goes between layers and of the output that is set
            to 0 in training.
    """

    memory: str = "stack"
    layers: int = 1
    cell: CellName = "lstm"
    embedding: int = 64
    hidden: int = 256
    memory_width: int = 256
    push_bias: StartingBias = "auto"
    pop_bias: StartingBias = "auto"
    encoder: EncoderName = "none"
    attention: bool = False
    heads: int = 1
    dropout: float = 0.0
    memories: int = 1

    def __post_init__(self) -> None:
        # A name that the package has is found without torch.
        known = (*MEMORY_NAMES, NO_MEMORY)
        memories = known if self.memory in known else (*_memories(), NO_MEMORY)
        names = {"memory": memories, "cell": CELL_NAMES, "encoder": get_args(EncoderName)}
        for name, accepted in names.items():
            value = getattr(self, name)
            if value not in accepted:
                hint = did_you_mean(str(value), accepted)
                raise InputError(f"{name} is {value!r}, expected {', '.join(accepted)}{hint}")
        if type(self.attention) is not bool:
            raise InputError(f"attention is {self.attention!r}, expected true or false")
        if not _is_number(self.dropout) or not 0 <= self.dropout < 1:
            raise InputError(f"dropout is {self.dropout!r}, expected a number from 0 to below 1")
        object.__setattr__(self, "dropout", float(self.dropout))
        for name, most in LARGEST.items():
            size = getattr(self, name)
            if type(size) is not int or not 1 <= size <= most:
                raise InputError(f"{name} is {size!r}, expected a whole number from 1 to {most}")
        for name in ("heads", "memories"):
            if self.memory == NO_MEMORY and getattr(self, name) != 1:
                raise InputError(f"{name} is {getattr(self, name)} with memory 'none', expected 1")
        known_biases = self._known_biases()
        for name in BIASES:
            bias = getattr(self, name)
            start = known_biases.get(name) if bias == "auto" else bias
            object.__setattr__(self, name, _read_bias(name, start))
        biases = self.starting_biases()
        try:
            if self.memory in MEMORY_NAMES:
                check_biases(self.memory, self.memories, biases)
            elif self.memory != NO_MEMORY:
                _memories()[self.memory](1).gate_bias(self.memories, **biases)
        except ValueError as error:
            raise InputError(f"{error}") from None

    def starting_biases(self) -> dict[str, Any]:
        """The biases that the memory takes, and others that are not `None`, for it to refuse."""
        known = self._known_biases()
        biases = {name: getattr(self, name) for name in BIASES}
        return {name: bias for name, bias in biases.items() if name in known or bias is not None}

    def _known_biases(self) -> Mapping[str, Any]:
        """The biases that can be set, with their defaults; without a memory they mean nothing."""
        if self.memory == NO_MEMORY or self.memory in ENDS:
            return BIASES
        return {} if self.memory in MEMORY_NAMES else _memories()[self.memory].biases

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TransducerConfig":
        """Undo `to_dict`: every field, and nothing else."""
        check_keys(data, [field.name for field in fields(cls)], "setting ")
        return cls(**data)


def check_tagger(config: TransducerConfig) -> None:
    """Refuse what only a transducer can have."""
    check_no_source(config, "a tagger reads a source once")


def check_no_source(config: TransducerConfig, reason: str) -> None:
    """Refuse whatever reads a source beside the body."""
    if config.encoder != "none":
        raise InputError(f"encoder is {config.encoder}: {reason}, expected none")
    if config.attention:
        raise InputError(f"attention is true: {reason}, expected false")


def _memories() -> "dict[str, type[Memory[Any]]]":
    """The memories by name, also those that a program registered."""
    from pushpop.memory import MEMORIES

    return MEMORIES


def _read_bias(name: str, bias: Any) -> Any:
    """A number, tuples of numbers, "drift" or `None`."""
    if bias is None or (bias == "drift" and name == "push_bias"):
        return bias
    if isinstance(bias, list | tuple):
        return tuple(_read_bias(name, part) for part in bias)
    if not _is_number(bias):
        drift = ", drift" if name == "push_bias" else ""
        raise InputError(f"{name} is {bias!r}, expected a finite number, two{drift} or none")
    return float(bias)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and type(x) is not bool and abs(x) <= float_info.max
