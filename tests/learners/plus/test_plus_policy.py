"""Held exploration noise and normalised observations."""

from __future__ import annotations

import numpy as np
import pytest
from parts import batch
from plus_parts import small_plus

from twofold.learners.plus.policy import HeldNoise


def test_noise_of_length_one_is_the_generator_s_own() -> None:
    noise, rng = HeldNoise(1, np.random.default_rng(0)), np.random.default_rng(0)
    for _ in range(3):
        assert np.array_equal(noise.draw((2, 4)), rng.standard_normal((2, 4), dtype=np.float32))


def test_noise_is_new_every_k_steps_and_normal() -> None:
    noise = HeldNoise(3, np.random.default_rng(0))
    drawn = np.array([noise.draw((1, 1))[0, 0] for _ in range(60_000)])
    assert np.array_equal(np.flatnonzero(np.diff(drawn, prepend=np.inf)), np.arange(0, 60_000, 3))
    assert drawn[::3].std() == pytest.approx(1, abs=0.02)


def test_held_noise_goes_on_from_its_state() -> None:
    one = HeldNoise(16, np.random.default_rng(1))
    for _ in range(40):
        one.draw((3, 2))
    other = HeldNoise(16, np.random.default_rng())
    other.load_state_dict(one.state_dict())
    other.rng.bit_generator.state = one.rng.bit_generator.state
    assert all(np.array_equal(one.draw((3, 2)), other.draw((3, 2))) for _ in range(40))


def test_the_policy_moves_its_actions_by_held_noise() -> None:
    policy = small_plus(expl_noise_hold=4, expl_noise=0.2).policy(
        explore=True, rows=1, rng=np.random.default_rng(0)
    )
    obs = batch(1).obs
    acted = np.array([policy.act(obs)[0, 0] for _ in range(12)]).reshape(3, 4)
    assert (acted == acted[:, :1]).all() and len(set(acted[:, 0])) == 3


def test_every_observation_is_counted_once_and_only_while_exploring() -> None:
    learner = small_plus(normalise_obs=True)
    assert learner.normaliser is not None
    policies = [learner.policy(explore=e, rows=5, rng=np.random.default_rng(0)) for e in (True, False)]
    policies[0].random(batch(5).obs)
    policies[0].act(batch(5, seed=1).obs)
    policies[1].act(batch(5, seed=2).obs)
    assert learner.normaliser.count == 10
    both = np.concatenate([batch(5).obs, batch(5, seed=1).obs])
    assert learner.normaliser.mean == pytest.approx(both.mean(axis=0))


def test_statistics_are_part_of_the_policy() -> None:
    one, other = small_plus(normalise_obs=True), small_plus(normalise_obs=True, seed=1)
    explorer = one.policy(explore=True, rows=5, rng=np.random.default_rng(0))
    explorer.random(3 * batch(5).obs)
    other.load_policy_state(one.policy_state())
    obs = batch(2).obs
    acted = [
        each.policy(explore=False, rows=2, rng=np.random.default_rng(0)).act(obs) for each in (one, other)
    ]
    assert np.array_equal(acted[0], acted[1])
