"""`make docs` builds a site without a warning that loads nothing from the network."""

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from tests.docs.pages import ROOT

LOADS = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//""")
LINKS = re.compile(r"""<link\b[^>]*\bhref=["']?(?:https?:)?//[^>]*>""")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
STYLES = re.compile(r"""@import|url\(["']?(?:https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does. With --quiet, a warning would not count as a failure."""
    pytest.importorskip("material", reason="the extra [docs] is not installed")
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_name_of_the_library_is_in_the_reference(site: Path) -> None:
    import pushpop

    pages = "".join(path.read_text("utf-8") for path in (site / "api").glob("*.html"))
    for name in pushpop.__all__:
        assert re.search(rf'id="pushpop\.\w+\.{name}"', pages), name


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text("utf-8")
        assert not LOADS.search(page), path.name
        for link in LINKS.findall(page):
            assert "stylesheet" not in link, path.name
            assert "preconnect" not in link, path.name
            assert "icon" not in link, path.name
    for path in site.rglob("*.css"):
        assert not STYLES.search(path.read_text("utf-8")), path.name


def test_pages_and_names_can_be_searched_for(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text("utf-8")
    for text in ("memory.html", "pushpop.layers.MemoryRNN", "tour.html"):
        assert text in index


def test_the_search_works_from_disk(site: Path, tmp_path: Path) -> None:
    browser = next(filter(None, map(which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser found (looked for {', '.join(BROWSERS)})")
    address = f"{(site / 'api' / 'layers.html').as_uri()}?q=strength"
    flags = f"--headless --no-sandbox --disable-gpu --user-data-dir={tmp_path} --dump-dom"
    command = [browser, *flags.split(), "--virtual-time-budget=20000", address]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.search(r"\d+ matching documents", found)
    assert re.search(r'<a [^>]*memory.html[^>]* class="md-search-result__link"', found)


def test_files_outside_the_docs_are_there_as_well(site: Path) -> None:
    for path in ("gallery.html", "examples/own_pairs.py", "changelog.html", "tour.html"):
        assert (site / path).is_file(), path
    assert "data:image/png;base64," in (site / "tour.html").read_text("utf-8")
