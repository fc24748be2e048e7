"""A report: what the runs in a folder show, as tables and figures in files.

A table is a list of rows, each a dict, and what its columns show of them. It is written as
Markdown, LaTeX and HTML by its columns, as CSV and JSON by its rows. The page has everything and
needs nothing else, no network and no script.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files as resources
from math import sqrt
from pathlib import Path
from statistics import median
from string import Template
from typing import TYPE_CHECKING, Any

from pushpop.errors import InputError, reading, writing
from pushpop.experiments.chomsky import is_chomsky, score_lines, score_panels, score_rows
from pushpop.experiments.figures import accuracy_by_length, convergence, inline, learning_curves
from pushpop.experiments.paper import (
    AGREEMENT,
    GRAMMARS,
    GRID,
    NOT_LEARNT,
    PAPER_MODELS,
    PAPER_TASKS,
    SOLVED_IN_TESTING,
    SOLVED_IN_TRAINING,
    Accuracies,
    Choice,
    choose,
    nonstandard_options,
    paper_results,
    size_rows,
    usual_options,
    verdict,
)
from pushpop.experiments.presets import identity
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord, read_results
from pushpop.files import write_file
from pushpop.tasks.pairs_text import is_pairs_file

if TYPE_CHECKING:
    from rich.table import Table as TerminalTable

Row = dict[str, Any]
Figures = dict[str, tuple[str, str]]
"""A title and an SVG by name."""

RULES = (resources("pushpop.experiments") / "selection.html").read_text("utf-8").rstrip()
"""How the runs of the paper's table are chosen."""
NO_FIGURES = "no figures: they need matplotlib (pip install 'pushpop[plot]')"
PAPER_COLUMNS = ("paper's train", "paper's test")
SOLVED_NOTE = f"coarse accuracy of {SOLVED_ACCURACY} or more on both lengths"
SEEDS_NOTE = (
    f"Runs that differ in nothing but the seed. Solved: the model that the run kept has a "
    f"{SOLVED_NOTE}, on fresh draws; beside it the 95 % interval of that share (Wilson's). At: the "
    "first such test, in batches. Batches: of the longest run. Seconds of a whole run. Three "
    "figures: least / median / most."
)
VERDICTS = (
    f"Verdict, = or ≠ the paper's, by coarse accuracy: solved is {SOLVED_IN_TRAINING} or more in "
    f"training and {SOLVED_IN_TESTING} or more in testing, training only {SOLVED_IN_TRAINING} or "
    f"more and {NOT_LEARNT} or less, neither {NOT_LEARNT} or less in both, in part all else."
)


@dataclass(frozen=True)
class Table:
    """Rows, and what the columns show of each: by default its values, under their own names.

    `name` is the file's. A value of a row is in CSV and JSON, whether a column shows it or not.
    """

    name: str
    title: str
    note: str
    rows: list[Row]
    columns: dict[str, Callable[[Row], str]] = field(default_factory=dict)

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(self.columns or (self.rows[0] if self.rows else ()))

    def lines(self) -> list[tuple[str, ...]]:
        """The cells of each row."""
        if not self.columns:
            return [tuple(map(str, row.values())) for row in self.rows]
        return [tuple(show(row) for show in self.columns.values()) for row in self.rows]

    def by_task(self) -> list[tuple[tuple[str, ...], Row, bool]]:
        """The cells of each row, the row, and whether it is the first of its task."""
        tasks = [None, *(row["task"] for row in self.rows)]
        first = [row["task"] != before for row, before in zip(self.rows, tasks, strict=False)]
        return list(zip(self.lines(), self.rows, first, strict=True))


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


