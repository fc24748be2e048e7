"""Links of the documentation lead somewhere, and the files that it names exist."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, name_of, prose, text_of

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?:benchmarks|docs|examples|models|results|src|tests)/[\w./-]*\w")
BY_USER = re.compile(r"results/runs|results/gpu_\w+\.json")
"""What a reader's own commands make, on a machine of their own."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        target, _, anchor = link.partition("#")
        assert ":" not in target, f"{link}: the docs need no network"
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), link
        if anchor:
            assert anchor in anchors(path), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_named_in_code_exist(page: Path) -> None:
    for span in re.findall(r"`([^`\n]+)`", prose(page)):
        for path in NAMED.findall(span):
            places = (ROOT / path, ROOT / "src" / "pushpop" / path)
            assert BY_USER.fullmatch(path) or any(place.exists() for place in places), path


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        seen.add(page)
        links = [(page.parent / each.partition("#")[0]) for each in LINK.findall(text_of(page))]
        found = {path.resolve() for path in links if path.suffix in (".md", ".ipynb")}
        ahead += sorted(found - seen)
    assert set(PAGES) - seen == set()
