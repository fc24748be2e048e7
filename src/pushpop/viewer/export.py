"""Traces as files."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pushpop.errors import InputError, writing
from pushpop.files import write_file
from pushpop.viewer.page import page_data, trace_page
from pushpop.viewer.trace import Trace


def export(trace: Trace, path: Path) -> None:
    """Write a trace as the kind of file that its name ends in, whole or not at all."""
    data = FORMATS[path.suffix.lower()](trace)
    with writing(path):
        write_file(path, data)


def _html(trace: Trace) -> bytes:
    return trace_page([page_data(trace)], trace.model).encode()


def _json(trace: Trace) -> bytes:
    return f"{json.dumps(trace.to_dict(), ensure_ascii=False, allow_nan=False)}\n".encode()


def _png(trace: Trace) -> bytes:
    return _drawn(trace, "png")


def _svg(trace: Trace) -> bytes:
    return _drawn(trace, "svg")


def _drawn(trace: Trace, kind: str) -> bytes:
    with _plotting():
        from pushpop.viewer.draw import picture
    return picture(trace, kind)


def _gif(trace: Trace) -> bytes:
    with _plotting():
        from pushpop.viewer.draw import animation
    return animation(trace)


@contextmanager
def _plotting() -> Iterator[None]:
    """What is imported here comes with an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"pictures need {error.name}, which is not installed: pip install 'pushpop[plot]'"
        ) from None


FORMATS: dict[str, Callable[[Trace], bytes]] = {
    ".html": _html,
    ".png": _png,
    ".svg": _svg,
    ".gif": _gif,
    ".json": _json,
}
