"""The first stage of OMG: a VAE of the states that come up while the partners play, kept as a run of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np

from twofold.base.device import check_cpu
from twofold.base.errors import CheckpointError
from twofold.base.setting import setting, settings
from twofold.core.protocols import State
from twofold.core.schedules import Schedule
from twofold.settings.registry import learners
from twofold.store.checkpoint import Checkpoints
from twofold.team.agents import TeamPolicy
from twofold.team.conditioned import rows_of
from twofold.team.episodes import Episode
from twofold.team.learning import EpisodeLearner, Given, load_named, named
from twofold.team.models import Normal, Prior, about, improve_prior, modelled
from twofold.team.optimise import Weights


@settings
class PriorConfig:
    """Settings of the prior; the sizes must be those of the OMG run that uses it."""

    obs_is_state: bool = setting(
        "subgoals are about the agent's observations; false: about the global state", default=True
    )
    subgoal_columns: tuple[int, ...] = setting(
        "columns of the state that subgoals are about, for example those of the partner; empty: all",
        default=(),
    )
    subgoal_dim: int = setting("columns of a subgoal", default=64, ge=1)
    model_hidden: int = setting("width of encoder and decoder", default=128, ge=1)
    lr: float = setting("learning rate", default=5e-4, gt=0)
    kl_weight: float = setting("weight of the KL term against mean-square reconstruction", default=1e-2, ge=0)
    kl_mean: bool = setting(
        "KL is averaged over the subgoal's columns, as the error is over the state's", default=False
    )
    standardise_states: bool = setting(
        "states minus their mean, over their standard deviation", default=False
    )


@learners.register("team/prior", config=PriorConfig)
class PriorLearner(EpisodeLearner):
    """Plays at random (its partners play well) and trains the prior of subgoals on the states it meets."""

    def __init__(self, cfg: PriorConfig, **given: Unpack[Given]) -> None:
        super().__init__(**given)
        check_cpu(self.nets.place, "priors are learned")
        self.cfg = cfg
        state = modelled(self.shape.obs if cfg.obs_is_state else self.shape.state, cfg.subgoal_columns)
        self.prior = Prior(state, cfg.model_hidden, cfg.subgoal_dim, generator=self.nets.generator)
        self.agent = self.nets.agent()
        self.weights = Weights(self.prior, cfg.lr)
        self._normal = Normal(given["rngs"]["prior"])
        self._kept = {"prior": self.weights}
        self._acts = {"prior": self.prior}

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> TeamPolicy:
        """Uniform actions; the same ones in every evaluation, so that these can be compared."""
        drawn = rng if explore else np.random.default_rng(0)
        return TeamPolicy(self.nets, self.agent, rows, epsilon=Schedule(1.0), rng=drawn)

    def learn(self, batch: Episode, steps: int) -> None:
        """One step of the VAE."""
        data = rows_of(batch, steps)
        state = about((data.obs if self.cfg.obs_is_state else data.state)[:-1], self.cfg.subgoal_columns)
        if self.cfg.standardise_states:
            self.prior.measure(state, data.mask)
        weight = self.cfg.kl_weight / (self.cfg.subgoal_dim if self.cfg.kl_mean else 1)
        seen = self.prior.standardised(state)
        self._metrics = improve_prior(self.weights, self.prior, seen, data.mask, self._normal, weight)

    def state_dict(self) -> State:
        cfg, kept = self.cfg, {"named_prior": named(self.prior)}
        return (
            super().state_dict()
            | kept
            | {
                "obs_is_state": cfg.obs_is_state,
                "subgoal_columns": list(cfg.subgoal_columns),
            }
        )


def load_prior(prior: Prior, run: Path, *, obs_is_state: bool, columns: tuple[int, ...] = ()) -> None:
    """The prior of a finished `omg_prior` run."""
    found = Checkpoints(run / "checkpoints").look()
    saved = found[1].get("learner") if found is not None and isinstance(found[1], dict) else None
    if not isinstance(saved, dict) or not {"named_prior", "obs_is_state"} <= saved.keys():
        raise CheckpointError(
            f"learner.prior: {run} holds no trained prior (train one with --config=omg_prior)"
        )
    if bool(saved["obs_is_state"]) != obs_is_state:
        raise CheckpointError(
            f"learner.prior: {run} was trained with obs_is_state={bool(saved['obs_is_state'])}, "
            f"this run has obs_is_state={obs_is_state}: they must be the same"
        )
    if (others := tuple(saved.get("subgoal_columns", ()))) != columns:
        raise CheckpointError(
            f"learner.prior: {run} was trained with subgoal_columns={list(others)}, this run has {list(columns)}"
        )
    load_named(prior, saved["named_prior"], "prior")
