"""1. Every registered learner and world, stopped after every single thing that a run does, ends in the same bytes.

The things are: one step of the world, one update, one evaluation, one log line. After each the run is stopped, saved
and gone on with in new objects, so that every state that a stop can leave behind is resumed from once. Log lines are
due after every step, or, in the cases of the worlds, every seventh step, which falls together with nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from digest import digest
from small_runs import ALGORITHMS, ELSEWHERE, WORLDS, of_algorithm, of_world

from twofold.assemble import Parts, assemble
from twofold.base.signals import Stopped
from twofold.core.trainer import Trainer
from twofold.settings.config import Resolved
from twofold.settings.domains import domains
from twofold.settings.presets import read_yaml
from twofold.settings.registry import learners, worlds
from twofold.store.run import Run

TRAINER: dict[str, Any] = {
    "steps": 12,
    "rows": 2,
    "warmup": 2,
    "updates_per_item": 0.5,
    "eval_every": 6,
    "eval_episodes": 1,
    "eval_rows": 1,
    "finalists": 2,
    "test_episodes": 0,
    "tensorboard": False,
    "save_every": 1_000_000,
    "save_seconds": 1e9,
}
REPLAY = {"batch_size": 2, "buffer_size": 9}  # small enough to be written over
SHORT_EPISODES = {"kwargs": {"max_episode_steps": 5}}
# Worlds whose items are whole episodes, with the steps that a run needs to have a few.
LONG_EPISODES = {"team/skirmish": 100, "team/lbf": 120, "team/goals": 120, "team/mpe": 60, "team/rware": 1100}
SLOW_WORLDS = {"control/walker", "recsys/users", *LONG_EPISODES} | {
    n for n in WORLDS if n.startswith("crystal")
}
SLOW_PARTS = {"td3_crystal_cgcnn", "td3_crystal_quick", "td3_rec_reference"}
# What else of a run keeps something from one step to the next: settings by section, all of TD3 on Pendulum.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "n-step": {"learner": {"n_step": 3}},
    "averaged, Huber": {"learner": {"actor_average": 0.9, "huber": 1.0}},
    "autograd": {"learner": {"engine": "autograd", "policy_delay": 3}},
    "fused": {"learner": {"engine": "fused", "policy_delay": 3}},
    "recent items": {"replay": {"recent_share": 0.5, "recent_items": 3}},
    "steps before ends": {"replay": {"ending_share": 0.5, "ending_steps": 2}, "learner": {"n_step": 2}},
    "episodes cut early": {"trainer": {"early_limit": 3, "early_limit_share": 0.5}},
    "noise by the episode": {"learner": {"expl_noise": {"end": 0.05, "over": 9, "per": "episode"}}},
    "noise drawn, actions held": {"learner": {"expl_noise_drawn": True, "warmup_hold": 3}},
    "decay, floor, repeated actions": {
        "learner": {"lr_decay": {"end": 0.1, "over": 5, "per": "update"}, "reward_floor": -0.1},
        "env_args": {"repeat": 2, "history": 2},
    },
}


def parts_of(name: str) -> tuple[Any, ...]:
    """What an algorithm's preset is put together of: presets of the same parts differ in numbers alone."""
    said = read_yaml(ALGORITHMS[name].path)
    learner, networks = said.get("learner", {}), said.get("networks", {})
    wholes = [learner.get(key) for key in ("name", "mixer", "action_weight", "twin")]
    return *wholes, *(networks.get(key) for key in ("name", "kind", "shared", "tracker"))


def cases() -> list[Any]:
    """Every algorithm; those whose parts an earlier one has already are for the long form."""
    seen, found = set[Any](), []
    for name in ALGORITHMS:
        again = parts_of(name) in seen or name in SLOW_PARTS
        seen.add(parts_of(name))
        found.append(pytest.param(name, marks=[pytest.mark.slow] if again else []))
    return found


def resolved_for(kind: str, name: str, log_every: int) -> Resolved:
    """The settings of a case: an algorithm in a world that fits it, or a world with an algorithm that fits."""
    replay = REPLAY | ({"batch_size": 2, "buffer_size": 2} if name == "coma" else {})
    trainer = TRAINER | {"log_every": log_every}
    if "crystal" in name:  # every reset and step of it takes tens of milliseconds
        trainer |= {"steps": 6, "rows": 1, "updates_per_item": 1, "eval_every": 4}
    if name in LONG_EPISODES:
        steps = LONG_EPISODES[name]
        trainer |= {"steps": steps, "eval_every": steps, "updates_per_item": 1}
    more: dict[str, Any] = {"trainer": trainer, "replay": replay}
    if name == "control/gym" or (kind == "algorithm" and _in_pendulum(name)):
        more["env_args"] = SHORT_EPISODES
    return of_algorithm(name, **more) if kind == "algorithm" else of_world(name, **more)


