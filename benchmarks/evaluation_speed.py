"""How fast a batched evaluation is: 1,000 sequences of lengths 65-128 through a 256-wide deque.

    python benchmarks/evaluation_speed.py        writes results/evaluation_speed.json

One thread, float32, the copy task, seed 0, teacher-forced, in chunks of 50 and of 100 sequences, so
that memory is bounded by the chunk. Every target symbol's logits are computed.
"""

import time
from pathlib import Path

import torch

from machine import write_results
from pushpop import Transducer, TransducerConfig
from pushpop.tasks import draw_batch, get_task

SEQUENCES, LENGTHS = 1000, (65, 128)


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    task = get_task("copy")
    model = Transducer(TransducerConfig(memory="deque"), task.vocabulary).eval()
    figures = {}
    for chunk in (50, 100):
        batches = [
            draw_batch(task, seed=0, stream="bench", index=k, batch_size=chunk, lengths=LENGTHS)
            for k in range(SEQUENCES // chunk)
        ]
        model.likelihood(batches[0])  # kernels loaded
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far (Linux)
        before = _kilobytes("VmRSS")
        start = time.perf_counter()
        symbols = sum(model.likelihood(batch).symbols for batch in batches)
        seconds = time.perf_counter() - start
        figures[f"chunks of {chunk}"] = {
            "sequences_per_second": round(SEQUENCES / seconds, 1),
            "target_symbols_per_second": round(symbols / seconds),
            "peak_megabytes": round((_kilobytes("VmHWM") - before) / 1024),
        }
        print(f"chunks of {chunk}: {figures[f'chunks of {chunk}']}")
    setting = {"sequences": SEQUENCES, "lengths": LENGTHS, "hidden": 256, "memory": "deque 256"}
    write_results("evaluation_speed", {"setting": {**setting, "threads": 1, "seed": 0}, **figures})


def _kilobytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(field)))


if __name__ == "__main__":
    main()
