"""A sweep whose Ray node is killed in the middle makes the choices of one that was left alone, to the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from digest import digest
from jobs.test_jobs import Silent
from ray_nodes import ONE_AFTER_THE_OTHER, cluster, kill_node, only_one_node

from twofold.lab.sweep.phases import Sweep, Swept, Wanted
from twofold.lab.sweep.space import Choice, Space, Span

from ..test_conduct import TINY

pytest.importorskip("optuna", reason="sweeps need the extra `sweep`")
pytest.importorskip("ray", reason="Ray needs the extra `ray`")
pytestmark = [ONE_AFTER_THE_OTHER, pytest.mark.scale]
__all__ = ["cluster"]
AXES = {"learner.gamma": Span(0.9, 0.99, "linear"), "learner.policy_delay": Choice(("1", "2"))}
STEPS = 600


def swept(folder: Path, view: Any, on: str = "here") -> Swept:
    fixed = {**TINY, "trainer.steps": STEPS, "trainer.save_every": 100}
    wanted = Wanted(trials=3, candidates=1, confirm_seeds=1, final_seeds=())
    return Sweep(folder, Space("td3", "pendulum", AXES, fixed), wanted).run(view, jobs=1, on=on)


class Killing(Silent):
    """Kills the only node in the middle of the second trial, when another has come up."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.killed = cluster, 0

    def show(self, jobs: Any) -> None:
        busy = [p for p in jobs if p.state == "running" and 150 < p.step < STEPS]
        if len(jobs) == 2 and busy and not self.killed:
            self.killed = busy[0].step
            self.cluster.add_node(num_cpus=1)
            kill_node(self.cluster)


def test_a_sweep_whose_node_is_killed_makes_the_same_choices_and_bytes(cluster: Any, tmp_path: Path) -> None:
    only_one_node(cluster)
    calm = swept(tmp_path / "calm", Silent())
    killing = Killing(cluster)
    wild = swept(tmp_path / "wild", killing, on=f"ray:{cluster.address}")
    assert killing.killed
    assert wild.trials == calm.trials and all(trial.score is not None for trial in wild.trials)
    assert wild.candidates == calm.candidates and wild.winner is not None
    runs = sorted(
        path.parent.relative_to(tmp_path / "calm") for path in (tmp_path / "calm").rglob("config.json")
    )
    assert len(runs) == 4
    for run in runs:
        assert digest(tmp_path / "wild" / run) == digest(tmp_path / "calm" / run), run
