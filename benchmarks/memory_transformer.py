"""How far a transformer with stacks for attention carries what it learned; three seeds.

python benchmarks/memory_transformer.py        writes results/memory_transformer.json
"""

import runpy
import time
from typing import Any

from machine import RESULTS, write_results

EXAMPLE = runpy.run_path(str(RESULTS.parent / "examples" / "memory_transformer.py"))


def main() -> None:
    write_results("memory_transformer", {"runs": [run(seed) for seed in (0, 1, 2)]})


def run(seed: int) -> dict[str, Any]:
    """The example's own figures, in per cent of the strings; seconds with the tests in them."""
    start = time.perf_counter()
    found = EXAMPLE["learn"](seed=seed)
    seconds = round(time.perf_counter() - start, 1)
    shares = {f"{low}-{high}": round(100 * share, 1) for (low, high), share in found.items()}
    print(f"seed {seed}:", shares, flush=True)
    return {"seed": seed, "seconds": seconds, "reversed_exactly": shares}


if __name__ == "__main__":
    main()
