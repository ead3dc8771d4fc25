"""Held exploration noise and normalised observations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from parts import batch
from plus_parts import small_plus

from twofold.base.errors import ConfigError
from twofold.core.experience import Array, Obs
from twofold.learners.plus.policy import HeldNoise, HopefulNoise
from twofold.learners.policy import Noise


def normal(rng: np.random.Generator) -> Noise:
    return lambda obs, action, sigma: rng.standard_normal(action.shape, dtype=np.float32)


def drawn(noise: HeldNoise, rows: int = 1, size: int = 1) -> Array:
    return noise(np.zeros((rows, 3), np.float32), np.zeros((rows, size), np.float32), np.ones((rows, 1)))


def test_noise_of_length_one_is_new_at_every_step() -> None:
    noise, rng = HeldNoise(1, normal(np.random.default_rng(0))), np.random.default_rng(0)
    for _ in range(3):
        assert np.array_equal(drawn(noise, 2, 4), rng.standard_normal((2, 4), dtype=np.float32))


def test_noise_is_new_every_k_steps_and_normal() -> None:
    noise = HeldNoise(3, normal(np.random.default_rng(0)))
    found = np.array([drawn(noise)[0, 0] for _ in range(60_000)])
    assert np.array_equal(np.flatnonzero(np.diff(found, prepend=np.inf)), np.arange(0, 60_000, 3))
    assert found[::3].std() == pytest.approx(1, abs=0.02)


def test_held_noise_goes_on_from_its_state() -> None:
    rngs = np.random.default_rng(1), np.random.default_rng()
    one, other = (HeldNoise(16, normal(rng)) for rng in rngs)
    for _ in range(40):
        drawn(one, 3, 2)
    other.load_state_dict(one.state_dict())
    rngs[1].bit_generator.state = rngs[0].bit_generator.state
    assert all(np.array_equal(drawn(one, 3, 2), drawn(other, 3, 2)) for _ in range(40))


def wishes(obs: Obs, action: Array) -> Array:
    """Two critics: one values an action near 0.5, the other one near -0.5, by what the observation adds more."""
    assert isinstance(obs, np.ndarray)
    return np.stack([-np.abs(action - 0.5)[:, 0], (obs[:, :1] - np.abs(action + 0.5))[:, 0]])


def test_hopeful_noise_is_the_draw_that_one_of_the_critics_values_most() -> None:
    noise, rng = HopefulNoise(wishes, 64, 1.0, np.random.default_rng(3)), np.random.default_rng(3)
    obs = np.array(
        [[-9.0, 0], [9.0, 0]], np.float32
    )  # the second critic is the hopeful one in the second row
    action, sigma = np.array([[0.1], [0.2]], np.float32), np.array([[0.5], [0.25]], np.float32)
    found = noise(obs, action, sigma)
    draws = rng.standard_normal((2, 64, 1), dtype=np.float32)
    tried = (action[:, None] + sigma[:, None] * draws).clip(-1, 1)[:, :, 0]
    best = [np.abs(tried[0] - 0.5).argmin(), np.abs(tried[1] + 0.5).argmin()]
    assert np.array_equal(found, draws[[0, 1], best])


def test_the_share_that_is_not_chosen_is_the_first_draw() -> None:
    noise, rng = HopefulNoise(wishes, 16, 0.5, np.random.default_rng(3)), np.random.default_rng(3)
    obs, action, sigma = (
        np.full(shape, value, np.float32) for shape, value in (((40, 2), -9), ((40, 1), 0), ((40, 1), 0.5))
    )
    found = noise(obs, action, sigma)
    draws, chosen = rng.standard_normal((40, 16, 1), dtype=np.float32), rng.random(40) < 0.5
    best = np.abs((draws * 0.5).clip(-1, 1)[:, :, 0] - 0.5).argmin(axis=1)
    assert 10 < chosen.sum() < 30
    assert np.array_equal(found, draws[np.arange(40), np.where(chosen, best, 0)])


def test_where_nothing_is_chosen_no_critic_is_asked() -> None:
    def never(obs: Obs, action: Array) -> Array:
        raise AssertionError

    noise = HopefulNoise(never, 4, 1e-9, np.random.default_rng(0))
    found = noise(np.zeros((2, 2), np.float32), np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32))
    assert np.array_equal(found, np.random.default_rng(0).standard_normal((2, 4, 1), dtype=np.float32)[:, 0])


def test_the_learner_s_noise_follows_its_critics() -> None:
    learner = small_plus(expl_noise_draws=50, expl_noise=0.2)
    policy = learner.policy(explore=True, rows=3, rng=np.random.default_rng(0))
    obs, rng = batch(3).obs, np.random.default_rng(0)
    greedy = learner.policy(explore=False, rows=3, rng=np.random.default_rng(0)).act(obs)
    draws = rng.standard_normal((3, 50, greedy.shape[1]), dtype=np.float32)
    tried = torch.from_numpy((greedy[:, None] + np.float32(0.2) * draws).clip(-1, 1))
    for row, acted in enumerate(policy.act(obs)):
        seen = torch.from_numpy(np.repeat(obs[row : row + 1], 50, axis=0))
        with torch.no_grad():
            values = learner.nets.critic.module(seen, tried[row]).amax(dim=0)
        assert np.array_equal(acted, tried[row, int(values.argmax())].numpy())


def test_draws_are_refused_where_the_networks_have_a_policy_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = small_plus(expl_noise_draws=2)
    monkeypatch.setattr(learner.networks, "policy", lambda *_, **__: object())
    with pytest.raises(ConfigError, match="expl_noise_draws do not go with object"):
        learner.policy(explore=True, rows=1, rng=np.random.default_rng(0))


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
