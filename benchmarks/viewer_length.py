"""How a trace of 500 symbols renders and how fast it is stepped through, in Chromium.

    python benchmarks/viewer_length.py

Queues hold all 500 symbols at once, deques twice as many cells. The models are random: what is
measured is the page. Writes results/viewer_length.json.
"""

import tempfile
import time
from pathlib import Path
from shutil import which
from statistics import median
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright

from machine import write_results
from pushpop import Transducer, TransducerConfig
from pushpop.tasks import get_task
from pushpop.viewer.export import export
from pushpop.viewer.tracing import generate, trace

LENGTHS, STEPS = (50, 500), 60


def main() -> None:
    """Write pages, open them, step through them."""
    path = which("chromium") or which("chromium-browser") or which("google-chrome")
    if path is None:
        raise SystemExit("no Chromium found")
    rows = []
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        args = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=args)
        for memory in ("stack", "queue", "deque"):
            for length in LENGTHS:
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                rows.append(_measure(page, memory, length, Path(folder) / "trace.html"))
                page.close()
                print(rows[-1])
        version = browser.version
        browser.close()
    write_results("viewer_length", {"browser": f"Chromium {version}", "width": 1440, "rows": rows})


def _measure(page: Page, memory: str, length: int, path: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    config = TransducerConfig.from_dict(
        {**TransducerConfig().to_dict(), "memory": memory, "hidden": 48, "memory_width": 64}
    )
    pair = generate("copy", length, seed=0)
    model = Transducer(config, get_task("copy").vocabulary)
    trace(model, pair, max_length=1)  # kernels loaded
    start = time.perf_counter()
    told = trace(model, pair, name=memory, max_length=length)
    traced = time.perf_counter() - start
    export(told, path)
    start = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_function("pushpop.players[0].panels[0].drawn > 0")
    opened = time.perf_counter() - start
    draws = page.evaluate(
        """() => Array.from({ length: 9 }, () => {
          const panel = pushpop.players[0].panels[0];
          panel.redraw();
          return panel.drawn;
        })"""
    )
    steps = page.evaluate(
        """async (count) => {
          const player = pushpop.players[0];
          const times = [];
          for (let t = 0; t < count; t += 1) {
            const start = performance.now();
            player.goTo(Math.floor((t * player.last) / count));
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            times.push(performance.now() - start);
          }
          return times;
        }""",
        STEPS,
    )
    return {
        "memory": memory,
        "source_symbols": length,
        "steps": len(told.steps),
        "cells": len(told.cells),
        "trace_seconds": round(traced, 2),
        "file_kilobytes": round(path.stat().st_size / 1000),
        "open_ms": round(1000 * opened),
        "draw_ms": round(median(draws), 1),
        "step_to_next_frame_ms": round(median(steps), 1),
        "slowest_step_ms": round(max(steps), 1),
    }


if __name__ == "__main__":
    main()
