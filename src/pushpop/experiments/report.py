"""A report: what the runs in a folder show, as tables and figures in files.

A table is a list of rows, each a dict from a column to the text of its cell. It is written as
Markdown, LaTeX and HTML; the paper's table also as CSV and JSON, by the figures behind it. The page
has everything and needs nothing else, no network and no script.
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
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from pushpop.errors import InputError, counted, reading, writing
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
    usual_options,
    verdict,
)
from pushpop.experiments.presets import identity
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord, read_results
from pushpop.files import write_file
from pushpop.tasks.pairs_text import is_pairs_file

Row = dict[str, Any]
Figures = dict[str, tuple[str, str]]
"""A title and an SVG by name."""

RULES = (resources("pushpop.experiments") / "selection.html").read_text("utf-8").rstrip()
"""How the runs of the paper's table are chosen."""
NO_FIGURES = "no figures: they need matplotlib (pip install 'pushpop[plot]')"
SOLVED_NOTE = f"coarse accuracy of {SOLVED_ACCURACY} or more on both lengths"
SEEDS_NOTE = (
    f"Runs that differ in nothing but the seed. Solved: the model that the run kept has a "
    f"{SOLVED_NOTE}, on fresh draws; beside it the 95 % interval of that share (Wilson's). At: the "
    "first such test, in batches. Batches: of the longest run. Seconds of a whole run. Three "
    "figures: least / median / most."
)
VERDICTS = (
    f" Verdict, = or ≠ the paper's, by coarse accuracy: solved is {SOLVED_IN_TRAINING} or more in "
    f"training and {SOLVED_IN_TESTING} or more in testing, training only {SOLVED_IN_TRAINING} or "
    f"more and {NOT_LEARNT} or less, neither {NOT_LEARNT} or less in both, in part all else."
)
RUNGS = (
    " Candidates: runs of the row so far, compared by training perplexity alone. Rung: the last "
    "that the run was selected for; a row is finished once a run has ended the last."
)
RUN_OPTIONS = (
    *GRID, "cell", "form", "push_bias", "pop_bias", "train_lengths", "test_lengths", "steps",
)  # fmt: skip
"""Options that are a column of runs.csv."""


@dataclass(frozen=True)
class Table:
    """Cells by column, and in the paper's table the figures behind each row, as of `paper_row`.

    `name` is the file's.
    """

    name: str
    title: str
    note: str
    cells: list[Row]
    rows: list[Row] = field(default_factory=list)

    @property
    def headers(self) -> list[str]:
        return list(self.cells[0]) if self.cells else []

    def lines(self) -> list[list[str]]:
        return [list(map(str, cells.values())) for cells in self.cells]

    def begins_task(self) -> list[bool]:
        """Of each row of the paper's table, whether the one before is of another task."""
        tasks = [None, *(row["task"] for row in self.rows)]
        return [task != before for before, task in pairwise(tasks)]


@dataclass(frozen=True)
class Report:
    """The rows of the paper's table; the files by name; what the user should know."""

    rows: list[Row]
    files: dict[str, str]
    notes: list[str]


