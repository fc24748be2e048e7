"""A report as one HTML page that needs nothing else: no network, no script."""

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from pushpop.experiments.figures import inline
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord
from pushpop.experiments.selection import PROTOCOL, RULE, Choice
from pushpop.experiments.summaries import Summary
from pushpop.experiments.table import HEADERS, PAPER_COLUMNS, Row, by_recipe, caption, cells

TITLE = "Learning to transduce with unbounded memory: results"


def make_page(
    rows: list[Row],
    choices: list[Choice],
    figures: dict[str, tuple[str, str]],
    summaries: list[Summary],
    runs: list[RunRecord],
) -> str:
    """The whole page; `figures` are a title and an SVG by name."""
    sections = [("table", "The table", _table(rows))]
    for name, (title, svg) in figures.items():
        sections.append((name, title, inline(svg, escape(title), name)))
    sections += [(each.name, each.title, _summary(each)) for each in summaries if each.lines]
    sections.append(("selection", "How runs were chosen", _selection(choices)))
    sections.append(("made", "What the runs were made with", _environments(runs)))
    states = [run.report is not None for run in runs]
    unfinished = f", {states.count(False)} of them unfinished" if not all(states) else ""
    intro = (
        f"{len(runs)} run{'s' if len(runs) > 1 else ''}{unfinished}. The paper: Grefenstette, "
        "Hermann, Suleyman and Blunsom, “Learning to Transduce with Unbounded Memory”, 2015."
    )
    return Template((files("pushpop.experiments") / "page.html").read_text("utf-8")).substitute(
        title=escape(TITLE),
        intro=escape(intro),
        links="".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections),
        body="\n".join(
            f'<section><h2 id="{name}">{escape(title)}</h2>\n{text}</section>'
            for name, title, text in sections
        ),
    )


def html_table(
    headers: tuple[str, ...],
    lines: Sequence[tuple[str, ...]],
    classes: list[str] | None = None,
    unmarked: tuple[str, ...] = (),
) -> str:
    """A table that scrolls by itself where the screen is narrow.

    Accuracies that count as solved stand out, but for those in the columns `unmarked`.
    """
    mark = [header not in unmarked for header in headers]
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "\n".join(
        f"<tr{_class(name)}>{''.join(map(_cell, line, mark))}</tr>"
        for line, name in zip(lines, classes or [""] * len(lines), strict=True)
    )
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _cell(text: str, mark: bool) -> str:
    coarse = text.partition(" / ")[0] if " / " in text else ""
    solved = (
        mark and coarse.replace(".", "", 1).isdecimal() and SOLVED_ACCURACY <= float(coarse) <= 1
    )
    return f"<td{_class('solved' if solved else '')}>{escape(text)}</td>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _table(rows: list[Row]) -> str:
    parts = []
    for heading, group in by_recipe(rows):
        classes, task = [], None
        for row in group:
            state = "" if row.status == "finished" else row.status
            classes.append(f"{'first ' if row.task != task else ''}{state}".strip())
            task = row.task
        title = escape(heading.replace("`", ""))
        body = html_table(HEADERS, [cells(row) for row in group], classes, PAPER_COLUMNS)
        parts.append(f"<h3>{title}</h3>\n{body}")
    return f"<p>{_code(caption(rows))}</p>\n" + "\n".join(parts)


def _code(text: str) -> str:
    """Markdown's marks of code as HTML's."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _summary(summary: Summary) -> str:
    return f"<p>{_code(summary.note)}</p>\n{html_table(summary.headers, summary.lines)}"


def _selection(choices: list[Choice]) -> str:
    headers = ("run", "size", "rate", "seed", "batches", "perplexity")
    parts = [f"<p>{_code(RULE)}</p>", f"<p>{_code(PROTOCOL)}</p>"]
    for choice in choices:
        if not choice.candidates:
            continue
        lines = [
            (
                run.name,
                run.size,
                f"{run.config.learning_rate:g}",
                str(run.config.seed),
                f"{run.step:,}{'' if run.report else ' so far'}",
                "" if run.perplexity is None else f"{run.perplexity:.4f}",
            )
            for run in choice.candidates
        ]
        count = len(lines)
        name = f"{choice.task}, {choice.model}, recipe {choice.recipe}: {count} "
        name += "candidate" if count == 1 else "candidates"
        parts.append(
            f"<details><summary>{escape(name)}</summary>{html_table(headers, lines)}</details>"
        )
    return "\n".join(parts)


def _environments(runs: list[RunRecord]) -> str:
    names = ("pushpop", "torch", "numba", "numpy", "python", "machine", "threads", "commit")
    lines: dict[tuple[str, ...], int] = {}
    for run in runs:
        line = tuple(str(run.environment.get(name) or "")[:12] for name in names)
        lines[line] = lines.get(line, 0) + 1
    return html_table((*names, "runs"), [(*line, str(n)) for line, n in sorted(lines.items())])
