"""A report: everything that the run directories in a folder show, written into files."""

import re
from dataclasses import dataclass
from pathlib import Path

from pushpop.errors import InputError, reading, writing
from pushpop.experiments.chomsky import is_chomsky, score_figures, score_files
from pushpop.experiments.figures import accuracy_by_length, convergence
from pushpop.experiments.page import make_page
from pushpop.experiments.runs import RunRecord, read_results
from pushpop.experiments.selection import Choice, choose
from pushpop.experiments.summaries import (
    Summary,
    all_runs_csv,
    length_table,
    seed_table,
    size_table,
)
from pushpop.experiments.table import (
    Row,
    make_row,
    markdown_table,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
)
from pushpop.files import write_file
from pushpop.tasks.pairs_open import is_pairs_file

NO_FIGURES = "no figures: they need matplotlib (pip install 'pushpop[plot]')"


@dataclass(frozen=True)
class Report:
    """The rows of the table, the files by name, and what the user should know."""

    rows: list[Row]
    files: dict[str, str]
    notes: list[str]


def make_report(folder: Path) -> Report:
    """Read the runs in a folder and make a report of them; nothing is written."""
    found = read_results(folder)
    runs = [run for run in found if not is_pairs_file(run.config.task)]
    if not runs:
        raise InputError(
            f"{folder}: only runs on files of pairs: expected runs on the paper's tasks"
        )
    if all(is_chomsky(run) for run in runs):
        return _make_chomsky_report(runs)
    notes = []
    if len(runs) < len(found):
        notes.append(f"runs on files of pairs are left out: {len(found) - len(runs)}")
    if apart := sum(is_chomsky(run) for run in runs):
        runs = [run for run in runs if not is_chomsky(run)]
        notes.append(
            f"runs on Chomsky-hierarchy tasks are left out (they have their own table): {apart}"
        )
    choices = choose(runs)
    rows = [make_row(choice) for choice in choices]
    summaries = [length_table(choices), size_table(), seed_table(runs)]
    figures, missing = _figures(choices)
    notes += missing
    notes += [
        f"{run.name}: lengths.json is of the model after batch {run.lengths['step']}, the run's "
        f"is after {run.kept_step}: left out"
        for run in runs
        if run.lengths and not run.measured_lengths
    ]
    files = {
        "table.md": to_markdown(rows),
        "table.csv": to_csv(rows),
        "table.tex": to_latex(rows),
        "table.json": to_json(rows),
        "runs.csv": all_runs_csv(runs, choices),
        **{f"{each.name}.md": _markdown(each) for each in summaries if each.lines},
        **{f"{name}.svg": svg for name, (_, svg) in figures.items()},
        "report.html": make_page(rows, choices, figures, summaries, runs),
    }
    return Report(rows, files, notes)


def _make_chomsky_report(runs: list[RunRecord]) -> Report:
    """Of runs on the Chomsky-hierarchy benchmark: its own table, and a figure a level."""
    try:
        figures, notes = score_figures(runs), []
    except ModuleNotFoundError:
        figures, notes = {}, [NO_FIGURES]
    waiting = sum(run.report is None for run in runs)
    if waiting:
        notes.append(f"unfinished runs are left out: {waiting}")
    svgs = {f"{name}.svg": svg for name, (_, svg) in figures.items()}
    return Report([], {**score_files(runs), **svgs}, notes)


def write_report(report: Report, out: Path) -> None:
    """Write a report's files, each whole or not at all."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for name, text in report.files.items():
            write_file(out / name, text.encode())


def put_into_page(report: Report, folder: Path, page: Path) -> bool:
    """Replace the tables of a folder's report in a Markdown page; says whether any has changed.

    The page has marks around them, as in <!-- mini/table.md --> and <!-- /mini/table.md -->.
    """
    with reading(page):
        text = page.read_text("utf-8")
    new, found = text, False
    tables = {name: table for name, table in report.files.items() if name.endswith(".md")}
    for name in re.findall(rf"<!-- {re.escape(folder.resolve().name)}/(\S+) -->", text):
        begin, end = marks(folder, name)
        before, _, rest = new.partition(begin)
        _, ended, after = rest.partition(end)
        if not ended or begin in rest or name not in tables:
            raise InputError(
                f"{page}: {begin}: expected once, with a line {end} after it, and one of "
                f"{', '.join(tables)}"
            )
        new, found = f"{before}{begin}\n{tables[name]}{end}{after}", True
    if not found:
        begin, end = marks(folder, "table.md")
        raise InputError(f"{page}: expected a line {begin} and, after it, a line {end}")
    if new != text:
        with writing(page):
            write_file(page, new.encode())
    return new != text


def marks(folder: Path, name: str) -> tuple[str, str]:
    """What stands around a table of a folder's report in a page."""
    where = f"{folder.resolve().name}/{name}"
    return f"<!-- {where} -->", f"<!-- /{where} -->"


def _figures(choices: list[Choice]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """A title and an SVG by name; without matplotlib, a note instead."""
    figures = {}
    recipes = list(dict.fromkeys(choice.recipe for choice in choices))
    try:
        for recipe in recipes:
            suffix = "" if recipe == "paper" else f"-{recipe}"
            of = "" if recipe == "paper" else f", recipe {recipe}"
            if svg := convergence(choices, recipe):
                figures[f"convergence{suffix}"] = (f"Accuracy against batches{of}", svg)
            if svg := accuracy_by_length(choices, recipe):
                figures[f"accuracy-by-length{suffix}"] = (f"Accuracy against length{of}", svg)
    except ModuleNotFoundError:
        return {}, [NO_FIGURES]
    return figures, []


def _markdown(summary: Summary) -> str:
    table = markdown_table(summary.headers, summary.lines)
    return f"**{summary.title}**\n\n{table}\n{summary.note}\n"


__all__ = ["Report", "RunRecord", "make_report", "marks", "put_into_page", "write_report"]
