"""Who does the jobs of a sweep: local processes here, a Ray cluster in `ray_workers.py`."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from pushpop.experiments.jobs import Job, Outcome

COMMAND = [sys.executable, "-P", "-m", "pushpop.experiments.worker"]
"""-P: nothing is imported from the current folder, as by the command itself."""


class Workers(Protocol):
    """Takes jobs, tells how they ended."""

    def free(self) -> int:
        """How many more jobs can be taken now."""

    def submit(self, job: Job) -> None:
        """Start a job."""

    def wait(self, seconds: float) -> list[Outcome]:
        """The outcomes that came in, at the latest after so many seconds."""

    def stop(self) -> None:
        """Ask every run to save and stop; outcomes of jobs under way still come in."""

    def close(self) -> None:
        """End at once whatever is left; a run that was not stopped has its last checkpoint."""


class LocalWorkers:
    """Processes of one thread each, which outlive a job and are replaced when they die.

    They do not get the terminal's Ctrl-C: the sweep does, and closes their stdin. `keep_open` is a
    file that they keep open as long as they live.
    """

    def __init__(self, count: int, keep_open: int | None = None) -> None:
        self.count, self.keep_open = count, keep_open
        self.busy: dict[str, _Process] = {}
        self.idle: list[_Process] = []
        self.events: Events = SimpleQueue()

    def free(self) -> int:
        """How many more jobs can be taken now."""
        return self.count - len(self.busy)

    def submit(self, job: Job) -> None:
        """Give a job to an idle worker, or to a new one."""
        while self.idle:
            worker = self.idle.pop()
            if worker.send(job):
                break
        else:
            worker = _Process(job.log, self.events, self.keep_open)
            worker.send(job)  # if it is dead already, its end is in the events
        self.busy[job.name] = worker

    def wait(self, seconds: float) -> list[Outcome]:
        """The outcomes that came in, at the latest after so many seconds."""
        found = []
        try:
            worker, answer = self.events.get(timeout=seconds)
            while True:
                found += self._outcome(worker, answer)
                worker, answer = self.events.get_nowait()
        except Empty:
            return found

    def stop(self) -> None:
        """End every worker's stdin."""
        for worker in [*self.idle, *self.busy.values()]:
            worker.close_stdin()

    def close(self) -> None:
        """End idle workers, kill the others."""
        self.stop()
        for worker in self.busy.values():
            worker.process.kill()
        for worker in [*self.idle, *self.busy.values()]:
            worker.wait_for_exit()
        self.idle, self.busy = [], {}

    def _outcome(self, worker: "_Process", answer: str | None) -> list[Outcome]:
        names = [name for name, at_work in self.busy.items() if at_work is worker]
        if not names:  # it has ended with nothing to do
            self.idle = [other for other in self.idle if other is not worker]
            worker.wait_for_exit()
            return []
        del self.busy[names[0]]
        if answer is not None:
            outcome = Outcome(**json.loads(answer))
            if outcome.kind == "stopped":
                worker.wait_for_exit()  # it leaves by itself
            else:
                self.idle.append(worker)
            return [outcome]
        code = worker.wait_for_exit()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return [Outcome(names[0], "lost", f"the worker ended {how}")]


class _Process:
    """A worker process, and a thread that passes on what it answers, None at its end."""

    def __init__(self, log: Path, events: "Events", keep_open: int | None) -> None:
        posix = os.name == "posix"
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                start_new_session=posix,
                pass_fds=(keep_open,) if posix and keep_open is not None else (),
            )
        Thread(target=self._listen, args=(events,), daemon=True).start()

    def send(self, job: Job) -> bool:
        """Hand over a job; false if nobody is there any more."""
        assert self.process.stdin is not None
        try:
            print(json.dumps(job.to_dict()), file=self.process.stdin, flush=True)
        except OSError:
            return False
        return True

    def close_stdin(self) -> None:
        """Say that nothing more will come."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def wait_for_exit(self) -> int:
        """Wait for its end; returns its exit code."""
        self.close_stdin()
        return self.process.wait()

    def _listen(self, events: "Events") -> None:
        assert self.process.stdout is not None
        with self.process.stdout as answers:
            for line in answers:
                events.put((self, line))
        events.put((self, None))


Events = SimpleQueue[tuple[_Process, str | None]]
