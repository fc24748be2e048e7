"""`pushpop report`."""

import sys
from dataclasses import dataclass

from pushpop.errors import counted
from pushpop.options import Command, argument, option


@dataclass(frozen=True)
class Report(Command):
    """Write the paper's table beside ours, figures and a page, from run directories.

    Examples:
        pushpop report runs/mini
        pushpop report runs/mini --out report
    """

    results: str = argument("a folder of runs; unfinished ones are shown as far as they are")
    out: str = option("", "where the files go; by default into the folder itself")
    page: str = option(
        "",
        "a Markdown file in which the tables are replaced that stand between marks, as in "
        "<!-- mini/table.md --> and <!-- /mini/table.md --> for a folder named mini",
    )
    collect: str = option(
        "",
        "pack the runs, without their models, into runs.jsonl.gz in this folder, to keep them, and "
        "leave",
    )

    def execute(self) -> None:
        from pathlib import Path

        from pushpop.experiments.report import make_report, put_into_page, write_report
        from pushpop.experiments.runs import collect as pack_runs

        folder = Path(self.results)
        if self.collect:
            copied = counted(pack_runs(folder, Path(self.collect)), "run")
            print(f"{copied} copied into {self.collect}")
            return
        made = make_report(folder)
        write_report(made, Path(self.out) if self.out else folder)
        for note in made.notes:
            print("pushpop:", note, file=sys.stderr)
        if self.page:
            put_into_page(made, folder, Path(self.page))
        if sys.stdout.isatty() and made.tables:
            from rich.console import Console

            from pushpop.experiments.report import to_terminal

            Console().print(*to_terminal(made.tables), sep="\n")
        else:
            print(made.files["table.md"], end="")
        print(
            f"{len(made.files)} files in {self.out or self.results}: {', '.join(made.files)}",
            file=sys.stderr,
        )
