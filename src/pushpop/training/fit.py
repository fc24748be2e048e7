"""A model from pairs in memory: they are written to a file, and that is trained on."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pushpop.errors import InputError
from pushpop.models import Transducer
from pushpop.tasks.pairs_file import check_features
from pushpop.tasks.pairs_lines import check_text
from pushpop.training.config import TrainConfig
from pushpop.training.loop import train
from pushpop.training.view import PlainView

Strings = Sequence[str]
PAIRS, VALID = "pairs.tsv", "valid.tsv"


def fit(
    pairs: Iterable[Strings],
    valid: Iterable[Strings] | None,
    run: str | PathLike[str] | None,
    show: bool,
    options: dict[str, Any],
) -> Transducer:
    """See `Transducer.fit`."""
    given = {PAIRS: pairs} if valid is None else {PAIRS: pairs, VALID: valid}
    rows = {name: check_pairs(each, name.removesuffix(".tsv")) for name, each in given.items()}
    widths = {len(row) for each in rows.values() for row in each}
    if len(widths) > 1:
        raise InputError("some pairs have features and some have none, expected all or none")
    with ExitStack() as stack:
        if run is None:
            run = stack.enter_context(TemporaryDirectory(prefix="pushpop-"))
        folder = Path(run)
        folder.mkdir(parents=True, exist_ok=True)
        for name, each in rows.items():
            text = "".join("\t".join(row) + "\n" for row in each)
            (folder / f".{name}").write_bytes(text.encode())  # hidden: no part of the run
        files: dict[str, Any] = {"task": str(folder / f".{PAIRS}")}
        if valid is not None:
            files["valid"] = str(folder / f".{VALID}")
        files["columns"] = "1,2" if widths == {2} else "1,2,3"
        train(TrainConfig.from_dict({**options, **files}), folder, PlainView() if show else None)
        return Transducer.from_pretrained(folder)


def check_pairs(pairs: Iterable[Strings], what: str) -> list[list[str]]:
    """The pairs as rows of a file; `InputError` with the number of one that cannot be a row."""
    rows = []
    for number, pair in enumerate(pairs):
        where = f"{what}: pair {number}"
        if isinstance(pair, str) or not 2 <= len(pair) <= 3:
            raise InputError(f"{where} is {pair!r}, expected (source, target) or with features")
        for side, text in zip(("source", "target", "features"), pair, strict=False):
            if not isinstance(text, str) or not text.strip(" "):
                raise InputError(f"{where}: the {side} is {text!r}, expected a string with letters")
            bad = check_text(text)
            if bad is None and "\t" in text:
                raise InputError(f"{where}: a tab in the {side} {text!r}")
            if bad is not None:
                raise InputError(f"{where}: {bad.what} at character {bad.column} of the {side}")
        if len(pair) == 3 and (problem := check_features(pair[2])) is not None:
            raise InputError(f"{where}: {problem[1]}")
        rows.append(list(pair))
    if not rows:
        raise InputError(f"{what}: no pairs")
    return rows


Transducer.fitter = staticmethod(fit)
