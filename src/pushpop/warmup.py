"""Every compiled kernel that the commands use, compiled at once.

Commands use different kernels. If each compiled its own, a new user would be told to wait at each
of the first few commands. So the first command that misses a kernel in the cache has all of them
compiled, and no later one waits. Programs that use the library compile what they need and no more.

Nothing here imports torch or Numba before kernels are asked for.
"""

import subprocess
import sys
from contextlib import suppress

NOTICE = "compiling CPU kernels for all commands; this takes about half a minute, once"

_wanted = False


def compile_all_at_first_miss(wanted: bool = True) -> None:
    """Compile all kernels the first time one is missing from the cache, in this process; or not:
    `pushpop check` needs others than the rest of the commands."""
    global _wanted
    _wanted = wanted


def is_first_miss() -> bool:
    """Whether all kernels are to be compiled now: once, and only if that is wanted."""
    global _wanted
    wanted, _wanted = _wanted, False
    return wanted


def compile_elsewhere() -> None:
    """`compile_kernels` in a process of its own, which leaves them in the cache.

    A kernel is missed in the middle of torch's work (without gradients, inside an operator), where
    nothing can be trained. If the process fails, kernels are compiled as they are needed. It
    imports nothing from the current folder (-P).
    """
    code = "from pushpop.warmup import compile_kernels; compile_kernels()"
    with suppress(OSError):  # there may be no interpreter to call
        subprocess.run(
            [sys.executable or "python", "-P", "-c", code], capture_output=True, check=False
        )


def compile_kernels() -> None:
    """Compile all kernels that the commands use, or load them where they have been cached.

    Kernels are compiled for the types that they are called with. So tiny models do here what
    models of the commands do: train, step by step predict, and draw what they are trained on.
    """
    import torch

    from pushpop.models import Transducer, TransducerConfig
    from pushpop.tasks import TASKS, batch_rng, draw_batch, get_task
    from pushpop.tasks.batching import BATCH_MAKERS

    for task in map(get_task, TASKS):
        pairs = task.sample(batch_rng(0, "compile", 0), 1, (6, 7))
        form = "transducer" if task.vocabulary.blank is None else "tagger"
        BATCH_MAKERS[form](pairs, task.vocabulary)
    task = get_task("copy")
    batch = draw_batch(task, seed=0, stream="compile", index=0, batch_size=2, lengths=(2, 3))
    lstms = [(memory, "lstm") for memory in ("stack", "queue", "deque", "tape", "none")]
    with torch.random.fork_rng(devices=[]):
        for memory, cell in (*lstms, ("stack", "gru"), ("stack", "rnn")):
            sizes = {"embedding": 4, "hidden": 4, "memory_width": 4}
            config = TransducerConfig(memory=memory, cell=cell, **sizes)  # type: ignore[arg-type]
            model = Transducer(config, task.vocabulary)
            model.loss(batch).backward()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                model.loss(batch)
            model.decode(["a1 a2", "a3"], max_length=2)