def _in_pendulum(name: str) -> bool:
    return ALGORITHMS[name].domain == "control" and "hardcore" not in name


def built(folder: Path, resolved: Resolved) -> Parts:
    """All parts anew; the settings are not read again from the run, which is tested elsewhere and takes longest."""
    there = (folder / "config.json").exists()
    return assemble(Run(folder, resolved) if there else Run.create(folder, resolved, "test"))


def trained(folder: Path, resolved: Resolved, prepare: Callable[[Trainer[Any]], Any]) -> bool:
    """Begin or go on in new objects; False if a signal that `prepare` arranges stopped it."""
    parts = built(folder, resolved)
    try:
        prepare(parts.trainer)
        parts.trainer.train()
    except Stopped:
        return False
    finally:
        parts.close()
        parts.keeper.run.close()
    return True


class Things:
    """Counts what a run does: steps, updates, evaluations, log lines; stops it by a signal after the n-th.

    An evaluation at a step that is not in `evaluated` is stopped in its middle, and the step is noted.
    """

    def __init__(self, trainer: Trainer[Any], stop_after: int = 0, evaluated: set[int] | None = None) -> None:
        self.trainer, self.count, self.stop_after, self.evaluated = trainer, 0, stop_after, evaluated
        for name in ("_collect", "_evaluate", "_log"):
            setattr(trainer, name, self._counted(getattr(trainer, name)))
        trainer.learner.update = self._counted(trainer.learner.update)  # type: ignore[method-assign]
        for world in trainer.evaluations.values():
            world.step = self._signalled(world.step)  # type: ignore[method-assign]

    def _counted(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any) -> Any:
            found = work(*arguments)
            self.count += 1
            if self.count == self.stop_after:
                self.trainer.stop.received = 15
            return found

        return done

    def _signalled(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any) -> Any:
            if self.evaluated is not None and self.trainer.steps not in self.evaluated:
                self.evaluated.add(self.trainer.steps)
                self.trainer.stop.received = 15
            return work(*arguments)

        return done


def same_after_all_stops(tmp_path: Path, resolved: Resolved) -> None:
    """Once straight; once stopped after one thing, gone on with in new objects, stopped after one thing, ..."""
    straight: list[Things] = []
    assert trained(tmp_path / "straight", resolved, lambda trainer: straight.append(Things(trainer)))
    folder, stops, evaluated = tmp_path / "stopped", 0, set[int]()
    while not trained(folder, resolved, lambda trainer: Things(trainer, 1, evaluated)):
        stops += 1
    assert straight[0].trainer.learner.updates >= 2
    assert (
        straight[0].count <= stops <= straight[0].count + len(evaluated)
    )  # some are too short to be interrupted
    assert digest(folder) == digest(tmp_path / "straight")


def test_every_registered_learner_and_world_is_stopped_here() -> None:
    """The presets are every domain's own, so a learner without one is noticed here."""
    used = {parts_of(name)[0] or "td3" for name in ALGORITHMS}
    assert {name for name in learners.names() if "/" not in name or name.split("/")[0] in domains()} <= used
    ours = {name for name in worlds.names() if name.split("/")[0] in domains()}
    assert ours == WORLDS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", cases())
def test_a_learner_stopped_after_everything_it_does_ends_in_the_same_bytes(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a user model that is fitted first is kept beside the runs
    same_after_all_stops(tmp_path, resolved_for("algorithm", name, 1))


@pytest.mark.parametrize("name", ["td3", "iql_omg"])
def test_saving_at_any_time_changes_nothing(tmp_path: Path, name: str) -> None:
    """Checkpoints by the clock come at other steps when the machine is busy."""
    resolved = resolved_for("algorithm", name, 1)
    assert trained(tmp_path / "straight", resolved, Things)
    parts = built(tmp_path / "saved", resolved)
    parts.keeper._due = lambda step: True  # type: ignore[method-assign]
    parts.trainer.train()
    parts.close()
    assert digest(tmp_path / "saved") == digest(tmp_path / "straight")


@pytest.mark.parametrize("name", VARIANTS)
def test_whatever_a_setting_makes_a_run_remember_is_in_its_state(tmp_path: Path, name: str) -> None:
    trainer = TRAINER | {"log_every": 1} | VARIANTS[name].get("trainer", {})
    args = VARIANTS[name].get("env_args", {}) | SHORT_EPISODES
    more = VARIANTS[name] | {"trainer": trainer, "env_args": args}
    more["replay"] = REPLAY | VARIANTS[name].get("replay", {})
    same_after_all_stops(tmp_path, of_algorithm("td3", **more))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW_WORLDS else []) for n in WORLDS]
)
def test_a_world_whose_run_is_stopped_after_everything_ends_in_the_same_bytes(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    same_after_all_stops(tmp_path, resolved_for("world", name, 7))
