"""Embeddings in C: in double against autograd, the same bytes with one thread and two, what it cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from native_parts import double, needs_native
from parts import ACTIONS, OBS, batch
from plus_parts import plus_with

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.learners.config import TD3Config
from twofold.learners.engine import AnyEngine
from twofold.learners.nets import Nets
from twofold.learners.plus.config import PlusConfig
from twofold.learners.plus.fused import FusedSale
from twofold.learners.plus.learner import TD3Plus
from twofold.learners.plus.native import NativeSale, refusal
from twofold.learners.plus.reference import SaleAutograd
from twofold.learners.plus.sale import SaleConfig, SaleNetworks
from twofold.native.library import Library
from twofold.nets.flat import Flat
from twofold.nets.sale import Encoder, SaleActor, SaleCritic

pytestmark = needs_native


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return double(tmp_path_factory.mktemp("native"))


class Doubles(SaleNetworks):
    """Networks of double numbers with an engine that is made here."""

    built: Library

    def encoder(self) -> Encoder:
        return super().encoder().double()

    def actor(self) -> SaleActor:
        return super().actor().double()

    def critic(self) -> SaleCritic:
        return super().critic().double()

    def engine(self, nets: Nets, cfg: TD3Config, rng: np.random.Generator) -> AnyEngine:
        assert isinstance(cfg, PlusConfig)
        encoder = Flat(self.encoder())
        if cfg.engine == "autograd":
            return SaleAutograd(nets, cfg, encoder)
        return NativeSale(nets, cfg, encoder, built=self.built)


def learner(built: Library, networks: dict[str, Any], **settings: Any) -> TD3Plus:
    cfg = SaleConfig(**{"width": 12, "embedding": 5} | networks)
    nets = Doubles(cfg, OBS, ACTIONS, torch.Generator().manual_seed(3))
    nets.built = built
    return plus_with(nets, **{"tau": 1.0, "target_every": 3, **settings})


def after(one: TD3Plus, updates: int, size: int = 16) -> dict[str, Any]:
    for seed in range(updates):
        items = batch(size, seed=seed, terminated=float(seed % 5 == 0))
        one.update(tree.map(lambda leaf: leaf.astype(np.float64), items))
        assert one.first_bad() is None
    return {name: np.asarray(leaf) for name, leaf in tree.items(one.state_dict()) if np.ndim(leaf)}


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest relative to the largest number, of every network and moment."""
    assert ours.keys() == theirs.keys()
    return max(float(np.abs(ours[k] - theirs[k]).max() / (np.abs(theirs[k]).max() + 1e-30)) for k in ours)


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "layer norm, Huber, bounded": (
        {"critic_layer_norm": True, "critic_activation": "relu"},
        {"huber": 0.1, "value_clip": True},
    ),
    "soft targets, averaged": ({}, {"tau": 0.1, "target_every": None, "actor_average": 0.9}),
    "other activations": ({"encoder_activation": "tanh", "actor_activation": "elu"}, {"policy_noise": 0.0}),
    "clipped, decay": ({}, {"grad_clip": 0.1, "weight_decay": 0.1}),
    "wide embedding": ({"width": 7, "embedding": 33}, {}),
    "normalised, priorities": ({}, {"normalise_obs": True, "priority": 0.4, "huber": 1.0}),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("networks", "settings"), OPTIONS.values(), ids=OPTIONS.keys())
def test_a_hundred_updates_equal_those_of_autograd(
    built: Library, networks: dict[str, Any], settings: dict[str, Any], threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    ours = after(learner(built, networks, engine="native", **settings), 100)
    torch.set_num_threads(before)
    theirs = after(learner(built, networks, engine="autograd", **settings), 100)
    assert difference(ours, theirs) < 1e-5
    still = after(learner(built, networks, engine="native", **settings), 0)
    assert difference(still, {name: theirs[name] for name in still}) > 1e-3


@pytest.mark.parametrize("size", [1, 2, 7, 130, 300])
def test_batches_of_any_size_are_served(built: Library, size: int) -> None:
    ours, theirs = (learner(built, {}, engine=engine) for engine in ("native", "autograd"))
    assert difference(after(ours, 4, size), after(theirs, 4, size)) < 1e-9
    assert ours.metrics() == pytest.approx(theirs.metrics(), rel=1e-9)


def test_bytes_are_the_same_with_one_thread_with_two_and_again() -> None:
    found = []
    before = torch.get_num_threads()
    for threads in (1, 2, 2, 1):
        torch.set_num_threads(threads)
        cfg = SaleConfig(width=64, embedding=32, critic_layer_norm=True)
        nets = SaleNetworks(cfg, OBS, ACTIONS, torch.Generator().manual_seed(3))
        one = plus_with(nets, tau=1.0, target_every=3, engine="native", grad_clip=1.0)
        for seed in range(12):
            one.update(batch(192, seed=seed))
        found.append({k: np.asarray(v) for k, v in tree.items(one.state_dict()) if np.ndim(v)})
    torch.set_num_threads(before)
    assert all(tree.equal(found[0], other) for other in found[1:])


def test_what_it_cannot_do_is_refused_by_name_and_left_to_the_fused_engine() -> None:
    cfg = SaleConfig(width=8, embedding=4, encoder_activation="silu")
    nets = SaleNetworks(cfg, OBS, ACTIONS, torch.Generator())
    both = Nets.of(nets.actor(), nets.critic(), averaged=False)
    assert "relu, tanh, elu, not silu" in str(refusal(both))
    assert isinstance(nets.engine(both, PlusConfig(), np.random.default_rng(0)), FusedSale)
    with pytest.raises(ConfigError, match=r"learner\.engine=native has the activations .* use engine=auto"):
        nets.engine(both, PlusConfig(engine="native"), np.random.default_rng(0))