def make_report(folder: Path, grammars: Path | None = None) -> Report:
    """Read the runs in a folder and make a report of them; nothing is written.

    `grammars`: another folder, whose runs stand in the rows of the paper's grammars.
    """
    all_runs, own_lengths = read_results(folder), []
    if grammars is not None:
        there = grammars.resolve().name
        own_lengths = [run for run in read_results(grammars) if run.config.task in GRAMMARS]
        own_lengths = [replace(run, name=f"{there}/{run.name}") for run in own_lengths]
        all_runs = [replace(run, name=f"{folder.resolve().name}/{run.name}") for run in all_runs]
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
    choices = choose(runs, own_lengths)
    runs = [*runs, *own_lengths]
    table = paper_table(choices)
    if own_lengths:
        note = (
            f"{table.note} The grammars' rows are judged on the grammars' own lengths (`{there}`)."
        )
        table = replace(table, note=note)
    recipes = dict.fromkeys(row["recipe"] for row in table.rows)
    tables = [
        replace(
            table,
            title=f"With the recipe `{recipe}`",
            rows=[row for row in table.rows if row["recipe"] == recipe],
        )
        for recipe in recipes
    ]
    summaries = [table for table in (length_table(choices), size_table(), seed_table(runs))
                 if table.rows]  # fmt: skip
    try:
        figures = _figures(choices, list(recipes))
    except ModuleNotFoundError:
        figures = {}
        notes.append(NO_FIGURES)
    notes += [
        f"{run.name}: lengths.json is of the model after batch {run.lengths['step']}, the run's "
        f"is after {run.kept_step}: left out"
        for run in runs
        if run.lengths and not run.measured_lengths
    ]
    page = "".join(f"{to_markdown(part)}\n" for part in tables)
    files = {
        "table.md": f"{page}{table.note}\n",
        "table.csv": to_csv(table.rows),
        "table.tex": to_latex(tables),
        "table.json": to_json(table.rows),
        "runs.csv": to_csv(run_rows(runs, choices)),
        **{f"{part.name}.md": f"{to_markdown(part)}\n{part.note}\n" for part in summaries},
        **{f"{name}.svg": svg for name, (_, svg) in figures.items()},
        "report.html": to_page(tables, choices, figures, summaries, runs),
    }
    return Report(tables, files, notes)


def _make_chomsky_report(runs: list[RunRecord]) -> Report:
    notes = []
    try:
        figures = {
            name: accuracy_by_length(*panels) or "" for name, panels in score_panels(runs).items()
        }
    except ModuleNotFoundError:
        figures = {}
        notes.append(NO_FIGURES)
    if waiting := sum(run.report is None for run in runs):
        notes.append(f"unfinished runs are left out: {waiting}")
    rows = score_rows(runs)
    lines, note = score_lines(rows)
    files = {
        "table.json": to_json(rows),
        "table.csv": to_csv(rows),
        "table.md": f"{to_markdown(Table('table', '', note, lines))}\n{note}\n",
        **{f"{name}.svg": svg for name, svg in figures.items()},
    }
    return Report([], files, notes)


def _make_file_report(runs: list[RunRecord]) -> Report:
    rows = []
    for run in runs:
        measured = run.report or next((x for x in reversed(run.metrics) if "valid" in x), {})
        valid = measured.get("valid", {})
        row = {"run": run.name, "model": run.model, "size": run.size}
        row |= {"batches": f"{run.kept_step:,}", "accuracy": _shown(valid.get("accuracy"), ".1%")}
        row |= {"bits a symbol": _shown(valid.get("bits"), ".4f")}
        rows.append(row | {"without memory": _shown(measured.get("without_memory"), ".1%")})
    note = "On the validation pairs or lines; without memory: all reads are 0."
    files = {"table.md": f"{to_markdown(Table('table', '', note, rows))}\n{note}\n"}
    try:
        return Report([], {**files, "learning.svg": learning_curves(runs)}, [])
    except ModuleNotFoundError:
        return Report([], files, [NO_FIGURES])


def _figures(choices: list[Choice], recipes: list[str]) -> Figures:
    figures = {}
    for recipe in recipes:
        suffix, of = ("", "") if recipe == "paper" else (f"-{recipe}", f", recipe {recipe}")
        chosen: dict[str, list[RunRecord]] = {}
        for choice in choices:
            if choice.recipe == recipe and choice.run is not None:
                chosen.setdefault(choice.task, []).append(choice.run)
        if svg := convergence(chosen):
            figures[f"convergence{suffix}"] = (f"Accuracy against batches{of}", svg)
        if svg := accuracy_by_length(chosen):
            figures[f"accuracy-by-length{suffix}"] = (f"Accuracy against length{of}", svg)
    return figures


