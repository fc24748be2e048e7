"""The table of results, ours beside the paper's, in the forms that it is written in."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich import box
from rich.table import Table

from pushpop.experiments.paper import PAPER_MODELS, PAPER_TASKS, paper_results
from pushpop.experiments.runs import SOLVED_ACCURACY
from pushpop.experiments.selection import Choice

AGREEMENT = 0.05
"""Coarse accuracies that are so close to the paper's count as the same."""
PAPER_COLUMNS = ("paper's train", "paper's test")
HEADERS = (
    "task",
    "model",
    "train",
    "test",
    *PAPER_COLUMNS,
    "batches",
    "solved at",
    "size",
    "rate",
    "seed",
)


@dataclass(frozen=True)
class Row:
    """A line of table.json; what is not known is None."""

    task: str
    model: str
    recipe: str
    status: str  # finished, unfinished or missing
    run: str | None = None
    candidates: int = 0
    size: str | None = None
    learning_rate: float | None = None
    seed: int | None = None
    train_lengths: str | None = None
    test_lengths: str | None = None
    batches: int | None = None
    train_coarse: float | None = None
    train_fine: float | None = None
    test_coarse: float | None = None
    test_fine: float | None = None
    steps_to_solve: int | None = None
    perplexity: float | None = None
    paper_train_coarse: float | None = None
    paper_train_fine: float | None = None
    paper_test_coarse: float | None = None
    paper_test_fine: float | None = None


def make_row(choice: Choice) -> Row:
    """A chosen run beside the paper's figures."""
    paper = paper_results().get((choice.task, choice.model))
    theirs = {f"paper_{name}": value for name, value in asdict(paper).items()} if paper else {}
    named: dict[str, Any] = {"task": choice.task, "model": choice.model}
    named["recipe"] = choice.recipe
    run = choice.run
    if run is None:
        return Row(**named, status="missing", **theirs)
    found: dict[str, Any] = {}
    for lengths in ("train", "test") if run.accuracies else ():
        for grain in ("coarse", "fine"):
            assert run.accuracies is not None
            found[f"{lengths}_{grain}"] = round(run.accuracies[lengths][grain], 4)
    return Row(
        **named,
        status="unfinished" if run.report is None else "finished",
        run=run.name,
        candidates=len(choice.candidates),
        size=run.size,
        learning_rate=run.config.learning_rate,
        seed=run.config.seed,
        train_lengths=run.config.train_lengths,
        test_lengths=run.config.test_lengths,
        batches=run.step,
        steps_to_solve=run.solved_at,
        perplexity=None if run.perplexity is None else round(run.perplexity, 4),
        **found,
        **theirs,
    )


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is read by people, without its recipe."""

    def pair(coarse: float | None, fine: float | None) -> str:
        return "" if coarse is None or fine is None else f"{coarse:.2f} / {fine:.2f}"

    batches = "missing"
    if row.batches is not None:
        batches = f"{row.batches:,}{' so far' if row.status == 'unfinished' else ''}"
    return (
        PAPER_TASKS.get(row.task, row.task),
        PAPER_MODELS.get(row.model, row.model),
        pair(row.train_coarse, row.train_fine),
        pair(row.test_coarse, row.test_fine),
        pair(row.paper_train_coarse, row.paper_train_fine),
        pair(row.paper_test_coarse, row.paper_test_fine),
        batches,
        "" if row.steps_to_solve is None else f"{row.steps_to_solve:,}",
        row.size or "",
        "" if row.learning_rate is None else f"{row.learning_rate:g}",
        "" if row.seed is None else str(row.seed),
    )


def caption(rows: list[Row]) -> str:
    """What the columns are."""
    found: dict[str, list[str]] = {}  # the recipes of each
    for row in rows:
        if row.run:
            lengths = f"{row.train_lengths} symbols in training and {row.test_lengths} in testing"
            found.setdefault(lengths, []).append(f"`{row.recipe}`")
    said = [
        f"{lengths} (recipe {', '.join(dict.fromkeys(recipes))})" if len(found) > 1 else lengths
        for lengths, recipes in found.items()
    ]
    return (
        f"Accuracies are coarse / fine. Sources have {', or '.join(said)}. Solved at: the first "
        f"test with a coarse accuracy of {SOLVED_ACCURACY} or more on both lengths, in batches. "
        f"Size: width of the controller / of the memory.{agreement(rows)}"
    )


def agreement(rows: list[Row]) -> str:
    """How many finished rows under the paper's recipe are as the paper's, in words."""
    beside = [
        row
        for row in rows
        if row.recipe == "paper" and row.status == "finished" and row.paper_test_coarse is not None
    ]
    agreeing = sum(agrees(row) for row in beside)
    if not beside:
        return ""
    return (
        f" Within {AGREEMENT} of the paper's coarse accuracies, in training and in testing: "
        f"{agreeing} of {len(beside)} finished rows under its recipe."
    )


def agrees(row: Row) -> bool:
    """Whether both coarse accuracies are within `AGREEMENT` of the paper's."""
    pairs = (
        (row.train_coarse, row.paper_train_coarse),
        (row.test_coarse, row.paper_test_coarse),
    )
    return all(
        ours is not None and theirs is not None and abs(ours - theirs) <= AGREEMENT + 1e-9
        for ours, theirs in pairs
    )


