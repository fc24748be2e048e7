"""Tasks by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pushpop.errors import InputError, did_you_mean
from pushpop.tasks import chomsky, chomsky_arithmetic
from pushpop.tasks.base import Task
from pushpop.tasks.brackets import Brackets
from pushpop.tasks.grammar_file import read_grammar
from pushpop.tasks.itg import GrammarTask
from pushpop.tasks.pairs_open import describe_endings, is_pairs_file
from pushpop.tasks.synthetic import Copy, Duplicate, Flip, OddsFirst, Reverse

TASKS: dict[str, Callable[[], Task]] = {
    "copy": Copy,
    "reverse": Reverse,
    "flip": Flip,
    "svo-sov": partial(GrammarTask.packaged, "svo-sov"),
    "gender": partial(GrammarTask.packaged, "gender"),
    "duplicate": Duplicate,
    "odds-first": OddsFirst,
    "brackets": Brackets,
    "chomsky/even-pairs": chomsky.EvenPairs,
    "chomsky/parity": chomsky.Parity,
    "chomsky/cycle-navigation": chomsky.CycleNavigation,
    "chomsky/modular-arithmetic": chomsky_arithmetic.ModularArithmetic,
    "chomsky/stack-manipulation": chomsky.StackManipulation,
    "chomsky/reverse": chomsky.Reverse,
    "chomsky/modular-arithmetic-brackets": chomsky_arithmetic.ModularArithmeticBrackets,
    "chomsky/solve-equation": chomsky_arithmetic.SolveEquation,
    "chomsky/duplicate": chomsky.Duplicate,
    "chomsky/missing-duplicate": chomsky.MissingDuplicate,
    "chomsky/odds-first": chomsky.OddsFirst,
    "chomsky/binary-addition": chomsky_arithmetic.BinaryAddition,
    "chomsky/binary-multiplication": chomsky_arithmetic.BinaryMultiplication,
    "chomsky/square-root": chomsky_arithmetic.SquareRoot,
    "chomsky/bucket-sort": chomsky.BucketSort,
}


def get_task(name: str) -> Task:
    """The task of that name; a name that ends in .itg is the path of a grammar file."""
    if name.endswith(".itg"):
        return GrammarTask(read_grammar(name))
    if name not in TASKS:
        _refuse_file(name)
        hint = did_you_mean(name, TASKS)
        known = ", ".join(TASKS)
        raise InputError(
            f"unknown task {name!r}{hint} (tasks: {known}, a .itg file, or for pushpop train pairs "
            "in a .tsv or .csv file)"
        )
    return TASKS[name]()


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
        found = kind or "no such file"
        raise InputError(
            f"{name}: {found}; expected a task (pushpop tasks lists them), a grammar in a .itg "
            f"file, or pairs in a file whose name ends in {describe_endings()}"
        )
