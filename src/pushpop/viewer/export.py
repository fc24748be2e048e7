"""Traces as files: pages, pictures, numbers; and the project's documentation as pages.

A page is one HTML file with its style, script and data inside, that asks for nothing else.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from posixpath import normpath
from string import Template
from typing import Any

import pushpop
from pushpop.errors import InputError, writing
from pushpop.files import write_file
from pushpop.viewer.layout import hues
from pushpop.viewer.tracing import Trace, remark

SCRIPTS = (
    "words", "memory", "colours", "view", "intervals", "positions", "attention", "picture", "panel",
    "player", "playground", "address", "downloads", "workbench", "app",
)  # fmt: skip
LEAD = "what the memory did, step by step"
DIGITS = 6  # of the numbers on a page; a trace as JSON has all of them
DOC_KINDS = (".md", ".png", ".gif", ".svg")
LINK = re.compile(r'\b(href|src)="(?![\w+.-]+:|#)([^"#]*)(#[^"]*)?"')


def export(trace: Trace, path: Path) -> None:
    """Write a trace as the kind of file that its name ends in, whole or not at all."""
    data = FORMATS[path.suffix.lower()](trace)
    with writing(path):
        write_file(path, data)


def trace_page(traces: Sequence[dict[str, Any]], heading: str, lead: str = LEAD) -> str:
    """A page that shows traces, each made by `page_data`, one after the other."""
    return _page({"traces": list(traces)}, heading, lead, connects=False)


@cache
def served_page() -> str:
    """The page of `pushpop serve`: it asks the server that it came from, and nobody else."""
    lead = (
        "A trained model reads the input from left to right, then writes its answer. The picture "
        "is its memory, step by step: every band is a value, from its push to its pop."
    )
    return _page({}, "pushpop", lead, connects=True)


def page_data(trace: Trace, title: str = "", text: str = "") -> dict[str, Any]:
    """A trace as the page's script wants it, with words to stand above it."""
    data = {**trace.to_dict(), "remark": remark(trace), "title": title, "text": text}
    memories = [data, *data["others"]]
    for number, memory in enumerate(memories, start=1):
        memory["hues"] = hues(trace)
        memory["number"] = f"memory {number} of {len(memories)}" if trace.others else ""
    return dict(_shorten(data))


def _page(data: dict[str, Any], heading: str, lead: str, connects: bool) -> str:
    style, script = _part("style.css"), _script()
    policy = {
        "default-src": "'none'",
        "style-src-elem": _digest(style),
        "style-src-attr": "'unsafe-inline'",
        "script-src": _digest(script),
        "img-src": "data:",
        "connect-src": "'self'" if connects else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    # "<" can end a script element, and can do so only as itself.
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Template(_part("shell.html")).substitute(
        policy="; ".join(f"{name} {value}" for name, value in policy.items()),
        title=escape(heading),
        heading=escape(heading),
        lead=escape(lead),
        style=style,
        script=script,
        data=text.replace("<", "\\u003c"),
    )


def _part(name: str) -> str:
    return files("pushpop.viewer").joinpath("page", name).read_text("utf-8")


def _script() -> str:
    parts = "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _shorten(data: Any) -> Any:
    if isinstance(data, float):
        return float(f"{data:.{DIGITS}g}")
    if isinstance(data, dict):
        return {key: _shorten(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_shorten(value) for value in data]
    return data


def _html(trace: Trace) -> bytes:
    return trace_page([page_data(trace)], trace.model).encode()


def _json(trace: Trace) -> bytes:
    return f"{json.dumps(trace.to_dict(), ensure_ascii=False, allow_nan=False)}\n".encode()


def _drawn(trace: Trace, kind: str) -> bytes:
    try:
        from pushpop.viewer.draw import animation, picture
    except ModuleNotFoundError as error:
        raise InputError(
            f"pictures need {error.name}, which is not installed: pip install 'pushpop[plot]'"
        ) from None
    return animation(trace) if kind == "gif" else picture(trace, kind)


FORMATS: dict[str, Callable[[Trace], bytes]] = {
    ".html": _html,
    **{f".{kind}": partial(_drawn, kind=kind) for kind in ("png", "svg", "gif")},
    ".json": _json,
}


@cache
def local_docs() -> dict[str, bytes]:
    """The project's own pages and their pictures by name; an installed package has none."""
    root = Path(pushpop.__file__).parents[2]
    if not (root / "docs" / "viewer.md").is_file():
        return {}
    pages = [path for path in (root / "docs").rglob("*") if path.suffix in DOC_KINDS]
    named = {path.relative_to(root / "docs").as_posix(): path for path in sorted(pages)}
    return {
        name: path.read_bytes() for name, path in {"README.md": root / "README.md", **named}.items()
    }


@cache
def doc_page(name: str) -> str:
    """A page of the documentation as HTML. Links that lead out of it are left out."""
    from markdown_it import MarkdownIt

    pages = local_docs()
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(pages[name].decode())
    for heading, text in pairwise(tokens):
        if heading.type == "heading_open":
            words = re.sub(r"[^\w\- ]", "", text.content.lower()).strip()
            heading.attrSet("id", words.replace(" ", "-"))

    def follow(link: re.Match[str]) -> str:
        path = normpath("docs/" * (name != "README.md") + link[2]) if link[2] else f"docs/{name}"
        page = path.removeprefix("docs/")
        return f'{link[1]}="{page}{link[3] or ""}"' if page in pages else ""

    return Template(_part("doc.html")).substitute(
        title=escape(name),
        style=_part("style.css"),
        text=LINK.sub(follow, parser.renderer.render(tokens, parser.options, {})),
    )
