"""Two Ray nodes on one machine: jobs, a node that dies, and what is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray_nodes import ONE_AFTER_THE_OTHER, cluster, kill_node

from twofold.base.errors import UserError
from twofold.jobs import elsewhere
from twofold.jobs.on_ray import RayCluster
from twofold.jobs.running import run_jobs
from twofold.store import alike

from .test_jobs import Silent, content, job, jobs_in, processes_of, run, wait_until

pytest.importorskip("ray", reason="Ray needs the extra `ray`")
pytestmark = ONE_AFTER_THE_OTHER
long = pytest.mark.scale
__all__ = ["cluster"]


def test_jobs_on_two_nodes_equal_jobs_here(cluster: Any, tmp_path: Path) -> None:
    assert run(jobs_in(tmp_path / "calm", 3, 8, 0.0), tmp_path / "calm").done
    folder = tmp_path / "far"
    jobs = jobs_in(folder, 3, 8, 0.0)
    found = run_jobs(jobs, folder, Silent(), limit=2, tick=0.05, launcher=RayCluster(cluster.address, folder))
    assert found.done, [(p.state, p.message) for p in found.jobs]
    assert content(folder) == content(tmp_path / "calm")


@long
def test_jobs_end_in_the_same_bytes_when_a_node_dies(cluster: Any, tmp_path: Path) -> None:
    assert run(jobs_in(tmp_path / "calm", 3, 80, 0.0), tmp_path / "calm").done
    folder = tmp_path / "wild"

    class Killing(Silent):
        left = 1

        def show(self, jobs: Any) -> None:
            if self.left and any(p.step > 20 for p in jobs):
                self.left = 0
                kill_node(cluster)

    jobs = jobs_in(folder, 3, 80, 0.05)
    found = run_jobs(
        jobs, folder, Killing(), limit=2, tick=0.05, launcher=RayCluster(cluster.address, folder)
    )
    assert found.done, [(p.state, p.message) for p in found.jobs]
    assert content(folder) == content(tmp_path / "calm")


@long
def test_a_stop_reaches_the_command(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with RayCluster(cluster.address, tmp_path) as here:
        task = here.start(job(tmp_path, 1, 10_000, 0.02), tmp_path / "logs" / "a.txt")
        wait_until(lambda: (tmp_path / "seed_1" / "metrics.jsonl").exists(), 60)
        task.stop()
        wait_until(lambda: task.code() is not None, 60)
        assert task.code() == 143
        wait_until(lambda: processes_of(tmp_path / "seed_1") == [])


@long
def test_other_versions_are_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "versions", lambda: {"numpy": "0.1"})
    with (
        pytest.raises(UserError, match="install the same versions everywhere"),
        RayCluster(cluster.address, tmp_path),
    ):
        pass


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no Ray cluster at"), RayCluster("127.0.0.1:1", tmp_path):
        pass


@long
def test_a_folder_that_a_node_does_not_see_is_refused(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = elsewhere.write_token
    monkeypatch.setattr(
        elsewhere, "write_token", lambda folder: replace(real(folder), token="of another disk")
    )
    with (
        pytest.raises(UserError, match="does not see the folder of the runs"),
        RayCluster(cluster.address, tmp_path),
    ):
        pass
