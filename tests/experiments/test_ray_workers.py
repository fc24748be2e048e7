"""Runs as tasks of a real Ray cluster of two nodes, one of which is killed."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pushpop.cli import main
from pushpop.errors import InputError
from pushpop.experiments.presets import Preset, load_preset
from pushpop.experiments.sweep import Job, RayWorkers, SweepView, plan, run_sweep
from pushpop.training import train
from tests.experiments.sweeps import LONG_ENOUGH_TO_BE_KILLED, checkpoints, results, write_preset

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def test_without_ray_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"--ray needs Ray: pip install 'pushpop\[ray\]'"):
        RayWorkers("local")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that takes no tasks, and two nodes of a processor each."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'pushpop[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    # A node gives its dashboard agent 15 seconds to start; the small one is much quicker.
    patch = pytest.MonkeyPatch()
    patch.setattr("ray._private.utils.get_dashboard_dependency_error", lambda: ImportError())
    cluster = Cluster()
    add_node(cluster, num_cpus=0, include_dashboard=False)
    for _ in range(2):
        add_node(cluster, num_cpus=1)
    patch.undo()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def add_node(cluster: Any, **options: Any) -> None:
    """Start a node; Ray gives it 30 seconds, which a busy machine may need several times."""
    for attempt in range(4):
        try:
            cluster.add_node(**options, **ports())
            return
        except Exception as error:
            if "timed out during startup" not in str(error) or attempt == 3:
                raise


def ports() -> dict[str, int]:
    """Free ports for a node: given in advance, it need not wait for its agents to choose them."""
    names = ("metrics_agent", "metrics_export", "runtime_env_agent", "dashboard_agent_listen")
    sockets = [socket.create_server(("", 0)) for _ in names]
    found = {f"{name}_port": s.getsockname()[1] for name, s in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return found


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Preset:
    folder = tmp_path_factory.mktemp("preset")
    return load_preset(write_preset(folder, base={**LONG_ENOUGH_TO_BE_KILLED, "steps": 1000}))


@pytest.fixture(scope="module")
def straight(preset: Preset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of runs that nobody disturbs."""
    folder = tmp_path_factory.mktemp("straight")
    for run in preset.runs:
        train(run.config, folder / run.name)
    return results(folder)


class Disturber(SweepView):
    """Does something once a run has been saved, and notes what happens to runs."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.out, self.run = out, ""
        self.events: list[tuple[str, str]] = []

    def event(self, job: Job, what: str) -> None:
        self.events.append((job.name, what))

    def tick(self) -> None:
        saved = checkpoints(self.out)
        if saved and not self.run:
            self.run = saved[0].parents[1].name
            self.disturb()

    def disturb(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def log(self) -> str:
        return (self.out / "logs" / f"{self.run}.log").read_text()


class NodeKiller(Disturber):
    """Kills the node that the run is on."""

    def __init__(self, out: Path, cluster: Any) -> None:
        super().__init__(out)
        self.cluster = cluster

    def disturb(self) -> None:
        (node,) = (node for node in self.cluster.worker_nodes if node.node_id in self.log())
        self.cluster.remove_node(node, allow_graceful=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_has_every_run_on_the_cluster_saved(
    cluster: Any, preset: Preset, tmp_path: Path
) -> None:
    view = Disturber(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(preset, plan(preset, preset.runs, tmp_path), RayWorkers(cluster.address), view)
    assert "stopped after batch" in view.log()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_on_a_killed_node_goes_on_on_the_other(
    cluster: Any, preset: Preset, straight: dict[str, Any], tmp_path: Path
) -> None:
    view = NodeKiller(tmp_path, cluster)
    jobs = plan(preset, preset.runs, tmp_path)
    run_sweep(preset, jobs, RayWorkers(cluster.address), view)
    assert [job.state for job in jobs] == ["done", "done"]
    assert (view.run, "again") in view.events
    assert view.log().count("Ray node ") >= 2
    assert "resumed after batch" in view.log()
    assert results(tmp_path) == straight


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_runs_on_a_cluster(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    main(["sweep", write_preset(tmp_path), "--out", str(out), "--ray", cluster.address])
    assert "2 of 2 runs finished" in capsys.readouterr().out
    assert sorted(results(out)) == ["copy-queue", "reverse-queue"]
