"""A million steps, one at a time, through a recurrent layer with a memory: cost and growth.

    python benchmarks/streaming.py        writes results/streaming.json

One thread, batch 1, input 8, hidden 32, memory 16, float32, no gradients, seed 0. The gates' biases
are set so that pops keep up with pushes: what is pushed is popped again.
"""

import time

import psutil
import torch

from machine import write_results
from pushpop import MemoryRNN

STEPS = 1_000_000


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = {}
    for memory in ("stack", "queue", "deque"):
        rnn = MemoryRNN(8, 32, memory, 16, push_bias=1.0, pop_bias=2.0)
        inputs = torch.randn(1000, 1, 8).unbind(0)
        state, sizes, cells, start = None, [], 0, time.perf_counter()
        for _ in range(10):
            for step in range(STEPS // 10):
                _, state = rnn.step(inputs[step % 1000], state)
            sizes.append(psutil.Process().memory_info().rss)
            cells = max(cells, state.memory.strengths.shape[1])
        seconds = time.perf_counter() - start
        figures[memory] = {
            "steps": STEPS,
            "microseconds_per_step": round(1e6 * seconds / STEPS, 1),
            "growth_bytes_after_first_tenth": sizes[-1] - sizes[0],
            "live_cells_at_most": cells,
        }
        print(f"{memory}: {figures[memory]}")
    write_results("streaming", {"threads": 1, "seed": 0, **figures})


if __name__ == "__main__":
    main()
