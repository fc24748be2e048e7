"""Tasks by name, and ranges of lengths.

Options of training are read with them, so there is no numpy here: the modules that draw are
imported when a task is made.
"""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pushpop.errors import InputError, did_you_mean, reading
from pushpop.tasks.pairs_text import ENDINGS, is_pairs_file

if TYPE_CHECKING:
    from pushpop.tasks.base import Task

LengthRange = tuple[int, int]
"""The shortest and the longest source, both included."""
CHOMSKY = "chomsky/"
"""How the names of tasks begin whose answers are written at blanks."""
GRAMMAR_FILE = ".itg"


def _make(module: str, name: str) -> "Task":
    task: Task = import_module(f"pushpop.tasks.{module}").make(name)
    return task


NAMES = (
    ("synthetic", "copy reverse flip"),
    ("grammar_task", "svo-sov gender"),
    ("synthetic", "duplicate odds-first brackets"),
    (
        "chomsky",
        """
        chomsky/even-pairs chomsky/parity chomsky/cycle-navigation chomsky/modular-arithmetic
        chomsky/stack-manipulation chomsky/reverse chomsky/modular-arithmetic-brackets
        chomsky/solve-equation chomsky/duplicate chomsky/missing-duplicate chomsky/odds-first
        chomsky/binary-addition chomsky/binary-multiplication chomsky/square-root
        chomsky/bucket-sort
        """,
    ),
)
"""Modules, and the tasks that the `make` of each makes."""
TASKS: dict[str, "Callable[[], Task]"] = {
    name: partial(_make, module, name) for module, names in NAMES for name in names.split()
}


def get_task(name: str) -> "Task":
    """The task of that name; a name that ends in .itg is the path of a grammar file."""
    check_task(name)
    if name.endswith(GRAMMAR_FILE):
        return _make("grammar_task", name)
    return TASKS[name]()


def check_task(name: str) -> None:
    """Raise InputError unless there is a task of that name, or such a grammar file."""
    if name.endswith(GRAMMAR_FILE):
        with reading(name):
            os.stat(name)
    elif name not in TASKS:
        _refuse_file(name)
        hint = did_you_mean(name, TASKS)
        known = ", ".join(TASKS)
        raise InputError(
            f"unknown task {name!r}{hint} (tasks: {known}, a .itg file, or for pushpop train pairs "
            "in a .tsv or .csv file)"
        )


def answers_at_blanks(name: str) -> bool:
    """Whether the vocabulary of a task has a blank, so that only a tagger can learn it."""
    return name.startswith(CHOMSKY)


def _refuse_file(name: str) -> None:
    """Say what is wrong with a file where a task is wanted: it was not meant as a task's name."""
    path = Path(name)
    if is_pairs_file(name):
        raise InputError(
            f"{name}: a file of pairs, expected a task to draw from; pushpop train and pushpop "
            "evaluate MODEL take such files"
        )
    try:
        kind = "a directory" if path.is_dir() else "a file" if path.is_file() else ""
    except (OSError, ValueError):  # no path at all
        return
    if kind or (path.suffix and len(path.suffix) < 6):
        what = kind or "no such file"
        raise InputError(
            f"{name}: {what}; expected a task (pushpop tasks lists them), a grammar in a .itg "
            f"file, or pairs in a file whose name ends in {', '.join(ENDINGS)} (or one of them "
            "with .gz)"
        )


def check_request(batch_size: int, lengths: LengthRange) -> LengthRange:
    """Refuse what no task can draw; gives the lengths back."""
    low, high = lengths
    if not 1 <= low <= high:
        raise InputError(f"lengths {low}-{high}: expected low-high with 1 <= low <= high")
    if batch_size < 1:
        raise InputError(f"{batch_size} pairs asked for: expected at least 1")
    return low, high


def parse_lengths(text: str) -> LengthRange:
    """Read `8-12`, or `10` for one length only."""
    low, dash, high = text.partition("-")
    try:
        lengths = int(low), int(high if dash else low)
    except ValueError:
        raise InputError(f"lengths {text!r}: expected 8-12, say, or one length") from None
    return check_request(1, lengths)
