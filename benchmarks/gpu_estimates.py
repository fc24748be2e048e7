"""How long the GPU kernels might take: an estimate, from counts and from what is assumed of a GPU.

    python benchmarks/gpu_estimates.py        writes results/gpu_estimates.json

Nothing here was measured on a GPU. The launches of a step are those of results/gpu_launches.json;
loads that wait for each other were counted in the kernels by hand; bytes follow from the shapes.
An estimate is the largest of: launches times the cost of one, loads in a chain times their latency,
bytes over the bandwidth.
"""

import json
from typing import Any

from machine import RESULTS, write_results

ASSUMED = {
    "launch_us": 6.0,  # from Python, through torch or Triton, one after the other
    "graph_us": 3.0,  # of a small kernel in a CUDA graph, start to start
    "latency_us": 0.3,  # of a load that hits the second cache, and of the barrier behind it
    "gigabytes_a_second": 1500.0,  # an A100's memory
}
T, B, H, D = 130, 10, 256, 256
FLOAT = 4
CHAIN = (4, 9)
"""Loads of a step that wait for each other, forward and backward: gate, strength, id, value of one
cell that is popped and one that is read."""


def milliseconds(launches: float = 0, chain: float = 0, bytes_moved: float = 0) -> dict[str, float]:
    """The three bounds, and the largest of them."""
    bounds = {
        "launches": launches * ASSUMED["launch_us"] / 1e3,
        "chain": chain * ASSUMED["latency_us"] / 1e3,
        "bytes": bytes_moved / (ASSUMED["gigabytes_a_second"] * 1e6),
    }
    return {**{name: round(ms, 3) for name, ms in bounds.items()}, "ms": max(bounds.values())}


def estimates(counted: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By name: a stack, forward and backward."""
    longest = max(counted["lengths"])

    def launches(ways: dict[str, Any]) -> float:
        """Of T steps and their backward pass: those of the longest call counted, and the rest."""
        both = [ways[way] for way in ("forward", "backward")]
        return sum(way["launches"] + (T - longest) * way["launches_a_step"] for way in both)

    by_torch = launches(counted["step_by_step"]["lstm, stack, parallel"])
    by_kernels = launches(counted["kernels"]["lstm, stack"])
    weights = FLOAT * (4 * H * (H + D) + (D + 2) * H)
    values = FLOAT * T * B * D
    found = {
        "MemoryRNN, plain torch step by step": milliseconds(by_torch, 0, 2 * T * weights),
        "MemoryRNN, Triton kernels": milliseconds(by_kernels, 0, 2 * T * weights),
        "the memory alone, walk": milliseconds(2, T * sum(CHAIN), 8 * values),
    }
    graph = by_kernels * ASSUMED["graph_us"] / 1e3
    found["MemoryRNN, Triton kernels in a CUDA graph"] = {
        "launches": round(graph, 3),
        "chain": 0.0,
        "bytes": found["MemoryRNN, Triton kernels"]["bytes"],
        "ms": graph,
    }
    return {name: {**each, "ms": float(f"{each['ms']:.2g}")} for name, each in found.items()}


def main() -> None:
    counted = json.loads((RESULTS / "gpu_launches.json").read_text())
    found = estimates(counted)
    for name, each in found.items():
        print(f"{name:45} {each}")
    setting = {"T": T, "B": B, "H": H, "D": D, "dtype": "float32", "loads_in_a_chain": CHAIN}
    write_results("gpu_estimates", {"assumed": ASSUMED, "setting": setting, "estimates": found})


if __name__ == "__main__":
    main()
