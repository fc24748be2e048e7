"""A worker process: jobs come in as JSON lines on stdin, outcomes go out as such on stdout.

When stdin ends, because the sweep closed it or is no more, the run under way is stopped as Ctrl-C
would: it finishes its batch and saves.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO

from pushpop.errors import log_to
from pushpop.experiments.jobs import Job, perform


def main() -> None:
    """Work until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    jobs: SimpleQueue[str | None] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin, jobs), daemon=True).start()

    while (line := jobs.get()) is not None:
        job = Job.from_dict(json.loads(line))
        with open(job.log, "ab") as log:  # also for what a crash leaves to say
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        with log_to(sys.stderr):
            outcome = perform(job)
        with suppress(BrokenPipeError):
            print(json.dumps(vars(outcome)), file=answers, flush=True)
        if outcome.kind == "stopped":
            break
    os._exit(0)  # the listener may be waiting for a line


def _listen(lines: IO[str], jobs: "SimpleQueue[str | None]") -> None:
    for line in lines:
        jobs.put(line)
    jobs.put(None)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
