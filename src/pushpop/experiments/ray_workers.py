"""The jobs of a sweep as tasks of a Ray cluster whose nodes share the sweep's folder."""

import os
from contextlib import redirect_stderr, redirect_stdout
from socket import gethostname
from typing import Any

from pushpop.errors import InputError, log_to
from pushpop.experiments.jobs import Job, Outcome, perform


class RayWorkers:
    """Ray tasks, one a job, as many at a time as the cluster has processors.

    Ray itself retries nothing: a task lost with its worker or its node is an outcome like others,
    and the sweep gives the job out again.
    """

    def __init__(self, address: str, most: int | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise InputError("--ray needs Ray: pip install 'pushpop[ray]'") from None
        self.ray: Any = ray
        self.most = most
        self.tasks: dict[Any, Job] = {}
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == "local":
            options["include_dashboard"] = False
        try:
            ray.init(address=address, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"--ray {address}: no cluster there: {error}") from None

    def free(self) -> int:
        """How many more jobs can be taken now: nodes come and go."""
        processors = int(self.ray.cluster_resources().get("CPU", 0))
        return min(processors, self.most or processors) - len(self.tasks)

    def submit(self, job: Job) -> None:
        """Make a task of it."""
        task = self.ray.remote(run_job).options(
            name=job.name, num_cpus=job.config.threads, max_retries=0
        )
        self.tasks[task.remote(job.to_dict(), os.getcwd())] = job

    def wait(self, seconds: float) -> list[Outcome]:
        """The outcomes that came in, at the latest after so many seconds."""
        ready, _ = self.ray.wait(list(self.tasks), timeout=seconds)
        return [self._outcome(task, self.tasks.pop(task)) for task in ready]

    def stop(self) -> None:
        """Interrupt every task; `train` takes that for Ctrl-C."""
        for task in self.tasks:
            self.ray.cancel(task, force=False)

    def close(self) -> None:
        """Leave the cluster; tasks under way are ended with it."""
        for task in self.tasks:
            self.ray.cancel(task, force=True)
        self.tasks = {}
        self.ray.shutdown()

    def _outcome(self, task: Any, job: Job) -> Outcome:
        try:
            return Outcome(**self.ray.get(task))
        except self.ray.exceptions.TaskCancelledError:
            return Outcome(job.name, "stopped")
        except self.ray.exceptions.RayTaskError as error:
            return Outcome(job.name, "failed", " ".join(str(error.cause or error).split()))
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().partition("\n")[0]
            return Outcome(job.name, "lost", f"{type(error).__name__}: {reason}")


def run_job(data: dict[str, Any], folder: str) -> dict[str, Any]:
    """What a task does, on whatever node it is; `folder` is what relative paths are relative to."""
    from ray import get_runtime_context

    if os.path.isdir(folder):
        os.chdir(folder)
    job = Job.from_dict(data)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with open(job.log, "a", encoding="utf-8") as log:
        log.write(f"on {gethostname()}, Ray node {get_runtime_context().get_node_id()}\n")
        log.flush()
        with redirect_stdout(log), redirect_stderr(log), log_to(log):
            return vars(perform(job))
