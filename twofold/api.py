"""What the command line and Python users call: train, resume, evaluate, load."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from twofold.core.errors import CheckpointError, UserError
from twofold.core.evaluate import evaluate, summaries
from twofold.core.seeding import TEST, generator
from twofold.core.trainer import Trainer
from twofold.rows.world import check_world, evaluation_names, make_world
from twofold.settings.config import Resolved, flatten, layers_for, resolve
from twofold.settings.imports import import_user_code
from twofold.show.console import Progress
from twofold.store.files import read_json
from twofold.store.policy_file import LoadedPolicy, load_policy, make_learner
from twofold.store.run import Run

Summary = dict[str, dict[str, float]]


def set_threads(threads: int) -> None:
    """How torch computes; more than one thread pays only on cores that are otherwise idle."""
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(
        True
    )  # moments of silent units decay to denormals, which are a hundred times slower


def build(run: Run, imports: tuple[str, ...] = ()) -> Trainer:
    """All parts of a run from its config."""
    config = run.resolved.config
    set_threads(config.threads)
    world = make_world(config, purpose="train", rows=config.trainer.rows, imports=imports)
    evaluations = {
        name: make_world(config, purpose=name, rows=config.trainer.eval_rows)
        for name in evaluation_names(config.env)
    }
    learner = make_learner(config, world.single_observation_space, world.single_action_space)
    return Trainer(run, learner, world, evaluations)


@dataclass
class Trained:
    """A run that has come to its end."""

    folder: Path
    test: dict[str, Summary] = field(default_factory=dict)

    @cached_property
    def policy(self) -> LoadedPolicy:
        """The best policy by validation."""
        return load_policy(self.folder)

    def evaluate(self, episodes: int = 20, seed: int = TEST + 1_000_000) -> dict[str, Summary]:
        """Scores of the best policy on fresh seeds."""
        return score(self.policy, episodes, seed)


def new_folder(resolved: Resolved, root: Path, config: str | None, env_config: str | None) -> Path:
    """runs/ENV_CONFIG/NAME_seedN_TIME: a new name every time."""
    env = Path(env_config or "default").stem
    name = f"{Path(config or 'default').stem}_seed{resolved.config.seed}_{time.strftime('%Y%m%d-%H%M%S')}"
    folder, n = root / env / name, 1
    while folder.exists():
        n += 1
        folder = root / env / f"{name}_{n}"
    return folder


def train(
    config: str | None = "td3",
    env_config: str | None = "pendulum",
    *,
    run: str | Path | None = None,
    runs: str | Path = "runs",
    imports: tuple[str, ...] = (),
    progress: Progress | None = None,
    on_folder: Callable[[Path], None] | None = None,
    **overrides: Any,
) -> Trained:
    """Train to the end, or go on with a run of the same settings, perhaps for more steps.

    `overrides` are settings such as seed=1.
    """
    import_user_code(imports)
    resolved = resolve(layers_for(config, env_config, flatten(overrides)))
    folder = Path(run) if run else new_folder(resolved, Path(runs), config, env_config)
    return go(Run.create(folder, resolved, shlex.join(sys.argv)), imports, progress, on_folder)


def go(
    run: Run,
    imports: tuple[str, ...] = (),
    progress: Progress | None = None,
    on_folder: Callable[[Path], None] | None = None,
) -> Trained:
    """Lock the run directory, train from where it is to the end, test the best policy, draw the curve."""
    run.lock()
    trainer: Trainer | None = None
    try:
        if run.longer:
            run.keep_config()
        if on_folder:
            on_folder(run.folder)
        if (test := finished(run)) is not None:
            return Trained(run.folder, test)
        trainer = build(run, imports)
        trainer.train(progress)
        from twofold.show.plot import draw_curves

        draw_curves([run.folder], run.folder / "curve.png")
        return Trained(run.folder, trainer.test() if run.resolved.config.trainer.test_episodes else {})
    finally:
        if trainer is not None:
            trainer.collector.world.close()
            for world in trainer.evaluations.values():
                world.close()
        run.close()


def finished(run: Run) -> dict[str, Summary] | None:
    """The test scores of a run that has come to its end, or None; they are the last thing a run writes."""
    steps = run.checkpoints.steps()
    if not (run.folder / "test.json").is_file() or not steps or steps[0] < run.resolved.config.trainer.steps:
        return None
    record = read_json(run.folder / "test.json")
    if not isinstance(record, dict):
        raise CheckpointError(f"{run.folder / 'test.json'} is damaged: remove it to have it made again")
    return {name: scores for name, scores in record.items() if name != "seeds"}


def score(policy: LoadedPolicy, episodes: int, seed: int) -> dict[str, Summary]:
    """A policy's scores in every evaluation world, on `episodes` seeds from `seed` on."""
    if episodes < 1:
        raise UserError(f"the number of episodes must be at least 1, got {episodes}")
    config, found = policy.config, {}
    for name in evaluation_names(config.env):
        world = make_world(config, purpose=name, rows=config.trainer.eval_rows)
        fits(policy, world)
        greedy = policy.learner.policy(explore=False, rows=world.num_envs, rng=generator(0, "evaluation"))
        found[name] = summaries(evaluate(world, greedy, [seed + i for i in range(episodes)]))
        world.close()
    return found


def fits(policy: LoadedPolicy, world: Any) -> None:
    """Refuse a policy that was trained for other shapes than the world's."""
    for kind in ("observation", "action"):
        ours, theirs = getattr(policy, f"{kind}_space"), getattr(world, f"single_{kind}_space")
        if ours.shape != theirs.shape:
            raise UserError(
                f"the policy was trained for {kind}s of shape {ours.shape}, this world has {theirs.shape}: "
                "it is not the world of this policy"
            )


def check_env(
    env_config: str = "gym", *, rows: int = 2, imports: tuple[str, ...] = (), **overrides: Any
) -> list[str]:
    """What is wrong with a world, in words; an empty list if it keeps the contract."""
    import_user_code(imports)
    config = resolve(layers_for(None, env_config, flatten(overrides))).config
    world = make_world(config, purpose="train", rows=rows)
    try:
        return check_world(world)
    finally:
        world.close()
