"""Rows as Ray actors: the same bytes as in this process, also when an actor is killed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from ray_nodes import ONE_AFTER_THE_OTHER, cluster, kill_node

from twofold.assemble import run_to_end
from twofold.base.errors import MissingPackage, WorldError
from twofold.rows import ray_worker
from twofold.rows import world as making
from twofold.rows.envs import EnvRows
from twofold.rows.ray_worker import _Actor
from twofold.rows.worker import BROKE_CONTRACT, READY, Task
from twofold.rows.workers import WorkerRows
from twofold.settings.config import load
from twofold.store.alike import software
from twofold.store.run import Run

__all__ = ["cluster"]
ROWS = 4
PENDULUM = partial(gymnasium.make, "Pendulum-v1")
SHORT: dict[str, Any] = {
    "trainer.steps": 240,
    "trainer.rows": ROWS,
    "trainer.warmup": 80,
    "trainer.eval_every": 120,
    "trainer.eval_episodes": 1,
    "trainer.test_episodes": 1,
    "trainer.tensorboard": False,
    "replay.batch_size": 16,
}


def test_without_ray_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    resolved = load("td3", "pendulum", **{**SHORT, "trainer.workers": 2, "trainer.engine": "ray"})
    with pytest.raises(MissingPackage, match=r"trainer\.engine=ray needs the package 'ray'"):
        run_to_end(Run.create(tmp_path / "run", resolved, "x"))


def test_rows_are_not_made_on_a_machine_that_is_unlike(tmp_path: Path) -> None:
    here = software()
    task = Task(PENDULUM, (0, 2), False, ())
    other = replace(here, host="head", packages={**here.packages, "numpy": "0.1"})
    said = _Actor(task, other, str(tmp_path)).start()
    assert said.startswith(BROKE_CONTRACT) and b"head 0.1: install the same versions everywhere" in said
    said = _Actor(task, replace(here, host="head", code="0ther"), str(tmp_path)).start()
    assert said.startswith(BROKE_CONTRACT) and b"another twofold" in said


def test_rows_find_files_from_where_the_command_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "seen.py").write_text("")
    task = Task(PENDULUM, (0, 2), False, ("seen.py",))
    assert _Actor(task, software(), str(tmp_path / "given")).start() == READY
    monkeypatch.chdir(tmp_path)
    said = _Actor(task, software(), str(tmp_path / "not there")).start()
    assert said.startswith(BROKE_CONTRACT) and b"seen.py: no such file" in said


def test_ray_without_workers_is_refused() -> None:
    config = load("td3", "pendulum", **{**SHORT, "trainer.engine": "ray"}).config
    with pytest.raises(WorldError, match=r"say how many with trainer\.workers=N"):
        making.make_world(config, purpose="train", rows=ROWS)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    module = pytest.importorskip("ray", reason="Ray needs the extra `ray`")
    yield module
    module.shutdown()


@ONE_AFTER_THE_OTHER
def test_other_versions_and_too_few_processors_are_one_line(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = making.Where(workers=10_000, engine="ray")
    with pytest.raises(WorldError, match=r"trainer\.workers=10000 wants 10000 processors"):
        making.make_rows(PENDULUM, 10_000, where=many)
    here = software()
    monkeypatch.setattr(ray_worker, "software", lambda: replace(here, packages={"numpy": "0.1"}))
    far = WorkerRows(PENDULUM, 1, 1, spawn=making._ray_worker)
    with pytest.raises(WorldError, match="install the same versions everywhere"):
        far.reset(seed=[1], options={"reset_mask": np.ones(1, bool)})


@ONE_AFTER_THE_OTHER
def test_rows_on_ray_equal_rows_here_even_when_actors_are_killed(ray: Any) -> None:
    far = WorkerRows(PENDULUM, ROWS, 2, spawn=making._ray_worker)
    near = EnvRows(PENDULUM, ROWS)
    rng, everyone = np.random.default_rng(0), np.ones(ROWS, bool)
    try:
        for rows in (far, near):
            rows.reset(seed=[1, 2, 3, 4], options={"reset_mask": everyone})
        for step in range(30):
            actions = rng.uniform(-1, 1, (ROWS, 1)).astype(np.float32)
            if step in (3, 4, 17):
                worker = far._workers[step % 2]
                assert worker is not None
                ray.kill(worker._actor)  # type: ignore[attr-defined]
            ours, theirs = far.step(actions), near.step(actions)
            for one, other in zip(ours[:4], theirs[:4], strict=True):
                assert np.array_equal(one, other)
    finally:
        far.close()
        near.close()


@pytest.mark.scale
@ONE_AFTER_THE_OTHER
def test_rows_whose_node_dies_go_on_elsewhere_as_if_nothing_had_been(cluster: Any) -> None:
    import ray

    ray.shutdown()  # of the tests before
    ray.init(address=cluster.address, log_to_driver=False)
    far, near = WorkerRows(PENDULUM, ROWS, 2, spawn=making._ray_worker), EnvRows(PENDULUM, ROWS)
    rng, everyone = np.random.default_rng(0), np.ones(ROWS, bool)
    for rows in (far, near):
        rows.reset(seed=[1, 2, 3, 4], options={"reset_mask": everyone})
    for step in range(12):
        actions = rng.uniform(-1, 1, (ROWS, 1)).astype(np.float32)
        if step == 5:
            cluster.add_node(num_cpus=1)
            kill_node(cluster)
        for one, other in zip(far.step(actions)[:4], near.step(actions)[:4], strict=True):
            assert np.array_equal(one, other)
    far.close()


@pytest.mark.scale
@ONE_AFTER_THE_OTHER
def test_a_run_on_ray_writes_the_bytes_of_a_run_here(ray: Any, tmp_path: Path) -> None:
    def digest(name: str, **more: Any) -> str:
        resolved = load("td3", "pendulum", **SHORT, **more)
        run_to_end(Run.create(tmp_path / name, resolved, "x"))
        names = ("metrics.jsonl", "evaluations.jsonl")
        return hashlib.sha256(b"".join((tmp_path / name / n).read_bytes() for n in names)).hexdigest()

    here = digest("here")
    assert digest("pipes", **{"trainer.workers": 2}) == here
    assert digest("ray", **{"trainer.workers": 2, "trainer.engine": "ray"}) == here
