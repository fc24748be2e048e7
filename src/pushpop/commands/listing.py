"""Commands that show things and train nothing."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pushpop.errors import InputError
from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from pushpop.tasks import LengthRange, Task

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

        print(
            " ".join(f"{name} {installed(name)}" for name in ("pushpop", "torch", "numba", "numpy"))
        )


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
    count: int = option(5, "how many pairs, at least 1", short="-n")
    lengths: str = option("8-12", "shortest and longest source, as in 8-12, or one length")
    seed: int = option(0, "the same seed gives the same pairs")

    def execute(self) -> None:
        from pushpop.tasks import get_task, parse_lengths

        chosen, bounds = get_task(self.task), parse_lengths(self.lengths)
        if self.count < 1:
            raise InputError(f"{self.count} pairs asked for: expected at least 1")
        for index in range(
            self.count
        ):  # a batch a pair, so that more pairs begin with the same ones
            print(_pair(chosen, self.seed, index, bounds))


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
            members = list(group)
            name_width, summary_width = (
                max(len(getattr(task, column)) for task in members)
                for column in ("name", "summary")
            )
            for task in members:
                example = EXAMPLES[task.name]
                print(f"  {task.name:{name_width}}  {task.summary:{summary_width}}  {example}")
            print()
        print("pushpop sample TASK draws more pairs. A .itg file is a task too: see docs/tasks.md")


def _pair(task: "Task", seed: int, index: int, lengths: "LengthRange") -> str:
    """A pair as a line: source ||| target."""
    from pushpop.tasks import batch_rng

    (source, target), *_ = task.sample(batch_rng(seed, "sample", index), 1, lengths)
    words = (*task.vocabulary.decode_source(source), "|||", *task.vocabulary.decode_target(target))
    return " ".join(words)


@dataclass(frozen=True)
class Sizes(Command):
    """Print the numbers of parameters of the paper's models beside ours.

    Examples:
        pushpop sizes
    """

    embedding: int = option(64, "the width of the embeddings; the paper's figures are for 64")

    def execute(self) -> None:
        from itertools import groupby

        from rich import box
        from rich.console import Console
        from rich.table import Table

        from pushpop.experiments.paper import size_rows

        table = Table(
            title=f"Parameters with embeddings of {self.embedding}, memories of 256",
            caption="paper, core: the recurrent core, without embeddings and initial states;\n"
            "off: core against paper; start: learned initial states;\n"
            "total: all of the transducer for the copy task",
            box=box.SIMPLE_HEAD,
        )
        for name in ("model", "hidden", "paper", "core", "off", "start", "total"):
            table.add_column(name, justify="left" if name == "model" else "right", no_wrap=True)
        for hidden, rows in groupby(size_rows(self.embedding), key=lambda row: row.hidden):
            for row in rows:
                counts = [f"{count:,}" for count in (row.size.start, row.size.total)]
                table.add_row(
                    row.model, str(hidden), row.paper, f"{row.size.core:,}", row.off, *counts
                )
            table.add_section()
        Console().print(table)


@dataclass(frozen=True)
class Models(Command):
    """List the trained models that come with pushpop: what they do, how right, how to use one.

    Examples:
        pushpop models
        pushpop models --as-json
    """

    as_json: bool = option(False, "print all that is known of each as JSON")

    def execute(self) -> None:
        from pushpop.models.saving import describe_shipped

        described = describe_shipped()
        if self.as_json:
            print(json.dumps(described, ensure_ascii=False, indent=1))
            return
        rows = [
            ["name", "task", "memory", "controller", "parameters", "kB", "recipe", "train", "test"],
            *(
                [
                    one["name"],
                    one["task"],
                    one["memory"],
                    f"{one['controller']} {one['hidden']}",
                    f"{one['parameters']:,}",
                    str(one["kilobytes"]),
                    one["recipe"],
                    *(f"{one[part]['coarse']:.3f}" for part in ("train", "test")),
                ]
                for one in described
            ),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print(
                "  ".join(
                    text.ljust(width) for text, width in zip(row, widths, strict=True)
                ).rstrip()
            )
        if not described:
            return
        first = next((one for one in described if one["name"] == "reverse-stack"), described[0])
        name = first["name"]
        lengths = {part: "-".join(map(str, first[part]["lengths"])) for part in ("train", "test")}
        print(
            "\ntrain, test: the share of targets without a mistake, of sources of "
            f"{lengths['train']} and of {lengths['test']} symbols.\n"
            f"How one was made: {first['made_by']}\n\n"
            f"pushpop transduce {name}                      a prompt\n"
            f"pushpop trace {name} -o trace.html            what its memory does, step by step\n"
            f"pushpop evaluate {name} --lengths 64,256      how right it is\n"
            f'pushpop.Transducer.from_pretrained("{name}")  in Python'
        )
