"""A real browser and a real server for the viewer's tests."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from shutil import which
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from pushpop.memory import MEMORIES
from pushpop.viewer.server import make_app
from pushpop.viewer.tracing import Entry
from tests.viewer.models import entries
from tests.viewer.toys import TOYS

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1440, "height": 900}


@dataclass
class Visit:
    """A page, and what went wrong in it."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser found (looked for {', '.join(NAMES)}): make browser installs one")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS.split())
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages; at the end of the test nothing may have gone wrong in any of them."""
    visits: list[Visit] = []

    def go(address: str, viewport: dict[str, int] = DESK, **options: Any) -> Visit:
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(60_000)
        new = Visit(context.new_page())
        new.page.on(
            "console",
            lambda message: new.problems.append(message.text) if message.type == "error" else None,
        )
        new.page.on("pageerror", lambda error: new.problems.append(str(error)))
        new.page.on("request", lambda request: new.requests.append(request.url))
        visits.append(new)
        new.page.goto(address)
        return new

    yield go
    for one in visits:
        one.page.context.close()
    assert [one.problems for one in visits] == [[] for _ in visits]


@pytest.fixture
def toy_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories of a user's own, known by name for one test."""
    for toy in TOYS:
        monkeypatch.setitem(MEMORIES, toy.kind, toy)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where a server with small random models listens."""
    with listening() as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def listening(models: dict[str, Entry] | None = None) -> Iterator[int]:
    """The port of a server, with small random models if none are given."""
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    door.listen(16)
    app = make_app(entries() if models is None else models)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        yield door.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