def paper_table(choices: list[Choice]) -> Table:
    """The paper's rows beside ours."""
    rows = [paper_row(choice) for choice in choices]
    columns: dict[str, Callable[[Row], str]] = {
        "task": lambda row: PAPER_TASKS.get(row["task"], str(row["task"])),
        "model": lambda row: PAPER_MODELS.get(row["model"], str(row["model"])),
        "train": lambda row: _pair(row["train_coarse"], row["train_fine"]),
        "test": lambda row: _pair(row["test_coarse"], row["test_fine"]),
        "paper's train": lambda row: _pair(row["paper_train_coarse"], row["paper_train_fine"]),
        "paper's test": lambda row: _pair(row["paper_test_coarse"], row["paper_test_fine"]),
        "verdict": _verdict_cell,
        "batches": _batches_cell,
        "solved at": lambda row: _shown(row["steps_to_solve"], ","),
        "size": lambda row: _shown(row["size"]),
        "rate": lambda row: _shown(row["learning_rate"], "g"),
        "seed": lambda row: _shown(row["seed"]),
        "candidates": lambda row: str(row["candidates"]),
        "rung": lambda row: _shown(row["rung"]),
        "from": lambda row: row["folder"],
    }
    halved = any(row["rungs"] for row in rows)
    wanted = {
        "verdict": any(row["paper_verdict"] for row in rows),
        "candidates": halved,
        "rung": halved,
        "from": len({row["folder"] for row in rows if row["run"]}) > 1,
    }
    columns = {name: show for name, show in columns.items() if wanted.get(name, True)}
    return Table("table", "", caption(rows), rows, columns)


def paper_row(choice: Choice) -> Row:
    """A chosen run beside the paper's figures; what is not known is None."""
    run = choice.run
    config = None if run is None else run.config
    theirs = paper_results().get((choice.task, choice.model))
    ours = accuracies(run)
    paper = dict.fromkeys(ours) if theirs is None else theirs._asdict()
    done = choice.status == "finished"
    return {
        "task": choice.task,
        "model": choice.model,
        "recipe": choice.recipe,
        "status": choice.status,
        "run": run and run.name,
        "candidates": len(choice.candidates),
        "size": run and run.size,
        "learning_rate": config and config.learning_rate,
        "seed": None if config is None else config.seed,
        "train_lengths": config and config.train_lengths,
        "test_lengths": config and config.test_lengths,
        "batches": None if run is None else run.step,
        **ours,
        "steps_to_solve": run and run.solved_at,
        "perplexity": run and _rounded(run.perplexity),
        **{f"paper_{name}": value for name, value in paper.items()},
        "verdict": verdict(ours["train_coarse"], ours["test_coarse"]) if done else None,
        "paper_verdict": verdict(paper["train_coarse"], paper["test_coarse"]),
        "folder": choice.folder,
        "rung": choice.rung,
        "rungs": list(choice.rungs),
    }


