"""`pushpop version`, `tasks`, `sample` and `sizes`: what there is to train on, and with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLES = {
    "copy": "a100 a17 a75 a43 ||| a100 a17 a75 a43",
    "reverse": "a100 a17 a75 a43 ||| a43 a75 a17 a100",
    "flip": "a100 a17 a75 a43 ||| a17 a100 a43 a75",
    "svo-sov": "si15 vi7 oi7 oi1 ||| so15 oo7 oo1 vo7",
    "gender": "the ne7 and the fe12 ||| das ng7 und die fg12",
    "duplicate": "a100 a17 a75 ||| a100 a17 a75 a100 a17 a75",
    "odds-first": "a100 a17 a75 a43 ||| a100 a75 a17 a43",
    "brackets": "[ ( [ [ ||| ] ] ) ]",
    "chomsky/even-pairs": "1 0 1 0 ||| 1",
    "chomsky/parity": "1 0 1 0 ||| 0",
    "chomsky/cycle-navigation": "2 0 1 1 ||| 0",
    "chomsky/modular-arithmetic": "3 + 2 - 1 ||| 4",
    "chomsky/stack-manipulation": "0 1 0 pop ||| 1 0 2 0 0",
    "chomsky/reverse": "1 0 1 0 ||| 0 1 0 1",
    "chomsky/modular-arithmetic-brackets": "( 0 - 1 ) ||| 4",
    "chomsky/solve-equation": "( x - 1 ) = 4 ||| 0",
    "chomsky/duplicate": "1 0 1 ||| 1 0 1 1 0 1",
    "chomsky/missing-duplicate": "2 0 1 0 ||| 1",
    "chomsky/odds-first": "1 0 1 0 ||| 0 0 1 1",
    "chomsky/binary-addition": "0 1 2 1 ||| 1 1 2 0 0",
    "chomsky/binary-multiplication": "0 1 2 1 ||| 0 1 2 0",
    "chomsky/square-root": "1 0 1 0 ||| 1 1",
    "chomsky/bucket-sort": "3 0 2 1 ||| 0 1 2 3",
}
"""Pairs that show what a task is and fit in a line; to draw them here would compile kernels."""


@dataclass(frozen=True)
class Version(Command):
    """Print the version of pushpop and of what it computes with.

    Examples:
        pushpop version
    """

    def execute(self) -> None:
        from importlib.metadata import version as installed

        print(*(f"{name} {installed(name)}" for name in ("pushpop", "torch", "numba", "numpy")))


@dataclass(frozen=True)
class Sample(Command):
    """Print random pairs of a task, a line each: source ||| target.

    Examples:
        pushpop sample reverse -n 3 --lengths 4-6
        pushpop sample my-grammar.itg --lengths 20
    """

    task: str = argument(
        "the name of a task (`pushpop tasks` lists them), or the path of a grammar file (.itg)"
    )
    count: int = option(5, "how many pairs, at least 1", least=1, short="-n")
    lengths: str = option("8-12", "shortest and longest source, as in 8-12, or one length")
    seed: int = option(0, "the same seed gives the same pairs")

    def execute(self) -> None:
        from pushpop.tasks import batch_rng, get_task, parse_lengths

        chosen, bounds = get_task(self.task), parse_lengths(self.lengths)
        vocabulary = chosen.vocabulary
        for index in range(self.count):  # a batch a pair: more pairs begin with the same ones
            rng = batch_rng(self.seed, "sample", index)
            (source, target), *_ = chosen.sample(rng, 1, bounds)
            print(*vocabulary.decode_source(source), "|||", *vocabulary.decode_target(target))


@dataclass(frozen=True)
class Tasks(Command):
    """List the tasks by family, each with an example: source ||| target.

    Examples:
        pushpop tasks
    """

    def execute(self) -> None:
        from itertools import groupby

        from pushpop.tasks import TASKS, get_task

        for family, group in groupby(map(get_task, TASKS), key=lambda task: task.family):
            print(f"{family[0].upper()}{family[1:]}")
            rows = [(task.name, task.summary, EXAMPLES[task.name]) for task in group]
            name, summary, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
            for row in rows:
                print(f"  {row[0]:{name}}  {row[1]:{summary}}  {row[2]}")
            print()
        print("pushpop sample TASK draws more pairs. A .itg file is a task too: see docs/tasks.md")


@dataclass(frozen=True)
class Sizes(Command):
    """Print the numbers of parameters of the paper's models beside ours.

    Examples:
        pushpop sizes
    """

    embedding: int = option(64, "the width of the embeddings; the paper's figures are for 64")

    def execute(self) -> None:
        from rich.console import Console

        from pushpop.experiments.paper import HIDDEN, PAPER_MODELS, PAPER_SIZES, count_parameters
        from pushpop.tasks import get_task

        table = plain_table(
            f"Parameters with embeddings of {self.embedding}, memories of 256",
            "paper, core: the recurrent core, without embeddings and initial states;\n"
            "off: core against paper; start: learned initial states;\n"
            "total: all of the transducer for the copy task",
            ["model"],
            ["hidden", "paper", "core", "off", "start", "total"],
        )
        vocabulary = get_task("copy").vocabulary
        for column, hidden in enumerate(HIDDEN):
            for model, figures in PAPER_SIZES.items():
                size = count_parameters(model, hidden, vocabulary, self.embedding)
                paper = f"{figures[column]:.1e}".replace("e+0", "e")
                off = f"{size.core / figures[column] - 1:+.1%}"
                counts = f"{size.core:,}", off, f"{size.start:,}", f"{size.total:,}"
                table.add_row(PAPER_MODELS[model], str(hidden), paper, *counts)
            table.add_section()
        Console().print(table)


def plain_table(title: str, caption: str, left: list[str], right: list[str]) -> "Table":
    """A table for the terminal, with a line under its head; numbers stand at the right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table
