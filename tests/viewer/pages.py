"""What the browser tests share: traces as files, places on the screen, screenshots."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from pushpop.viewer.export import export
from pushpop.viewer.tracing import Example, Trace, trace
from tests.viewer.conftest import Visit
from tests.viewer.models import random_model

expect.set_options(timeout=60_000)  # a busy machine is no failure
Visitor = Callable[..., Visit]
MEMORIES = ["stack", "queue", "deque"]


def keep(page: Page, name: str, folder: Path) -> None:
    """A screenshot, in $PUSHPOP_SCREENSHOTS where that is set."""
    folder = Path(os.environ.get("PUSHPOP_SCREENSHOTS", folder))
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def fits(page: Page) -> bool:
    """Whether nothing sticks out to the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def told(memory: str, length: int = 8) -> Trace:
    symbols = tuple(f"a{1 + 5 * k % 128}" for k in range(length))
    example = Example(symbols, symbols)
    model = random_model(memory)
    return trace(model, example, name=f"a {memory}", task="copy", max_length=length)


def written(tmp_path: Path, traced: Trace, name: str = "trace.html") -> str:
    export(traced, tmp_path / name)
    return (tmp_path / name).as_uri()


def ready(visit: Visitor, address: str, **options: Any) -> Page:
    """The served page, with the first trace on it."""
    page: Page = visit(address, **options).page
    expect(page.locator("#page-models .panel")).to_have_count(1)
    expect(page.locator(".result output")).not_to_be_empty()
    return page


def place(page: Page, step: int, position: float | None) -> tuple[float, float]:
    """Where on the screen a step is, at a position of the memory or among the symbols."""
    page.wait_for_function("pushpop.players[0].panels[0].view?.rows")  # from the first frame on
    found = page.evaluate(
        """([step, position]) => {
          const panel = pushpop.players[0].panels[0];
          const { view, layout } = panel;
          const box = panel.stage.getBoundingClientRect();
          const y = position === null ? view.rows.input.top + 4
            : view.rows.memory.top + (layout.high - position) * view.unit;
          return [box.left + view.gutter + (step + 0.5) * view.column - view.x, box.top + y];
        }""",
        [step, position],
    )
    return found[0], found[1]
