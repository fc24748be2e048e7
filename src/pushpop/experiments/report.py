"""A report: everything that the runs in a folder show, written into files.

Tables are written as Markdown, CSV, JSON, LaTeX and HTML; the page has all of them and needs
nothing else, no network and no script.
"""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from pushpop.errors import InputError, reading, writing
from pushpop.experiments.chomsky import is_chomsky, score_figures, score_rows, score_table
from pushpop.experiments.figures import accuracy_by_length, convergence, inline, learning_curves
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord, read_results
from pushpop.experiments.tables import (
    HEADERS,
    PAPER_COLUMNS,
    PROTOCOL,
    RULE,
    Choice,
    Row,
    Table,
    candidate_tables,
    caption,
    choose,
    environment_table,
    length_table,
    paper_tables,
    run_rows,
    seed_table,
    size_table,
)
from pushpop.files import write_file
from pushpop.tasks.pairs_text import is_pairs_file

if TYPE_CHECKING:
    from rich.table import Table as TerminalTable

NO_FIGURES = "no figures: they need matplotlib (pip install 'pushpop[plot]')"
TITLE = "Learning to transduce with unbounded memory: results"
Figures = dict[str, tuple[str, str]]
"""A title and an SVG by name."""


@dataclass(frozen=True)
class Report:
    """The paper's table, a part a recipe; the files by name; what the user should know."""

    tables: list[Table]
    files: dict[str, str]
    notes: list[str]

    @property
    def rows(self) -> list[Row]:
        """All rows of the paper's table."""
        return [row for table in self.tables for row in table.rows]


def make_report(folder: Path) -> Report:
    """Read the runs in a folder and make a report of them; nothing is written."""
    all_runs = read_results(folder)
    runs = [run for run in all_runs if not is_pairs_file(run.config.task)]
    if not runs:
        return _make_file_report(all_runs)
    if all(is_chomsky(run) for run in runs):
        return _make_chomsky_report(runs)
    notes = []
    if len(runs) < len(all_runs):
        notes.append(f"runs on files of pairs are left out: {len(all_runs) - len(runs)}")
    if apart := sum(is_chomsky(run) for run in runs):
        runs = [run for run in runs if not is_chomsky(run)]
        notes.append(
            f"runs on Chomsky-hierarchy tasks are left out (they have their own table): {apart}"
        )
    choices = choose(runs)
    tables = paper_tables(choices)
    rows = [row for table in tables for row in table.rows]
    summaries = [
        table for table in (length_table(choices), size_table(), seed_table(runs)) if table.rows
    ]
    figures, missing = _figures(choices)
    notes += missing
    notes += [
        f"{run.name}: lengths.json is of the model after batch {run.lengths['step']}, the run's "
        f"is after {run.kept_step}: left out"
        for run in runs
        if run.lengths and not run.measured_lengths
    ]
    page = "".join(f"{to_markdown(table)}\n" for table in tables)
    files = {
        "table.md": f"{page}{caption(rows)}\n",
        "table.csv": to_csv([row.values for row in rows]),
        "table.tex": to_latex(tables),
        "table.json": to_json([row.values for row in rows]),
        "runs.csv": to_csv(run_rows(runs, choices)),
        **{f"{table.name}.md": f"{to_markdown(table)}\n{table.note}\n" for table in summaries},
        **{f"{name}.svg": svg for name, (_, svg) in figures.items()},
        "report.html": to_page(tables, choices, figures, summaries, runs),
    }
    return Report(tables, files, notes)


def _make_chomsky_report(runs: list[RunRecord]) -> Report:
    """Of runs on the Chomsky-hierarchy benchmark: its own table, and a figure a level."""
    try:
        figures, notes = score_figures(runs), []
    except ModuleNotFoundError:
        figures, notes = {}, [NO_FIGURES]
    waiting = sum(run.report is None for run in runs)
    if waiting:
        notes.append(f"unfinished runs are left out: {waiting}")
    rows = score_rows(runs)
    table, values = score_table(rows), [row.values for row in rows]
    files = {
        "table.json": to_json(values),
        "table.csv": to_csv(values),
        "table.md": f"{to_markdown(table)}\n{table.note}\n",
        **{f"{name}.svg": svg for name, (_, svg) in figures.items()},
    }
    return Report([], files, notes)


