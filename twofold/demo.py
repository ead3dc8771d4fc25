"""`make demo`: train TD3 on Pendulum, show it against the untrained policy, write a curve and a video."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twofold import api
from twofold.assemble import untrained, world_of
from twofold.base.installing import program
from twofold.base.progress import task, training
from twofold.base.statistics import summary
from twofold.core.evaluate import evaluate
from twofold.core.protocols import Policy
from twofold.core.seeding import final_seeds, generator
from twofold.settings.config import Config
from twofold.show.play import play, side_by_side, viewed_world, write_video
from twofold.store.policy_file import load_policy


def demo(steps: int = 8_000, runs: str = "runs") -> int:
    """One small training from start to picture."""
    print(
        "TD3 learns to swing up and hold a pendulum: best possible return about -150, untrained about -1200."
    )
    trained = api.train(
        "td3",
        "pendulum",
        runs=runs,
        progress=training(),
        trainer={"steps": steps, "test_episodes": 20},
    )
    policy = load_policy(trained.folder)
    learner = untrained(policy.config, policy)
    before, after = (
        who.policy(explore=False, rows=1, rng=generator(0, "demo")) for who in (learner, policy.learner)
    )
    world = world_of(policy, "eval", 1)
    for name, who in (("untrained", before), ("trained", after)):
        score = summary(np.asarray(evaluate(world, who, final_seeds(20))["return"]))
        print(f"{name:<10} return {score['mean']:9.1f} ± {score['std']:.1f}  (20 test episodes)")
    world.close()
    print(f"curve      {trained.folder / 'curve.png'}")
    print(f"video      {_video(policy.config, before, after, trained.folder / 'before_and_after.mp4')}")
    print(f"run        {trained.folder}")
    print(f"try        {program()} play {trained.folder}, or show, eval, export, plot")
    return 0


def _video(config: Config, before: Policy, after: Policy, path: Path) -> str:
    """Untrained on the left, trained on the right; a machine that cannot render gets a sentence."""
    world, cannot = viewed_world(config, "rgb_array")
    if world is None:
        return f"none: rendering is impossible here ({cannot})"
    with task("filming"):
        left, right = (play(world, who, final_seeds(1)[0], frames=True)[0] for who in (before, after))
        world.close()
        return str(write_video(side_by_side(left, right), path, 30))
