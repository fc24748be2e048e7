"""`pushpop report`."""

import sys


def report(results: str, out: str = "", page: str = "", collect: str = "") -> None:
    """Write the paper's table beside ours, figures and a page, from run directories.

    Args:
        results: a folder of runs; unfinished ones are shown as far as they are
        out: where the files go; by default into the folder itself
        page: a Markdown file in which the tables are replaced that stand between marks, as in
            <!-- mini/table.md --> and <!-- /mini/table.md --> for a folder named mini
        collect: pack the runs, without their models, into runs.jsonl.gz in this folder, to keep
            them, and leave

    Examples:
        pushpop report runs/mini
        pushpop report runs/mini --out report
    """
    from pathlib import Path

    from pushpop.experiments.report import make_report, put_into_page, write_report
    from pushpop.experiments.runs import collect as pack_runs

    folder = Path(results)
    if collect:
        print(f"{pack_runs(folder, Path(collect))} runs copied into {collect}")
        return
    made = make_report(folder)
    write_report(made, Path(out) if out else folder)
    for note in made.notes:
        print("pushpop:", note, file=sys.stderr)
    if page:
        put_into_page(made, folder, Path(page))
    if sys.stdout.isatty() and made.tables:
        from rich.console import Console

        from pushpop.experiments.report import to_terminal

        Console().print(*to_terminal(made.tables), sep="\n")
    else:
        print(made.files["table.md"], end="")
    print(f"{len(made.files)} files in {out or results}: {', '.join(made.files)}", file=sys.stderr)