def make_report(folder: Path, grammars: Path | None = None) -> Report:
    """Read the runs in a folder and make a report of them; nothing is written.

    `grammars`: another folder, whose runs stand in the rows of the paper's grammars.
    """
    runs, own_lengths, note = read_results(folder), [], ""
    if grammars is not None:
        there = grammars.resolve().name
        own_lengths = [run for run in read_results(grammars) if run.config.task in GRAMMARS]
        own_lengths = [replace(run, name=f"{there}/{run.name}") for run in own_lengths]
        runs = [replace(run, name=f"{folder.resolve().name}/{run.name}") for run in runs]
        if own_lengths:
            note = f" The grammars' rows are judged on the grammars' own lengths (`{there}`)."
    on_files = [run for run in runs if is_pairs_file(run.config.task)]
    chomsky = [run for run in runs if is_chomsky(run)]
    if len(on_files) == len(runs):
        return _make_file_report(runs)
    if len(on_files) + len(chomsky) == len(runs):
        return _make_chomsky_report(chomsky)
    runs = [run for run in runs if not is_pairs_file(run.config.task) and not is_chomsky(run)]
    reasons = {
        "runs on files of pairs are left out": len(on_files),
        "runs on Chomsky-hierarchy tasks are left out (they have their own table)": len(chomsky),
    }
    notes = [f"{reason}: {number}" for reason, number in reasons.items() if number]
    choices = choose(runs, own_lengths)
    runs = [*runs, *own_lengths]
    tables = paper_tables(choices, note)
    rows = [row for table in tables for row in table.rows]
    summaries = [x for x in (length_table(choices), seed_table(runs)) if x.cells]
    figures = _unless_missing(lambda: _draw_figures(choices), notes)
    notes += [
        f"{run.name}: lengths.json is of the model after batch {run.lengths['step']}, the run's "
        f"is after {run.kept_step}: left out"
        for run in runs
        if run.lengths and not run.measured_lengths
    ]
    files = {
        "table.md": "".join(f"{to_markdown(part)}\n" for part in tables) + f"{tables[0].note}\n",
        "table.csv": to_csv(rows),
        "table.tex": to_latex(tables),
        "table.json": to_json(rows),
        "runs.csv": to_csv(run_rows(runs, choices)),
        **{f"{part.name}.md": f"{to_markdown(part)}\n{part.note}\n" for part in summaries},
        **{f"{name}.svg": svg for name, (_, svg) in figures.items()},
        "report.html": to_page(tables, choices, figures, summaries, runs),
    }
    return Report(rows, files, notes)


def _unless_missing(draw: Callable[[], dict[str, Any]], notes: list[str]) -> dict[str, Any]:
    """Draw, or note that matplotlib is missing."""
    try:
        return draw()
    except ModuleNotFoundError:
        notes.append(NO_FIGURES)
        return {}


def _make_chomsky_report(runs: list[RunRecord]) -> Report:
    notes: list[str] = []
    panels = score_panels(runs).items()
    figures = _unless_missing(
        lambda: {f"{name}.svg": accuracy_by_length(*parts) for name, parts in panels}, notes
    )
    if waiting := sum(run.report is None for run in runs):
        notes.append(f"unfinished runs are left out: {waiting}")
    rows = score_rows(runs)
    lines, note = score_lines(rows)
    table = {"table.json": to_json(rows), "table.csv": to_csv(rows)}
    table |= {"table.md": f"{to_markdown(Table('table', '', note, lines))}\n{note}\n"}
    return Report([], {**table, **figures}, notes)


def _make_file_report(runs: list[RunRecord]) -> Report:
    cells, notes = [], list[str]()
    for run in runs:
        measured = run.report or next((x for x in reversed(run.metrics) if "valid" in x), {})
        valid = measured.get("valid", {})
        row = {"run": run.name, "model": run.model, "size": run.size}
        row |= {"batches": f"{run.kept_step:,}", "accuracy": _shown(valid.get("accuracy"), ".1%")}
        row |= {"bits a symbol": _shown(valid.get("bits"), ".4f")}
        cells.append(row | {"without memory": _shown(measured.get("without_memory"), ".1%")})
    note = "On the validation pairs or lines; without memory: all reads are 0."
    files = {"table.md": f"{to_markdown(Table('table', '', note, cells))}\n{note}\n"}
    files |= _unless_missing(lambda: {"learning.svg": learning_curves(runs)}, notes)
    return Report([], files, notes)


def _draw_figures(choices: list[Choice]) -> Figures:
    figures = {}
    for recipe in dict.fromkeys(choice.recipe for choice in choices):
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


def paper_tables(choices: list[Choice], note: str = "") -> list[Table]:
    """The paper's rows beside ours, a table a recipe; `note` ends what is said of them."""
    rows = [paper_row(choice) for choice in choices]
    shown = {
        "verdict": any(row["paper_verdict"] for row in rows),
        "candidates": any(row["rungs"] for row in rows),
        "rung": any(row["rungs"] for row in rows),
        "from": len({row["folder"] for row in rows if row["run"]}) > 1,
    }
    about, tables = f"{caption(rows)}{note}", dict[str, Table]()
    for row in rows:
        title = f"With the recipe `{row['recipe']}`"
        table = tables.setdefault(title, Table("table", title, about, [], []))
        cells = paper_cells(row)
        table.rows.append(row)
        table.cells.append({name: cells[name] for name in cells if shown.get(name, True)})
    return list(tables.values())


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
        "seed": config and config.seed,
        "train_lengths": config and config.train_lengths,
        "test_lengths": config and config.test_lengths,
        "batches": run and run.step,
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


