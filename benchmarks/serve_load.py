"""How many visitors `pushpop serve` stands: 50 at once for 30 seconds, on loopback.

    python benchmarks/serve_load.py [MODEL ...]

Each visitor does what the page does, without pausing: generates a source of 12 symbols and traces
it. Writes results/serve_load.json; leaves with 1 if any answer was not 200.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import httpx2

from machine import write_results
from pushpop.models import shipped_models
from pushpop.tasks import get_task

VISITORS, SECONDS, LENGTH = 50, 30, 12


def main() -> None:
    """Start a server, visit it, write down what happened."""
    with tempfile.TemporaryDirectory() as folder:
        names = sys.argv[1:] or list(shipped_models()) or [_stand_in(Path(folder))]
        command = [sys.executable, "-m", "pushpop.cli", "serve", *names, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            line = server.stdout.readline()
            address = re.match(r"http://\S+", line)
            assert address, line
            try:
                times, failures = asyncio.run(_visit(address[0]))
            finally:
                server.terminate()
    figures = {
        "visitors": VISITORS,
        "seconds": SECONDS,
        "models": [Path(name).name for name in names],
        "requests": len(times) + len(failures),
        "failures": len(failures),
        "requests_per_second": round(len(times) / SECONDS, 1),
        "median_ms": round(1000 * median(times), 1),
        "p99_ms": round(1000 * quantiles(times, n=100)[98], 1),
    }
    write_results("serve_load", figures)
    print(figures, *failures[:3], sep="\n")
    raise SystemExit(bool(failures))


def _stand_in(folder: Path) -> str:
    """A random model of the shipped ones' size, where none is shipped."""
    from pushpop import Transducer, TransducerConfig

    config = TransducerConfig(memory="stack", hidden=48, memory_width=64)
    model = Transducer(config, get_task("reverse").vocabulary, {"task": "reverse"})
    model.save_pretrained(folder / "random-stack")
    return str(folder / "random-stack")


async def _visit(address: str) -> tuple[list[float], list[str]]:
    times: list[float] = []
    failures: list[str] = []
    end = time.perf_counter() + SECONDS
    limits = httpx2.Limits(max_connections=VISITORS)
    async with httpx2.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        models = (await client.get("/api/models")).json()["models"]

        async def ask(path: str, body: dict[str, object]) -> dict[str, list[str]]:
            start = time.perf_counter()
            answer = await client.post(path, json=body)
            if answer.status_code == 200:
                times.append(time.perf_counter() - start)
                return dict(answer.json())
            failures.append(f"{path} {body}: {answer.status_code} {answer.text[:200]}")
            return {}

        async def visitor(number: int) -> None:
            model = models[number % len(models)]
            for turn in range(10**9):
                if time.perf_counter() > end:
                    return
                wanted = {"task": model["task"], "length": LENGTH, "seed": 1000 * number + turn}
                pair = await ask("/api/generate", wanted)
                body = {"model": model["name"], "input": " ".join(pair.get("source", []))}
                await ask("/api/trace", {**body, "target": pair.get("target")})

        await asyncio.gather(*(visitor(number) for number in range(VISITORS)))
    return times, failures


if __name__ == "__main__":
    main()
