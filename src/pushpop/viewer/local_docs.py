"""The project's own pages, where the package runs from its repository: read once, then served."""

from pathlib import Path

import pushpop

TYPES = {".md": "text/plain", ".html": "text/html"}


def local_docs() -> dict[str, tuple[bytes, str]]:
    """Pages by name, each with its media type; an installed package has none."""
    root = Path(pushpop.__file__).parents[2]
    if not (root / "docs" / "viewer.md").is_file():
        return {}
    files = [root / "README.md", *sorted((root / "docs").glob("*.*"))]
    return {
        path.name: (path.read_bytes(), TYPES[path.suffix])
        for path in files
        if path.suffix in TYPES and path.is_file()
    }