def paper_cells(row: Row) -> Row:
    """A row of the paper's table as it is shown."""
    batches = "missing" if row["status"] == "missing" else f"{row['batches']:,}"
    ours, paper = row["verdict"] or "", row["paper_verdict"]
    compared = f"= {ours}" if ours == paper else f"{ours} ≠ {paper}"
    return {
        "task": PAPER_TASKS.get(row["task"], row["task"]),
        "model": PAPER_MODELS.get(row["model"], row["model"]),
        "train": _pair(row["train_coarse"], row["train_fine"]),
        "test": _pair(row["test_coarse"], row["test_fine"]),
        "paper's train": _pair(row["paper_train_coarse"], row["paper_train_fine"]),
        "paper's test": _pair(row["paper_test_coarse"], row["paper_test_fine"]),
        "verdict": compared if ours and paper else ours,
        "batches": batches + " so far" * (row["status"] == "unfinished"),
        "solved at": _shown(row["steps_to_solve"], ","),
        "size": _shown(row["size"]),
        "rate": _shown(row["learning_rate"], "g"),
        "seed": _shown(row["seed"]),
        "candidates": str(row["candidates"]),
        "rung": _shown(row["rung"]),
        "from": row["folder"],
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
    about += VERDICTS * any(row["paper_verdict"] for row in rows)
    about += RUNGS * any(row["rungs"] for row in rows)
    beside = [row for row in rows if row["recipe"] == "paper" and row["paper_verdict"]]
    beside = [row for row in beside if row["status"] == "finished"]
    if not beside:
        return about
    errors = [
        {name: abs(row[name] - row[f"paper_{name}"]) for name in Accuracies._fields}
        for row in beside
    ]

    def close(*names: str) -> int:
        """How many rows have all these figures close to the paper's."""
        return sum(all(off[name] <= AGREEMENT + 1e-9 for name in names) for off in errors)

    same = sum(row["verdict"] == row["paper_verdict"] for row in beside)
    coarse = close("train_coarse", "test_coarse")
    return (
        f"{about} Of {len(beside)} finished rows under the paper's recipe, {same} have its "
        f"verdict; {coarse} are within {AGREEMENT} of its coarse accuracies in training and in "
        f"testing, {close(*Accuracies._fields)} of its four figures."
    )


def length_table(choices: list[Choice]) -> Table:
    """Accuracy at single lengths, far beyond those of training."""
    runs = [choice.run for choice in choices if choice.run and choice.run.measured_lengths]
    lengths = sorted({length for run in runs for length in run.measured_lengths})
    cells = []
    for run in runs:
        figures = {n: run.measured_lengths.get(n, {}) for n in lengths}
        pairs = {f"{n:,}": _pair(x.get("coarse"), x.get("fine")) for n, x in figures.items()}
        cells.append({**_names(run), "recipe": run.config.recipe, **pairs})
    note = "Coarse / fine accuracy on sources of exactly so many symbols."
    return Table("lengths", "Accuracy at single lengths", note, cells)


def seed_table(runs: list[RunRecord]) -> Table:
    """Of runs that differ in nothing but the seed, how many solve their task."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(identity(run.config, but=("seed",)), []).append(run)
    cells = []
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
        cells.append({**_names(group[0]), **options, **_success(group)})
        usual, sizes = usual_options(config), ("hidden", "memory_width", "learning_rate")
        if not other and all(getattr(config, name) == usual[name] for name in sizes):
            together.setdefault(config.recipe, []).append(group)
    for recipe, own in together.items():
        if len(own) > 1:
            blank = dict.fromkeys(("size", "rate", "other options"), "")
            names = {"task": "all", "model": "", "recipe": recipe, **blank}
            cells.append({**names, **_success([run for group in own for run in group])})
    return Table("seeds", "Success over seeds", SEEDS_NOTE, cells)


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
        cells = [
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
        title = f"{choice.task}, {choice.model}, recipe {choice.recipe}"
        title += f": {counted(len(cells), 'candidate')}"
        tables += [Table("candidates", title, "", cells)] * bool(cells)
    return tables


def environment_table(runs: list[RunRecord]) -> Table:
    """What the runs were made with, and how many with the same."""
    names = ("pushpop", "torch", "numba", "numpy", "python", "machine", "threads", "commit")
    counts = Counter(
        tuple(str(run.environment.get(name) or "")[:12] for name in names) for run in runs
    )
    cells = [{**dict(zip(names, key, strict=True)), "runs": counts[key]} for key in sorted(counts)]
    return Table("made", "What the runs were made with", "", cells)


def run_rows(runs: list[RunRecord], choices: list[Choice]) -> list[Row]:
    """The lines of runs.csv: one a run, whether it stands in the table or not."""
    chosen = {choice.run.name for choice in choices if choice.run is not None}
    candidates = {run.name for choice in choices for run in choice.candidates}
    return [
        {
            "run": run.name,
            "role": "chosen" if run.name in chosen else "candidate" * (run.name in candidates),
            **{k: v for k, v in run.config.to_dict().items() if k in RUN_OPTIONS},
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
    rule = ["---", "---", *["---:"] * (len(table.headers) - 2)]
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
    """The paper's table as a tabular for booktabs, with a line between tasks."""

    def latex(text: str) -> str:
        return re.sub(r"([&%$#_{}])", r"\\\1", text).replace("≠", "$\\neq$")

    def line(cells: list[str]) -> str:
        return " & ".join(map(latex, cells)) + " \\\\"

    columns = len(tables[0].headers)
    lines = ["% needs \\usepackage{booktabs}", f"\\begin{{tabular}}{{ll{'r' * (columns - 2)}}}"]
    lines += ["\\toprule", line(tables[0].headers)]
    for table in tables:
        heading = latex(table.title.replace("`", ""))
        lines += ["\\midrule", f"\\multicolumn{{{columns}}}{{l}}{{{heading}}} \\\\"]
        for cells, first in zip(table.lines(), table.begins_task(), strict=True):
            lines += ["\\midrule"] * first + [line(cells)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def to_html(table: Table) -> str:
    """A table that scrolls by itself where the screen is narrow. Accuracies of ours that count as
    solved stand out; so does the first row of a task in the paper's table."""

    def cell(text: str, header: str) -> str:
        ours = None if header.startswith("paper's ") else re.match(r"([\d.]+) / ", text)
        solved = ours is not None and SOLVED_ACCURACY <= float(ours[1]) <= 1
        return f"<td{_class('solved' * solved)}>{escape(text)}</td>"

    classes = [""] * len(table.cells)
    if table.rows:
        classes = [
            f"{'first ' * first}{row['status'] * (row['status'] != 'finished')}".strip()
            for row, first in zip(table.rows, table.begins_task(), strict=True)
        ]
    head = "".join(f"<th>{escape(header)}</th>" for header in table.headers)
    body = "\n".join(
        f"<tr{_class(name)}>{''.join(map(cell, cells, table.headers))}</tr>"
        for cells, name in zip(table.lines(), classes, strict=True)
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
    parts = [f"<h3>{escape(x.title.replace('`', ''))}</h3>\n{to_html(x)}" for x in tables]
    sections = [("table", "The table", "\n".join((_paragraph(tables[0].note), *parts)))]
    for name, (title, svg) in figures.items():
        sections.append((name, title, inline(svg, escape(title), name)))
    for table in summaries:
        text = f"{_paragraph(table.note)}\n{to_html(table)}"
        sections.append((table.name, table.title, text))
    candidates = (
        f"<details><summary>{escape(table.title)}</summary>{to_html(table)}</details>"
        for table in candidate_tables(choices)
    )
    sections.append(("selection", "How runs were chosen", "\n".join((RULES, *candidates))))
    made = environment_table(runs)
    sections.append((made.name, made.title, to_html(made)))
    unfinished = sum(run.report is None for run in runs)
    shell = (resources("pushpop.experiments") / "page.html").read_text("utf-8")
    return Template(shell).substitute(
        runs=counted(len(runs), "run") + f", {unfinished} of them unfinished" * bool(unfinished),
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