def _make_file_report(runs: list[RunRecord]) -> Report:
    """Of runs on a user's own files: how right they are, and a picture of how they came there."""
    headers = ("run", "model", "size", "batches", "accuracy", "bits a symbol", "without memory")
    rows = []
    for run in runs:
        measured = run.report or next((x for x in reversed(run.metrics) if "valid" in x), {})
        figures = {**measured.get("valid", {}), "without memory": measured.get("without_memory")}
        shown = [f"{figures[x]:.1%}" if figures.get(x) is not None else "" for x in headers[4::2]]
        bits = f"{figures['bits']:.4f}" if "bits" in figures else ""
        cells = (run.name, run.model, run.size, f"{run.kept_step:,}", shown[0], bits, shown[1])
        rows.append(Row(cells))
    note = "On the validation pairs or lines; without memory: all reads are 0."
    table = Table("table", "", note, headers, rows)
    files, notes = {"table.md": f"{to_markdown(table)}\n{note}\n"}, []
    try:
        files["learning.svg"] = learning_curves(runs)
    except ModuleNotFoundError:
        notes = [NO_FIGURES]
    return Report([], files, notes)


def _figures(choices: list[Choice]) -> tuple[Figures, list[str]]:
    """The figures; without matplotlib, a note instead."""
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
    renewed, any_marks = text, False
    tables = {name: table for name, table in report.files.items() if name.endswith(".md")}
    for name in re.findall(rf"<!-- {re.escape(folder.resolve().name)}/(\S+) -->", text):
        begin, end = marks(folder, name)
        before, _, rest = renewed.partition(begin)
        _, ended, after = rest.partition(end)
        if not ended or begin in rest or name not in tables:
            raise InputError(
                f"{page}: {begin}: expected once, with a line {end} after it, and one of "
                f"{', '.join(tables)}"
            )
        renewed, any_marks = f"{before}{begin}\n{tables[name]}{end}{after}", True
    if not any_marks:
        begin, end = marks(folder, "table.md")
        raise InputError(f"{page}: expected a line {begin} and, after it, a line {end}")
    if renewed != text:
        with writing(page):
            write_file(page, renewed.encode())
    return renewed != text


def marks(folder: Path, name: str) -> tuple[str, str]:
    """What stands around a table of a folder's report in a page."""
    where = f"{folder.resolve().name}/{name}"
    return f"<!-- {where} -->", f"<!-- /{where} -->"


def to_markdown(table: Table) -> str:
    """Plain pipes under the title; names to the left, figures to the right."""
    rule = ("---", "---", *["---:"] * (len(table.headers) - 2))
    lines = [table.headers, rule, *(row.cells for row in table.rows)]
    pipes = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"**{table.title}**\n\n{pipes}" if table.title else pipes


def to_csv(rows: Sequence[dict[str, Any]]) -> str:
    """A line a row, with every value."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def to_json(rows: Sequence[dict[str, Any]]) -> str:
    """A list of objects, an object a line."""
    lines = ",\n".join(f" {json.dumps(row)}" for row in rows)
    return f"[\n{lines}\n]\n"


def to_latex(tables: list[Table]) -> str:
    """A tabular for booktabs, with a line between tasks."""
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{tabular}{ll" + "r" * (len(HEADERS) - 2) + "}",
        "\\toprule",
        _latex_line(HEADERS),
    ]
    for table in tables:
        heading = _latex(table.title.replace("`", ""))
        lines += ["\\midrule", f"\\multicolumn{{{len(HEADERS)}}}{{l}}{{{heading}}} \\\\"]
        for row, first in _first_of_tasks(table):
            lines += ["\\midrule"] if first else []
            lines.append(_latex_line(row.cells))
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def to_terminal(tables: list[Table]) -> "list[TerminalTable]":
    """The paper's table in colour."""
    from rich import box
    from rich.table import Table as TerminalTable

    shown = []
    for table in tables:
        title = table.title.replace("`", "")
        terminal = TerminalTable(title=title, caption=table.note, box=box.SIMPLE_HEAD)
        for header in HEADERS:
            left = header in ("task", "model")
            terminal.add_column(header, justify="left" if left else "right", no_wrap=True)
        for row, first in _first_of_tasks(table):
            if first:
                terminal.add_section()
            solved = row["test_coarse"] is not None and row["test_coarse"] >= SOLVED_ACCURACY
            style = "green" if solved else "dim" if row["status"] != "finished" else None
            terminal.add_row(*row.cells, style=style)
        shown.append(terminal)
    return shown


