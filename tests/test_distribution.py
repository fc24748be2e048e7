"""What comes with the library: its public names, its version, the source distribution, and how the
examples are called."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
import yaml

import pushpop

ROOT = Path(__file__).parents[1]


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_public_names_are_those_that_are_written_down() -> None:
    page = (ROOT / "docs" / "public-names.md").read_text("utf-8")
    rows = re.findall(r"^\| `(pushpop[.\w]*)` \| (.+) \|$", page, re.MULTILINE)
    written = {package: re.findall(r"`(\w+)`", names) for package, names in rows}
    inside = [f"pushpop.{module.name}" for module in iter_modules(pushpop.__path__) if module.ispkg]
    packages = {name: import_module(name) for name in ("pushpop", *inside)}
    public = {
        name: sorted(package.__all__)
        for name, package in packages.items()
        if hasattr(package, "__all__")
    }
    assert written == public
    for name, package in packages.items():
        for public_name in getattr(package, "__all__", []):
            assert hasattr(package, public_name), f"{name}.{public_name}"
    lines = re.findall(r"`(pushpop\.\w+)` has ((?:`\w+`(?:, | and )?)+)", page)
    assert {module for module, _ in lines} == {"pushpop.evaluation", "pushpop.warmup"}
    for module, names in lines:
        for public_name in re.findall(r"`(\w+)`", names):
            assert hasattr(import_module(module), public_name), f"{module}.{public_name}"


def test_one_version_is_named_everywhere_and_the_changelog_has_its_date() -> None:
    version = settings()["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == version
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## (.+)$", changes, re.MULTILINE)
    assert sections[:2] == ["Unreleased", f"{version} ({citation['date-released']})"]


def test_pythons_are_named_that_the_package_accepts() -> None:
    project = settings()["project"]
    named = [
        tuple(map(int, label.rpartition(" ")[2].split(".")))
        for label in project["classifiers"]
        if re.search(r"Python :: 3\.\d+$", label)
    ]
    least = tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    assert named == sorted(named)
    assert named[0] == least


@pytest.mark.parametrize("name", ["onnx_decoding.py", "demo.py"])
def test_an_example_that_is_called_wrongly_says_how_to_call_it(name: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / name), "--bogus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"python examples/{name}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_source_distribution_has_what_the_readme_names() -> None:
    included = settings()["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all((ROOT / name).exists() for name in included)
    readme = (ROOT / "README.md").read_text("utf-8")
    named = set(re.findall(r"\b(src|tests|docs|models|examples|benchmarks|results)/", readme))
    assert {"src", "docs", "models", "examples", "benchmarks", "results"} <= named
    assert {*named, "Makefile", "constraints.txt", "README.md", "LICENSE"} <= set(included)
