"""The README is short, and its tables and badges are those of the files they come from."""

import runpy
import tomllib

import yaml

from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text("utf-8")
SCRIPT = runpy.run_path(str(ROOT / "docs" / "figures" / "readme.py"))


def test_the_tables_are_made_from_the_results() -> None:
    assert SCRIPT["with_tables"](README) == README, "python docs/figures/readme.py renews them"


def test_the_badges_say_what_pyproject_says() -> None:
    for name, svg in SCRIPT["badges"]().items():
        assert (ROOT / "docs" / "figures" / name).read_text("utf-8") == svg, name
        assert f"](docs/figures/{name})" in README


def test_it_has_less_than_120_lines() -> None:
    assert len(README.splitlines()) < 120


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
