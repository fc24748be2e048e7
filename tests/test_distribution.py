"""What comes with the library: the source distribution, and how the examples are called."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["onnx_decoding.py", "demo.py"])
def test_an_example_that_is_called_wrongly_says_how_to_call_it(name: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / name), "--bogus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"python examples/{name}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_source_distribution_has_what_the_readme_names() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all((ROOT / name).exists() for name in included)
    readme = (ROOT / "README.md").read_text("utf-8")
    named = set(re.findall(r"\b(src|tests|docs|models|examples|benchmarks|results)/", readme))
    assert {"src", "docs", "models", "examples", "benchmarks", "results"} <= named
    assert {*named, "Makefile", "constraints.txt", "README.md", "LICENSE"} <= set(included)
