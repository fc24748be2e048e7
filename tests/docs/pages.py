"""The pages of the documentation, and what they are made of."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "models" / "README.md",
        ROOT / "examples" / "tour.ipynb",
    ]
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """The Markdown of a page; of a notebook, that of its Markdown cells."""
    text = page.read_text("utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language; "" is a block without one."""
    return [block for name, block in FENCE.findall(text_of(page)) if name == language]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", text_of(page))


def anchors(page: Path) -> set[str]:
    """What a link to a heading of a page may say after its #."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found.add(words if words not in found else f"{words}-1")
    return found
