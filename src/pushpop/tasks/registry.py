"""Tasks by name; the modules that draw them are imported when a task is made."""

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pushpop.errors import InputError, did_you_mean, reading
from pushpop.tasks.pairs_text import describe_endings, is_pairs_file

if TYPE_CHECKING:
    from pushpop.tasks.base import Task

CHOMSKY = "chomsky/"
"""How the names of tasks begin whose answers are written at blanks."""
GRAMMAR_FILE = ".itg"


def _make(module: str, name: str) -> "Task":
    task: Task = getattr(import_module(f"pushpop.tasks.{module}"), name)()
    return task


def _packaged_grammar(name: str) -> "Task":
    from pushpop.tasks.grammar_task import GrammarTask

    return GrammarTask.packaged(name)


TASKS: dict[str, "Callable[[], Task]"] = {
    "copy": partial(_make, "synthetic", "Copy"),
    "reverse": partial(_make, "synthetic", "Reverse"),
    "flip": partial(_make, "synthetic", "Flip"),
    "svo-sov": partial(_packaged_grammar, "svo-sov"),
    "gender": partial(_packaged_grammar, "gender"),
    "duplicate": partial(_make, "synthetic", "Duplicate"),
    "odds-first": partial(_make, "synthetic", "OddsFirst"),
    "brackets": partial(_make, "synthetic", "Brackets"),
    "chomsky/even-pairs": partial(_make, "chomsky", "EvenPairs"),
    "chomsky/parity": partial(_make, "chomsky", "Parity"),
    "chomsky/cycle-navigation": partial(_make, "chomsky", "CycleNavigation"),
    "chomsky/modular-arithmetic": partial(_make, "chomsky", "ModularArithmetic"),
    "chomsky/stack-manipulation": partial(_make, "chomsky", "StackManipulation"),
    "chomsky/reverse": partial(_make, "chomsky", "Reverse"),
    "chomsky/modular-arithmetic-brackets": partial(_make, "chomsky", "ModularArithmeticBrackets"),
    "chomsky/solve-equation": partial(_make, "chomsky", "SolveEquation"),
    "chomsky/duplicate": partial(_make, "chomsky", "Duplicate"),
    "chomsky/missing-duplicate": partial(_make, "chomsky", "MissingDuplicate"),
    "chomsky/odds-first": partial(_make, "chomsky", "OddsFirst"),
    "chomsky/binary-addition": partial(_make, "chomsky", "BinaryAddition"),
    "chomsky/binary-multiplication": partial(_make, "chomsky", "BinaryMultiplication"),
    "chomsky/square-root": partial(_make, "chomsky", "SquareRoot"),
    "chomsky/bucket-sort": partial(_make, "chomsky", "BucketSort"),
}


def get_task(name: str) -> "Task":
    """The task of that name; a name that ends in .itg is the path of a grammar file."""
    check_task(name)
    if name.endswith(GRAMMAR_FILE):
        from pushpop.tasks.grammar import read_grammar
        from pushpop.tasks.grammar_task import GrammarTask

        return GrammarTask(read_grammar(name))
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
            f"file, or pairs in a file whose name ends in {describe_endings()}"
        )
