"""How far a transformer with stacks for attention carries what it learned; three seeds.

python benchmarks/memory_transformer.py        writes results/memory_transformer.json
"""

import re
import subprocess
import sys
from typing import Any

from machine import RESULTS, write_results

EXAMPLE = RESULTS.parent / "examples" / "memory_transformer.py"
LINE = re.compile(r"lengths +(\d+) to +(\d+) .*: ([\d.]+)% exactly reversed")
SECONDS = re.compile(r"([\d.]+) s$", re.MULTILINE)


def main() -> None:
    runs = [run(seed) for seed in (0, 1, 2)]
    write_results("memory_transformer", {"runs": runs})


def run(seed: int) -> dict[str, Any]:
    """The example's own figures, in per cent of the strings."""
    command = [sys.executable, str(EXAMPLE), "--seed", str(seed)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(f"seed {seed}", *said.splitlines()[-3:], sep="\n", flush=True)
    reversed_exactly = {f"{low}-{high}": float(share) for low, high, share in LINE.findall(said)}
    seconds = float(SECONDS.findall(said)[-1])
    return {"seed": seed, "training_seconds": seconds, "reversed_exactly": reversed_exactly}


if __name__ == "__main__":
    main()