def accuracies(run: RunRecord | None) -> dict[str, float | None]:
    """A run's accuracies under the names of the paper's columns."""
    if run is None or run.accuracies is None:
        return dict.fromkeys(Accuracies._fields)
    parts = {name: name.split("_") for name in Accuracies._fields}
    return {name: round(run.accuracies[part][grain], 4) for name, (part, grain) in parts.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _pair(coarse: float | None, fine: float | None) -> str:
    return "" if coarse is None or fine is None else f"{coarse:.2f} / {fine:.2f}"


def _shown(value: Any, form: str = "") -> str:
    return "" if value is None else format(value, form)


def _batches_cell(row: Row) -> str:
    if row["status"] == "missing":
        return "missing"
    return f"{row['batches']:,}{' so far' if row['status'] == 'unfinished' else ''}"


def _verdict_cell(row: Row) -> str:
    ours, paper = row["verdict"], row["paper_verdict"]
    if ours is None or paper is None:
        return ours or ""
    return f"= {ours}" if ours == paper else f"{ours} ≠ {paper}"


def caption(rows: list[Row]) -> str:
    """What the columns of the paper's table are, and how many rows agree with it."""
    shown = [row for row in rows if row["run"]]
    which = "recipe" if len({row["recipe"] for row in shown}) > 1 else "folder"
    of: dict[str, list[str]] = {}  # by lengths
    for row in shown:
        lengths = f"{row['train_lengths']} symbols in training and {row['test_lengths']} in testing"
        of.setdefault(lengths, []).append(f"{'recipe ' * (which == 'recipe')}`{row[which]}`")
    parts = [
        f"{lengths} ({', '.join(dict.fromkeys(names))})" if len(of) > 1 else lengths
        for lengths, names in of.items()
    ]
    about = (
        f"Accuracies are coarse / fine. Sources have {', or '.join(parts)}. Solved at: the first "
        f"test with a {SOLVED_NOTE}, in batches. Size: width of the controller / of the memory."
    )
    if any(row["paper_verdict"] for row in rows):
        about += f" {VERDICTS}"
    if any(row["rungs"] for row in rows):
        about += (
            " Candidates: runs of the row so far, compared by training perplexity alone. Rung: the "
            "last that the run was selected for; a row is finished once a run has ended the last."
        )
    beside = [
        row
        for row in rows
        if row["recipe"] == "paper" and row["status"] == "finished" and row["paper_verdict"]
    ]
    if not beside:
        return about

    def close(names: Sequence[str]) -> int:
        """How many rows have all these figures close to the paper's."""
        return sum(
            all(
                row[name] is not None and abs(row[name] - row[f"paper_{name}"]) <= AGREEMENT + 1e-9
                for name in names
            )
            for row in beside
        )

    same = sum(row["verdict"] == row["paper_verdict"] for row in beside)
    coarse = close(("train_coarse", "test_coarse"))
    return (
        f"{about} Of {len(beside)} finished rows under the paper's recipe, {same} have its "
        f"verdict; {coarse} are within {AGREEMENT} of its coarse accuracies in training and in "
        f"testing, {close(Accuracies._fields)} of its four figures."
    )


def size_table() -> Table:
    """The paper's model sizes beside ours."""
    headers = ("model", "hidden", "paper", "ours", "off")
    rows = [
        dict(zip(headers, (*row[:3], f"{row.size.core:,}", row.off), strict=True))
        for row in size_rows()
    ]
    note = (
        "Parameters of the recurrent core, as the paper counts them: without embeddings and "
        "initial states."
    )
    return Table("sizes", "Model sizes", note, rows)


def length_table(choices: list[Choice]) -> Table:
    """Accuracy at single lengths, far beyond those of training."""
    runs = [choice.run for choice in choices if choice.run and choice.run.measured_lengths]
    rows = []
    for run in runs:
        row = {**_names(run), "recipe": run.config.recipe}
        for length in sorted({length for other in runs for length in other.measured_lengths}):
            figures = run.measured_lengths.get(length, {})
            row[f"{length:,}"] = _pair(figures.get("coarse"), figures.get("fine"))
        rows.append(row)
    note = "Coarse / fine accuracy on sources of exactly so many symbols."
    return Table("lengths", "Accuracy at single lengths", note, rows)


def seed_table(runs: list[RunRecord]) -> Table:
    """Of runs that differ in nothing but the seed, how many solve their task."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(identity(run.config, but=("seed",)), []).append(run)
    rows = []
    together: dict[str, list[list[RunRecord]]] = {}  # by recipe, under its own options
    for group in groups.values():
        if len(group) < 2:
            continue
        config, other = group[0].config, nonstandard_options(group[0].config)
        options = {
            "recipe": config.recipe,
            "size": group[0].size,
            "rate": f"{config.learning_rate:g}",
            "other options": other,
        }
        rows.append({**_names(group[0]), **options, **_success(group)})
        usual, sizes = usual_options(config), ("hidden", "memory_width", "learning_rate")
        if not other and all(getattr(config, name) == usual[name] for name in sizes):
            together.setdefault(config.recipe, []).append(group)
    for recipe, own in together.items():
        if len(own) > 1:
            all_of_it = {"task": "all", "model": "", "recipe": recipe}
            blank = dict.fromkeys(("size", "rate", "other options"), "")
            rows.append({**all_of_it, **blank, **_success([run for g in own for run in g])})
    return Table("seeds", "Success over seeds", SEEDS_NOTE, rows)


def share_interval(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z, share = 1.96, successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _success(runs: list[RunRecord]) -> Row:
    finished = [run for run in runs if run.report is not None]
    solved = [run for run in finished if run.solved]
    low, high = share_interval(len(solved), len(finished)) if finished else (0.0, 1.0)
    going = f", {len(runs) - len(finished)} going on" if len(finished) < len(runs) else ""
    return {
        "solved": f"{len(solved)} of {len(finished)}{going}",
        "95 %": f"{low:.2f}-{high:.2f}",
        "at": _spread([run.solved_at for run in solved if run.solved_at is not None]),
        "batches": f"{max(run.step for run in runs):,}",
        "seconds": _spread([float(run.report["seconds"]) for run in finished if run.report]),
    }


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{min(values):,.0f} / {median(values):,.0f} / {max(values):,.0f}"


def candidate_tables(choices: list[Choice]) -> list[Table]:
    """For every row of the paper's table that has any, the runs that it was chosen from."""
    tables = []
    for choice in choices:
        rows = [
            {
                "run": run.name,
                "size": run.size,
                "rate": f"{run.config.learning_rate:g}",
                "seed": run.config.seed,
                "batches": f"{run.step:,}{'' if run.report else ' so far'}",
                "perplexity": _shown(run.perplexity, ".4f"),
            }
            for run in choice.candidates
        ]
        number = f"{len(rows)} candidate{'' if len(rows) == 1 else 's'}"
        title = f"{choice.task}, {choice.model}, recipe {choice.recipe}: {number}"
        tables += [Table("candidates", title, "", rows)] * bool(rows)
    return tables


def environment_table(runs: list[RunRecord]) -> Table:
    """What the runs were made with, and how many with the same."""
    names = ("pushpop", "torch", "numba", "numpy", "python", "machine", "threads", "commit")
    counts = Counter(
        tuple(str(run.environment.get(name) or "")[:12] for name in names) for run in runs
    )
    rows = [{**dict(zip(names, key, strict=True)), "runs": counts[key]} for key in sorted(counts)]
    return Table("environments", "What the runs were made with", "", rows)


OPTION_COLUMNS = (
    *GRID, "cell", "form", "push_bias", "pop_bias", "train_lengths", "test_lengths", "steps",
)  # fmt: skip
"""Options that are a column of runs.csv."""


def run_rows(runs: list[RunRecord], choices: list[Choice]) -> list[Row]:
    """The lines of runs.csv: one a run, whether it stands in the table or not."""
    chosen = {choice.run.name for choice in choices if choice.run is not None}
    candidates = {run.name for choice in choices for run in choice.candidates}
    return [
        {
            "run": run.name,
            "role": "chosen" if run.name in chosen else "candidate" * (run.name in candidates),
            **{k: v for k, v in run.config.to_dict().items() if k in OPTION_COLUMNS},
            "batches": run.step,
            "finished": run.report is not None,
            "kept_step": run.kept_step,
            **accuracies(run),
            "steps_to_solve": run.solved_at,
            "perplexity": _rounded(run.perplexity),
        }
        for run in runs
    ]


def _names(run: RunRecord) -> dict[str, str]:
    task = run.config.task
    return {"task": PAPER_TASKS.get(task, task), "model": PAPER_MODELS.get(run.model, run.model)}


def to_markdown(table: Table) -> str:
    """Plain pipes under the title; names to the left, figures to the right."""
    rule = ("---", "---", *["---:"] * (len(table.headers) - 2))
    pipes = "".join(f"| {' | '.join(x)} |\n" for x in (table.headers, rule, *table.lines()))
    return f"**{table.title}**\n\n{pipes}" if table.title else pipes


def to_csv(rows: list[Row]) -> str:
    """A line a row, with every value."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0] if rows else ()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def to_json(rows: list[Row]) -> str:
    """A list of objects, an object a line."""
    lines = ",\n".join(f" {json.dumps(row)}" for row in rows)
    return f"[\n{lines}\n]\n"


def to_latex(tables: list[Table]) -> str:
    """A tabular for booktabs, with a line between tasks."""

    def latex(text: str) -> str:
        text = "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)
        return text.replace("≠", "$\\neq$")

    def line(cells: tuple[str, ...]) -> str:
        return " & ".join(map(latex, cells)) + " \\\\"

    columns = len(tables[0].headers)
    lines = ["% needs \\usepackage{booktabs}", f"\\begin{{tabular}}{{ll{'r' * (columns - 2)}}}"]
    lines += ["\\toprule", line(tables[0].headers)]
    for table in tables:
        heading = latex(table.title.replace("`", ""))
        lines += ["\\midrule", f"\\multicolumn{{{columns}}}{{l}}{{{heading}}} \\\\"]
        for cells, _, first in table.by_task():
            lines += ["\\midrule"] * first + [line(cells)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def to_terminal(tables: list[Table]) -> "list[TerminalTable]":
    """The paper's table in colour."""
    from rich import box
    from rich.table import Table as TerminalTable

    shown = []
    for table in tables:
        terminal = TerminalTable(
            title=table.title.replace("`", ""), caption=table.note, box=box.SIMPLE_HEAD
        )
        for header in table.headers:
            left = header in ("task", "model")
            terminal.add_column(header, justify="left" if left else "right", no_wrap=True)
        for cells, row, first in table.by_task():
            if first:
                terminal.add_section()
            solved = row["test_coarse"] is not None and row["test_coarse"] >= SOLVED_ACCURACY
            style = "green" if solved else "dim" if row["status"] != "finished" else None
            terminal.add_row(*cells, style=style)
        shown.append(terminal)
    return shown


def to_html(table: Table, classes: Sequence[str] = ()) -> str:
    """A table that scrolls by itself where the screen is narrow. Accuracies of ours that count as
    solved stand out."""

    def cell(text: str, header: str) -> str:
        coarse = text.partition(" / ")[0] if " / " in text else ""
        number = float(coarse) if coarse.replace(".", "", 1).isdecimal() else 0
        solved = header not in PAPER_COLUMNS and SOLVED_ACCURACY <= number <= 1
        return f"<td{_class('solved' * solved)}>{escape(text)}</td>"

    head = "".join(f"<th>{escape(header)}</th>" for header in table.headers)
    body = "\n".join(
        f"<tr{_class(name)}>{''.join(map(cell, cells, table.headers))}</tr>"
        for cells, name in zip(table.lines(), classes or [""] * len(table.rows), strict=True)
    )
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _paragraph(text: str) -> str:
    code = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
    return f"<p>{code}</p>"


def to_page(
    tables: list[Table],
    choices: list[Choice],
    figures: Figures,
    summaries: list[Table],
    runs: list[RunRecord],
) -> str:
    """All of a report as one HTML page."""
    parts = [_paragraph(tables[0].note)]
    for table in tables:
        classes = [
            f"{'first ' * first}{row['status'] * (row['status'] != 'finished')}".strip()
            for _, row, first in table.by_task()
        ]
        parts.append(f"<h3>{escape(table.title.replace('`', ''))}</h3>\n{to_html(table, classes)}")
    sections = [("table", "The table", "\n".join(parts))]
    for name, (title, svg) in figures.items():
        sections.append((name, title, inline(svg, escape(title), name)))
    sections += [
        (table.name, table.title, f"{_paragraph(table.note)}\n{to_html(table)}")
        for table in summaries
    ]
    candidates = (
        f"<details><summary>{escape(table.title)}</summary>{to_html(table)}</details>"
        for table in candidate_tables(choices)
    )
    sections.append(("selection", "How runs were chosen", "\n".join((RULES, *candidates))))
    made = environment_table(runs)
    sections.append(("made", made.title, to_html(made)))
    unfinished = sum(run.report is None for run in runs)
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    shell = (resources("pushpop.experiments") / "page.html").read_text("utf-8")
    return Template(shell).substitute(
        runs=f"{count}, {unfinished} of them unfinished" if unfinished else count,
        links="".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections),
        body="\n".join(
            f'<section><h2 id="{name}">{escape(title)}</h2>\n{text}</section>'
            for name, title, text in sections
        ),
    )


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
    tables = {name: table for name, table in report.files.items() if name.endswith(".md")}
    marked = re.findall(rf"<!-- {re.escape(folder.resolve().name)}/(\S+) -->", text)
    if not marked:
        begin, end = marks(folder, "table.md")
        raise InputError(f"{page}: expected a line {begin} and, after it, a line {end}")
    renewed = text
    for name in marked:
        begin, end = marks(folder, name)
        before, _, rest = renewed.partition(begin)
        _, ended, after = rest.partition(end)
        if not ended or begin in rest or name not in tables:
            raise InputError(
                f"{page}: {begin}: expected once, with a line {end} after it, and one of "
                f"{', '.join(tables)}"
            )
        renewed = f"{before}{begin}\n{tables[name]}{end}{after}"
    if renewed != text:
        with writing(page):
            write_file(page, renewed.encode())
    return renewed != text


def marks(folder: Path, name: str) -> tuple[str, str]:
    """What stands around a table of a folder's report in a page."""
    where = f"{folder.resolve().name}/{name}"
    return f"<!-- {where} -->", f"<!-- /{where} -->"
