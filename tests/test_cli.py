"""The command line as a user meets it."""

import subprocess
import sys


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pushpop.cli", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_names_the_packages_that_compute() -> None:
    result = run("version")
    assert result.returncode == 0
    assert result.stdout.startswith("pushpop ")
    assert "torch 2." in result.stdout


def test_unknown_command_exits_2_without_traceback() -> None:
    result = run("frobnicate")
    assert result.returncode == 2
    assert "frobnicate" in result.stderr
    assert "Traceback" not in result.stderr
