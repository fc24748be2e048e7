"""Commands that show things and train nothing."""

from typing import TYPE_CHECKING

from pushpop.errors import InputError

if TYPE_CHECKING:
    from pushpop.tasks import LengthRange, Task

EXAMPLE_SEED = 186
EXAMPLE_LENGTH = 4
EXAMPLE_LENGTHS = {
    "gender": 5,
    "duplicate": 3,
    "chomsky/modular-arithmetic": 5,
    "chomsky/modular-arithmetic-brackets": 5,
    "chomsky/solve-equation": 7,
    "chomsky/duplicate": 3,
}
"""Of the examples that `pushpop tasks` prints: with this seed and these lengths of the sources they
show something and fit in a line."""


def version() -> None:
    """Print the version of pushpop and of what it computes with.

    Examples:
        pushpop version
    """
    from importlib.metadata import version as installed

    print(" ".join(f"{name} {installed(name)}" for name in ("pushpop", "torch", "numba", "numpy")))


def sample(task: str, count: int = 5, lengths: str = "8-12", seed: int = 0) -> None:
    """Print random pairs of a task, a line each: source ||| target.

    Args:
        task: the name of a task (`pushpop tasks` lists them), or the path of a grammar file (.itg)
        count: how many pairs, at least 1
        lengths: shortest and longest source, as in 8-12, or one length
        seed: the same seed gives the same pairs

    Examples:
        pushpop sample reverse -n 3 --lengths 4-6
        pushpop sample my-grammar.itg --lengths 20
    """
    from pushpop.tasks import get_task, parse_lengths

    chosen, bounds = get_task(task), parse_lengths(lengths)
    if count < 1:
        raise InputError(f"{count} pairs asked for: expected at least 1")
    for index in range(count):  # a batch a pair, so that more pairs begin with the same ones
        print(_pair(chosen, seed, index, bounds))


def tasks() -> None:
    """List the tasks by family, each with an example: source ||| target.

    Examples:
        pushpop tasks
    """
    from itertools import groupby

    from pushpop.tasks import TASKS, get_task

    for family, group in groupby(map(get_task, TASKS), key=lambda task: task.family):
        print(f"{family[0].upper()}{family[1:]}")
        members = list(group)
        name_width, summary_width = (
            max(len(getattr(task, column)) for task in members) for column in ("name", "summary")
        )
        for task in members:
            length = EXAMPLE_LENGTHS.get(task.name, EXAMPLE_LENGTH)
            example = _pair(task, EXAMPLE_SEED, 0, (length, length))
            print(f"  {task.name:{name_width}}  {task.summary:{summary_width}}  {example}")
        print()
    print("pushpop sample TASK draws more pairs. A .itg file is a task too: see docs/tasks.md")


def _pair(task: "Task", seed: int, index: int, lengths: "LengthRange") -> str:
    """A pair as a line: source ||| target."""
    from pushpop.tasks import batch_rng

    (source, target), *_ = task.sample(batch_rng(seed, "sample", index), 1, lengths)
    words = (*task.vocabulary.decode_source(source), "|||", *task.vocabulary.decode_target(target))
    return " ".join(words)


def sizes(embedding: int = 64) -> None:
    """Print the numbers of parameters of the paper's models beside ours.

    Args:
        embedding: the width of the embeddings; the paper's figures are for 64

    Examples:
        pushpop sizes
    """
    from itertools import groupby

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from pushpop.experiments.paper import size_rows

    table = Table(
        title=f"Parameters with embeddings of {embedding}, memories of 256",
        caption="paper, core: the recurrent core, without embeddings and initial states;\n"
        "off: core against paper; start: learned initial states;\n"
        "total: all of the transducer for the copy task",
        box=box.SIMPLE_HEAD,
    )
    for name in ("model", "hidden", "paper", "core", "off", "start", "total"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=True)
    for hidden, rows in groupby(size_rows(embedding), key=lambda row: row.hidden):
        for row in rows:
            counts = [f"{count:,}" for count in (row.size.start, row.size.total)]
            table.add_row(row.model, str(hidden), row.paper, f"{row.size.core:,}", row.off, *counts)
        table.add_section()
    Console().print(table)
