"""Where the runs of a sweep are: in processes on this machine, or in tasks of a Ray cluster.

A job is a few commands of pushpop, one after the other, whose output goes to the job's log. Each is
a process of its own, and stops by itself when it loses its parent (`training.signals`).
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pushpop.errors import InputError
from pushpop.training.signals import PARENT

Commands = list[list[str]]
"""The arguments of `pushpop`, for each command."""
POLL = 0.1
"""Seconds from one look at a process to the next."""


def run_commands(
    commands: Commands,
    log: Path,
    processes: "list[subprocess.Popen[bytes]]",
    keep_open: Sequence[int] = (),
) -> int:
    """Run commands until one fails; returns its exit code, or 0. The last of `processes` is the one
    under way.

    The terminal's Ctrl-C does not reach them. -P: nothing is imported from the current folder.
    """
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for arguments in commands:
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pushpop", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **threads, PARENT: str(os.getpid())},
                start_new_session=True,
                pass_fds=keep_open,
            )
        processes.append(process)
        while process.poll() is None:
            time.sleep(POLL)  # Ray cannot interrupt a wait
        if process.returncode:
            return process.returncode
    return 0


class LocalWorkers:
    """At most `count` jobs at a time. Their processes keep the file `lock` open, and with it a lock
    on it."""

    def __init__(self, count: int, lock: int | None = None) -> None:
        self.count = count
        self.keep_open = () if lock is None else (lock,)
        self.pool = ThreadPoolExecutor(count)  # a thread waits for the processes of a job
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, commands: Commands, log: Path) -> "Future[int]":
        """Start a job; the result is the exit code of the command that failed, or 0."""
        return self.pool.submit(run_commands, commands, log, self.processes, self.keep_open)

    def stop(self) -> None:
        """Have every run finish its batch and save."""
        for process in self.processes:
            process.terminate()

    def close(self) -> None:
        """End at once what is left; a run has its last checkpoint."""
        for process in self.processes:
            process.kill()
        self.pool.shutdown()


class RayWorkers:
    """As many jobs at a time as the cluster has processors, or at most `most`.

    Ray itself retries nothing: the sweep starts a job again that was lost with its node.
    """

    def __init__(self, address: str, most: int | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise InputError("--ray needs Ray: pip install 'pushpop[ray]'") from None
        self.ray: Any = ray
        self.most = most
        self.tasks: list[Any] = []
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == "local":
            options["include_dashboard"] = False
        try:
            ray.init(address=address, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"--ray {address}: no cluster there: {error}") from None

    @property
    def count(self) -> int:
        """How many jobs there may be at a time: nodes come and go."""
        processors = int(self.ray.cluster_resources().get("CPU", 0))
        return min(processors, self.most or processors)

    def start(self, name: str, commands: Commands, log: Path) -> "Future[int]":
        """Start a job as a task."""
        task = self.ray.remote(run_on_node).options(name=name, num_cpus=1, max_retries=0)
        self.tasks.append(task.remote(commands, str(log.resolve()), os.getcwd()))
        future: Future[int] = self.tasks[-1].future()
        return future

    def stop(self) -> None:
        """Interrupt every task, which stops its run."""
        for task in self.tasks:
            self.ray.cancel(task, force=False)

    def close(self) -> None:
        """Leave the cluster; tasks under way are ended with it."""
        for task in self.tasks:
            self.ray.cancel(task, force=True)
        self.ray.shutdown()


def run_on_node(commands: Commands, log: str, folder: str) -> int:
    """Run the commands of a job on whatever node this is; relative paths are from `folder`."""
    from socket import gethostname

    from ray import get_runtime_context

    if os.path.isdir(folder):
        os.chdir(folder)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"on {gethostname()}, Ray node {get_runtime_context().get_node_id()}\n")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        return run_commands(commands, Path(log), processes)
    except BaseException:  # the task is cancelled
        processes[-1].terminate()
        processes[-1].wait()
        raise