def by_recipe(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Rows of the same recipe together, with a heading."""
    recipes = list(dict.fromkeys(row.recipe for row in rows))
    return [
        (f"With the recipe `{recipe}`", [row for row in rows if row.recipe == recipe])
        for recipe in recipes
    ]


def to_markdown(rows: list[Row]) -> str:
    """A table a recipe."""
    parts = []
    for heading, group in by_recipe(rows):
        body = markdown_table(HEADERS, [cells(row) for row in group])
        parts.append(f"**{heading}**\n\n{body}")
    return "\n".join(parts) + f"\n{caption(rows)}\n"


def markdown_table(headers: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    """Plain pipes; names to the left, figures to the right."""
    rule = ("---", "---", *["---:"] * (len(headers) - 2))
    lines = [headers, rule, *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_csv(rows: list[Row]) -> str:
    """A line a row, with every field."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [each.name for each in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return out.getvalue()


def to_json(rows: list[Row]) -> str:
    """A list of objects, an object a line."""
    lines = ",\n".join(f" {json.dumps(asdict(row))}" for row in rows)
    return f"[\n{lines}\n]\n"


def to_latex(rows: list[Row]) -> str:
    """A tabular for booktabs."""
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{tabular}{ll" + "r" * (len(HEADERS) - 2) + "}",
        "\\toprule",
        _latex_line(HEADERS),
    ]
    for heading, group in by_recipe(rows):
        heading = _escape(heading.replace("`", ""))
        lines += ["\\midrule", f"\\multicolumn{{{len(HEADERS)}}}{{l}}{{{heading}}} \\\\"]
        task = None
        for row in group:
            lines += ["\\midrule"] if row.task != task else []
            lines.append(_latex_line(cells(row)))
            task = row.task
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def to_terminal(rows: list[Row]) -> list[Table]:
    """A table a recipe, in colour."""
    tables = []
    for heading, group in by_recipe(rows):
        table = Table(title=heading.replace("`", ""), caption=caption(group), box=box.SIMPLE_HEAD)
        for header in HEADERS:
            left = header in ("task", "model")
            table.add_column(header, justify="left" if left else "right", no_wrap=True)
        task = group[0].task
        for row in group:
            if row.task != task:
                table.add_section()
            task = row.task
            solved = row.test_coarse is not None and row.test_coarse >= SOLVED_ACCURACY
            style = "green" if solved else "dim" if row.status != "finished" else None
            table.add_row(*cells(row), style=style)
        tables.append(table)
    return tables


def _latex_line(parts: tuple[str, ...]) -> str:
    return " & ".join(_escape(part) for part in parts) + " \\\\"


def _escape(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)
