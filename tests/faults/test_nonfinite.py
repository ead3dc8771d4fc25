"""5. NaN or infinity anywhere stops the run within one update; none reaches a checkpoint; the message says where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from twofold.assemble import assemble
from twofold.base.errors import NonFiniteError
from twofold.core.trainer import Trainer
from twofold.settings import config
from twofold.store.checkpoint import pack
from twofold.store.run import Run


def trainer(folder: Path, **more: Any) -> Trainer:
    resolved = config.load(
        "td3",
        "gym",
        env_args={"id": "Faulty-v0", "kwargs": more},
        networks={"actor_hidden": [8], "critic_hidden": [8]},
        replay={"batch_size": 16, "buffer_size": 300},
        trainer={
            "steps": 300,
            "warmup": 50,
            "eval_every": 300,
            "eval_episodes": 1,
            "save_every": 20,
            "tensorboard": False,
        },
    )
    return assemble(Run.create(folder, resolved, "test")).trainer


def stopped(made: Trainer, message: str) -> dict[str, np.ndarray]:
    """The evidence of a run that must stop with this message and leave only finite checkpoints behind."""
    with pytest.raises(NonFiniteError, match=message) as raised:
        made.train()
    made.keeper.run.close()
    for step in made.keeper.run.checkpoints.steps():
        state, _ = made.keeper.run.checkpoints.read(step)
        for name, array in pack(state)[0].items():
            assert np.isfinite(array).all(), name
    path = re.search(r"in (\S+\.safetensors)", str(raised.value))
    assert path is not None
    return load_file(path[1])


def nan_after(count: int, tensor: torch.Tensor) -> Any:
    """A function that puts a NaN into the tensor at its n-th call."""
    left = [count]

    def call() -> None:
        left[0] -= 1
        if left[0] == 0:
            tensor.view(-1)[0] = torch.nan

    return call


@pytest.mark.parametrize(
    ("fault", "name", "array"), [("nan obs", "obs", "next_obs"), ("inf reward", "reward", "reward")]
)
def test_world_that_returns_nonsense_is_stopped(tmp_path: Path, fault: str, name: str, array: str) -> None:
    import faulty  # noqa: F401  (registers the environment)

    marker = tmp_path / "marker"
    made = trainer(tmp_path / "run", fault=fault, at=33, marker=str(marker))
    collect = made._collect

    def collected() -> None:
        if made.steps == 110:
            marker.touch()
        collect()

    made._collect = collected  # type: ignore[method-assign]
    evidence = stopped(
        made,
        rf"^{name} of row 0 is not finite .* in the world control/gym at step 112;.*Nothing bad was saved",
    )
    assert not np.isfinite(evidence[array]).all()
    assert made.keeper.run.checkpoints.steps() == [100, 80]


def test_action_that_is_not_finite_never_reaches_the_world(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    act, world_step = made.collector.policy.act, made.collector.world.step
    seen: list[Any] = []
    made.collector.policy.act = lambda obs: act(obs) * (np.nan if made.steps >= 70 else 1)  # type: ignore[method-assign]
    made.collector.world.step = lambda a: seen.append(a) or world_step(a)  # type: ignore[method-assign,func-returns-value]
    evidence = stopped(made, "^action of row 0 is not finite .* at step 70;")
    assert np.isnan(evidence["action"]).all()
    assert np.isfinite(np.concatenate(seen)).all()


def test_loss_that_is_not_finite_stops_in_the_same_update(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    update = made.learner.update
    poison = nan_after(31, made.learner.nets.critic.values)

    def updated(batch: Any) -> None:
        poison()
        update(batch)

    made.learner.update = updated  # type: ignore[method-assign]
    evidence = stopped(made, r"^critic loss is not finite .* in update 31 at step 80;")
    assert {"batch.obs", "batch.action", "batch.reward", "batch.next_obs"} <= evidence.keys()
    assert evidence["batch.obs"].shape == (16, 2)


def test_gradient_that_is_not_finite_is_named(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    learner: Any = made.learner
    gradients = learner.engine.critic_gradients
    poison = nan_after(31, learner.nets.critic.grads)

    def wrong(*arguments: Any, **more: Any) -> Any:
        loss = gradients(*arguments, **more)
        poison()
        return loss

    learner.engine.critic_gradients = wrong
    stopped(made, r"^gradient of critic\.\S+ is not finite .* in update 31 at step 80;")


def test_evaluation_that_is_not_finite_never_becomes_the_best_score(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    world = made.evaluations["eval"]
    step = world.step

    def wrong(action: Any) -> Any:
        obs, reward, terminated, truncated, info = step(action)
        return obs, reward * np.nan, terminated, truncated, info

    world.step = wrong  # type: ignore[method-assign]
    stopped(made, "^return is not finite .* in the evaluation 'eval' at step 0")
    assert not (tmp_path / "run" / "best.safetensors").exists()


def test_run_goes_on_from_before_the_nan(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    poison = nan_after(31, made.learner.nets.critic.values)
    update = made.learner.update
    made.learner.update = lambda batch: poison() or update(batch)  # type: ignore[method-assign]
    stopped(made, "critic loss")
    again = trainer(tmp_path / "run")
    again.train()
    again.keeper.run.close()
    assert again.steps == 300
