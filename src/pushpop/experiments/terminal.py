"""The table in a terminal."""

from rich import box
from rich.table import Table

from pushpop.experiments.records import SOLVED
from pushpop.experiments.table import HEADERS, Row, by_recipe, caption, cells


def rich_tables(rows: list[Row]) -> list[Table]:
    """A table a recipe."""
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
            solved = row.test_coarse is not None and row.test_coarse >= SOLVED
            style = "green" if solved else "dim" if row.status != "finished" else None
            table.add_row(*cells(row), style=style)
        tables.append(table)
    return tables
