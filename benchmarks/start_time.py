"""How long the command takes to say something that needs no torch, beside Python's own start.

    python benchmarks/start_time.py        writes results/start_time.json

Medians of five, taken in turns, each in a new process.
"""

import subprocess
import sys
from pathlib import Path

from machine import interleave, write_results

PUSHPOP = str(Path(sys.executable).with_name("pushpop"))
ROUNDS = 5
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "pushpop --help": [PUSHPOP, "--help"],
    "pushpop train --help": [PUSHPOP, "train", "--help"],
    "pushpop --version": [PUSHPOP, "--version"],
    "pushpop trian": [PUSHPOP, "trian"],
}


def main() -> None:
    calls = {
        name: lambda command=command: subprocess.run(command, capture_output=True, check=False)
        for name, command in COMMANDS.items()
    }
    seconds = interleave(calls, dict.fromkeys(calls, ROUNDS))
    start = seconds["python -c pass"]
    for name, each in seconds.items():
        print(f"{name:22}{each:7.3f} s{each - start:+8.3f} s")
    figures = {
        name: {"seconds": round(each, 3), "above_python": round(each - start, 3)}
        for name, each in seconds.items()
    }
    write_results("start_time", {"setting": {"rounds": ROUNDS}, **figures})


if __name__ == "__main__":
    main()
