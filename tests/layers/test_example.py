"""The example runs as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "memory_transformer.py"


def test_the_memory_transformer_trains_and_reports_every_range_of_lengths() -> None:
    command = [sys.executable, str(EXAMPLE), "--steps", "5"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"step +5 +loss [0-9.]+", out), out
    assert len(re.findall(r"lengths .*: [0-9.]+% exactly reversed", out)) == 3, out
