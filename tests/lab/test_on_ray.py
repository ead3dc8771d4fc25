"""Two Ray nodes on one machine: jobs, a node that dies, and what is refused before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twofold.base.errors import UserError
from twofold.lab import elsewhere
from twofold.lab.jobs import run_jobs
from twofold.lab.on_ray import RayCluster

from .test_jobs import Silent, content, job, jobs_in, processes_of, run, wait_until

ray = pytest.importorskip("ray", reason="Ray needs the extra `ray`")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.nodes = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    yield made
    ray.shutdown()
    made.shutdown()


def test_jobs_on_two_nodes_equal_jobs_here_even_when_a_node_dies(cluster: Any, tmp_path: Path) -> None:
    assert run(jobs_in(tmp_path / "calm", 3, 80, 0.0), tmp_path / "calm").done
    folder = tmp_path / "wild"

    class Killing(Silent):
        left = 1

        def show(self, jobs: Any) -> None:
            if self.left and any(p.step > 20 for p in jobs):
                self.left = 0
                cluster.remove_node(cluster.nodes[0], allow_graceful=False)

    jobs = jobs_in(folder, 3, 80, 0.05)
    found = run_jobs(
        jobs, folder, Killing(), limit=2, tick=0.05, launcher=RayCluster(cluster.address, folder)
    )
    assert found.done, [(p.state, p.message) for p in found.jobs]
    assert content(folder) == content(tmp_path / "calm")


def test_a_stop_reaches_the_command(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with RayCluster(cluster.address, tmp_path) as here:
        task = here.start(job(tmp_path, 1, 10_000, 0.02), tmp_path / "logs" / "a.txt")
        wait_until(lambda: (tmp_path / "seed_1" / "metrics.jsonl").exists(), 60)
        task.stop()
        wait_until(lambda: task.code() is not None, 60)
        assert task.code() == 143
        wait_until(lambda: processes_of(tmp_path / "seed_1") == [])


def test_other_versions_are_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "versions", lambda: {"numpy": "0.1"})
    with (
        pytest.raises(UserError, match="install the same versions everywhere"),
        RayCluster(cluster.address, tmp_path),
    ):
        pass


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no Ray cluster at"), RayCluster("127.0.0.1:1", tmp_path):
        pass