def to_page(
    tables: list[Table],
    choices: list[Choice],
    figures: Figures,
    summaries: list[Table],
    runs: list[RunRecord],
) -> str:
    """All of a report as one HTML page."""
    paper = "\n".join(map(_html_of_recipe, tables))
    rows = [row for table in tables for row in table.rows]
    sections = [("table", "The table", f"{_paragraph(caption(rows))}\n{paper}")]
    for name, (title, svg) in figures.items():
        sections.append((name, title, inline(svg, escape(title), name)))
    sections += [
        (table.name, table.title, f"{_paragraph(table.note)}\n{to_html(table)}")
        for table in summaries
    ]
    candidates = [
        f"<details><summary>{escape(table.title)}</summary>{to_html(table)}</details>"
        for table in candidate_tables(choices)
    ]
    selection = "\n".join([_paragraph(RULE), _paragraph(PROTOCOL), *candidates])
    sections.append(("selection", "How runs were chosen", selection))
    made = environment_table(runs)
    sections.append(("made", made.title, to_html(made)))
    states = [run.report is not None for run in runs]
    unfinished = f", {states.count(False)} of them unfinished" if not all(states) else ""
    intro = (
        f"{len(runs)} run{'s' if len(runs) > 1 else ''}{unfinished}. The paper: Grefenstette, "
        "Hermann, Suleyman and Blunsom, “Learning to Transduce with Unbounded Memory”, 2015."
    )
    shell = (resources("pushpop.experiments") / "page.html").read_text("utf-8")
    return Template(shell).substitute(
        title=escape(TITLE),
        intro=escape(intro),
        links="".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections),
        body="\n".join(
            f'<section><h2 id="{name}">{escape(title)}</h2>\n{text}</section>'
            for name, title, text in sections
        ),
    )


def to_html(
    table: Table, classes: Sequence[str] | None = None, unmarked: tuple[str, ...] = ()
) -> str:
    """A table that scrolls by itself where the screen is narrow.

    Accuracies that count as solved stand out, but for those in the columns `unmarked`.
    """
    mark = [header not in unmarked for header in table.headers]
    head = "".join(f"<th>{escape(header)}</th>" for header in table.headers)
    body = "\n".join(
        f"<tr{_class(name)}>{''.join(map(_html_cell, row.cells, mark))}</tr>"
        for row, name in zip(table.rows, classes or [""] * len(table.rows), strict=True)
    )
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _html_of_recipe(table: Table) -> str:
    classes = [
        f"{'first ' if first else ''}{'' if row['status'] == 'finished' else row['status']}".strip()
        for row, first in _first_of_tasks(table)
    ]
    title = escape(table.title.replace("`", ""))
    return f"<h3>{title}</h3>\n{to_html(table, classes, PAPER_COLUMNS)}"


def _html_cell(text: str, mark: bool) -> str:
    coarse = text.partition(" / ")[0] if " / " in text else ""
    solved = (
        mark and coarse.replace(".", "", 1).isdecimal() and SOLVED_ACCURACY <= float(coarse) <= 1
    )
    return f"<td{_class('solved' if solved else '')}>{escape(text)}</td>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _paragraph(text: str) -> str:
    """Markdown's marks of code become HTML's."""
    code = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
    return f"<p>{code}</p>"


def _first_of_tasks(table: Table) -> list[tuple[Row, bool]]:
    """The rows, and whether each is the first of its task."""
    tasks = [None, *(row["task"] for row in table.rows)]
    return [(row, row["task"] != before) for row, before in zip(table.rows, tasks, strict=False)]


def _latex_line(cells: tuple[str, ...]) -> str:
    return " & ".join(map(_latex, cells)) + " \\\\"


def _latex(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)
