"""How the text of a pair becomes symbols, and symbols become text again."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args
from unicodedata import normalize

from pushpop.errors import InputError, did_you_mean

Symbols = Literal["chars", "spaces"]
Normalise = Literal["nfc", "nfkc", "none"]
UNKNOWN = "<unk>"
"""The symbol that stands for every symbol that was not there in training."""
FEATURE_SEPARATOR = ";"


@dataclass(frozen=True)
class TextForm:
    """What a model must know about text: it is saved with the model.

    Args:
        source: "chars": every character is a symbol; "spaces": symbols stand between spaces.
        target: the same for the other side.
        features: whether features such as `V;PST;3` go with the source; each is a symbol of its
            own, `<PST>`, and they are read before the source.
        normalise: the Unicode form that text is brought into first: "nfc", "nfkc" or "none".
    """

    source: Symbols = "chars"
    target: Symbols = "chars"
    features: bool = False
    normalise: Normalise = "nfc"

    def __post_init__(self) -> None:
        accepted = {"source": Symbols, "target": Symbols, "normalise": Normalise}
        for name, kind in accepted.items():
            given = getattr(self, name)
            if given not in get_args(kind):
                raise InputError(f"{name} is {given!r}, expected {' or '.join(get_args(kind))}")
        if type(self.features) is not bool:
            raise InputError(f"features is {self.features!r}, expected true or false")

    def clean(self, text: str) -> str:
        """Normalised, without the spaces at either end."""
        if self.normalise != "none" and not text.isascii():
            text = normalize("NFC" if self.normalise == "nfc" else "NFKC", text)
        return text.strip(" ")

    def source_symbols(self, text: str, features: str = "") -> list[str]:
        """The features' symbols, then the source's."""
        return [*self.feature_symbols(features), *_split(self.clean(text), self.source)]

    def target_symbols(self, text: str) -> list[str]:
        """The symbols of a target."""
        return _split(self.clean(text), self.target)

    def feature_symbols(self, text: str) -> list[str]:
        """`V;PST` -> `<V>`, `<PST>`: no character is written like that."""
        parts = self.clean(text).split(FEATURE_SEPARATOR) if text else []
        return [f"<{part}>" for part in parts]

    def target_text(self, symbols: Iterable[str]) -> str:
        """Undo `target_symbols`."""
        return ("" if self.target == "chars" else " ").join(symbols)

    def read_line(self, line: str) -> list[str]:
        """The source symbols of a line to predict from: the source, and after a tab its features
        if the model knows features."""
        text, tab, features = line.partition("\t")
        if self.features and not tab:
            raise InputError(f"{line!r}: no features; expected the source, a tab, the features")
        if not self.features and tab:
            raise InputError(f"{line!r}: a tab; expected a source and nothing else")
        if "\t" in features:
            raise InputError(f"{line!r}: more than one tab; expected the source, a tab, features")
        return self.source_symbols(text, features)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TextForm":
        """Undo `to_dict`: every field, and nothing else."""
        names = [field.name for field in fields(cls)]
        for name in data:
            if name not in names:
                raise InputError(f"text: unknown {name!r}{did_you_mean(str(name), names)}")
        for name in names:
            if name not in data:
                raise InputError(f"text: no {name!r}")
        return cls(**data)


def _split(text: str, symbols: Symbols) -> list[str]:
    return list(text) if symbols == "chars" else [part for part in text.split(" ") if part]
