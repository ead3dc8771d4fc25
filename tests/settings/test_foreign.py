"""Names that users of SB3, RL Zoo, CleanRL and EPyMARL type."""

from __future__ import annotations

from typing import Any

import pytest

from twofold.base.errors import ConfigError
from twofold.base.names import nearest
from twofold.settings.config import load
from twofold.settings.foreign import HINTS, STANDS_FOR


@pytest.mark.parametrize(
    ("name", "value", "paths"),
    [
        ("total_timesteps", 100, ("trainer.steps",)),
        ("n_timesteps", 100, ("trainer.steps",)),
        ("num_timesteps", 100, ("trainer.steps",)),
        ("learning_rate", 1e-3, ("learner.actor_lr", "learner.critic_lr")),
        ("lr", 1e-3, ("learner.actor_lr", "learner.critic_lr")),
        ("net_arch", (400, 300), ("networks.actor_hidden", "networks.critic_hidden")),
        ("learning_starts", 100, ("trainer.warmup",)),
        ("n_envs", 2, ("trainer.rows",)),
        ("num_envs", 2, ("trainer.rows",)),
        ("eval_freq", 200, ("trainer.eval_every",)),
        ("n_eval_episodes", 3, ("trainer.eval_episodes",)),
        ("save_freq", 300, ("trainer.save_every",)),
        ("env_id", "Hopper-v5", ("env_args.id",)),
        ("policy_frequency", 3, ("learner.policy_delay",)),
        ("exploration_noise", 0.3, ("learner.expl_noise.start",)),
        ("noise_std", 0.3, ("learner.expl_noise.start",)),
        ("target_policy_noise", 0.3, ("learner.policy_noise",)),
        ("target_noise_clip", 0.4, ("learner.noise_clip",)),
    ],
)
def test_a_name_of_another_code_sets_what_it_means(name: str, value: Any, paths: tuple[str, ...]) -> None:
    values = load("td3", "pendulum", **{name: value}).values
    assert [values[path] for path in paths] == [value] * len(paths)


@pytest.mark.parametrize("name", HINTS)
def test_what_has_no_setting_here_is_explained(name: str) -> None:
    try:
        load("td3", "pendulum", **{name: 1})
    except ConfigError as error:
        assert HINTS[name] in str(error) or "must be" in str(error)


def test_every_name_stands_for_settings_of_td3() -> None:
    values = load("td3", "pendulum").values
    for paths in STANDS_FOR.values():
        assert all(path in values or f"{path}.start" in values for path in paths)


def test_a_name_that_a_learner_has_itself_is_its_own() -> None:
    assert load("qmix", "two_step", lr=0.01).values["learner.lr"] == 0.01


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        ("total_timesteps", "start_timesteps"),
        ("learning_rate", "learning_starts"),
        ("lr", "id"),
        ("gymma", "gym"),
        ("learner.lr", "learner.tau"),
        ("ta", "tau"),
    ],
)
def test_no_hint_is_given_below_a_good_similarity(typed: str, known: str) -> None:
    assert nearest(typed, [known]) is None


@pytest.mark.parametrize(
    ("typed", "known"),
    [("gama", "gamma"), ("learner.gama", "learner.gamma"), ("lerner.gamma", "learner.gamma"), ("td4", "td3")],
)
def test_a_slip_gets_its_hint(typed: str, known: str) -> None:
    assert nearest(typed, ["replay", known, "trainer"]) == known
