"""Tiny sweeps, and what is left of them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.training.runs import TINY

LONG_ENOUGH_TO_BE_KILLED: dict[str, Any] = {
    "steps": 400,
    "checkpoint_every": 20,
    "report_every": 30,
    "evaluate_every": 200,
}


def write_preset(folder: Path, **parts: Any) -> str:
    """A preset of tiny runs: copying and reversing, with a queue, unless said otherwise."""
    base = {k: v for k, v in TINY.items() if k not in ("task", "memory")}
    base |= parts.pop("base", {})
    if "halving" in parts:
        del base["steps"]
    data = {"base": base, "grid": {"task": ["copy", "reverse"], "model": ["queue"]}, **parts}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(path)


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "pushpop.cli", "sweep", *args]


def start(*args: str) -> "subprocess.Popen[str]":
    """A sweep in a process of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(*args), stdout=pipe, stderr=pipe, text=True)


def results(out: Path) -> dict[str, Any]:
    """What must not depend on interruptions: every run's log, and its report but for the time."""
    found = {}
    for report in sorted(out.glob("*/report.json")):
        figures = json.loads(report.read_text())
        del figures["seconds"]
        found[report.parent.name] = figures, (report.parent / "metrics.jsonl").read_text()
    return found


def wait_until(true: Callable[[], object], seconds: float = 240) -> None:
    """Until something is so."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it never was"
        time.sleep(0.01)


def checkpoints(out: Path) -> list[Path]:
    return list(out.glob("*/checkpoints/step-*.safetensors"))


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
