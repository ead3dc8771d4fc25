"""OMG: Q-learning conditioned on the subgoal that the other agents seem to pursue (Yu, Jiang, Lu, NeurIPS 2024).

Words and symbols: g_hat is the subgoal inferred from the history by the CVAE, g_bar the prior's embedding of the
future state that the selector chose, g what the Q network sees. See docs/algorithms/omg.md for the equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from twofold.base.errors import CheckpointError, ConfigError
from twofold.core.experience import Obs
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.nets import Flat
from twofold.nets.recurrent import Unroll
from twofold.settings.registry import learners
from twofold.store.checkpoint import Checkpoints
from twofold.team.agents import TeamNetworks, TeamPolicy
from twofold.team.am import named, run_history
from twofold.team.conditioned import ConditionedPolicy, ConditionedQ, RowBatch, rows_of
from twofold.team.episodes import Episode, EpisodeLearner, longest
from twofold.team.learner import QConfig, load_named
from twofold.team.models import Prior, SubgoalModel, divergence
from twofold.team.optimise import load_optimiser, make_optimiser


@dataclass(frozen=True)
class OMGConfig(QConfig):
    """Q-learning's settings and those of the subgoal model."""

    prior: str = ""  # run directory of the prior (config omg_prior); empty: trained in the first updates here
    prior_updates: int = 500  # updates until the prior is frozen, when it is trained here
    obs_is_state: bool = True  # subgoals are about the agent's observations; False: about the global state
    selector: Literal["optimistic", "conservative"] = "optimistic"  # conservative: for general-sum games
    horizon: int = 5  # H: how many future states the selector looks at
    subgoal_dim: int = 64
    history: int = 96  # memory of the inference model
    model_hidden: int = 128
    model_lr: float = 5e-4
    kl_weight: float = 1e-2  # of the KL terms against mean-square reconstruction
    mix_start: float = 1.0  # probability of training with the selected subgoal ...
    mix_finish: float = 0.0  # ... falling to this
    mix_updates: float = 10_000.0  # ... over so many updates

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon < 1 or self.subgoal_dim < 1:
            raise ConfigError("learner.horizon and learner.subgoal_dim must be at least 1")
        if not (0 <= self.mix_start <= 1 and 0 <= self.mix_finish <= 1):
            raise ConfigError("learner.mix_start and learner.mix_finish are probabilities")


@learners.register("team/omg", config=OMGConfig)
class OMG(EpisodeLearner):
    """Independent Q-learning with opponents modelled by subgoal inference."""

    def __init__(
        self,
        cfg: OMGConfig,
        *,
        networks: TeamNetworks,
        observation_space: Any,
        action_space: Any,
        rngs: Generators,
    ) -> None:
        self.cfg, self.nets, self.shape = cfg, networks, networks.shape
        self._spaces = (observation_space, action_space)
        self.rng = rngs["omg"]
        state = self.shape.obs if cfg.obs_is_state else self.shape.state
        generator = networks.generator
        self.q = ConditionedQ(cfg, networks, cfg.subgoal_dim)
        self.prior = Prior(state, cfg.model_hidden, cfg.subgoal_dim, generator=generator)
        sizes = {"history": cfg.history, "hidden": cfg.model_hidden, "size": cfg.subgoal_dim}
        self.model = SubgoalModel(self.shape.obs, state, **sizes, generator=generator)
        self.prior_flat, self.model_flat = Flat(self.prior), Flat(self.model)
        self.prior_optimiser = make_optimiser(cfg.optimiser, self.prior_flat, cfg.model_lr, cfg.optim_eps)
        self.model_optimiser = make_optimiser(cfg.optimiser, self.model_flat, cfg.model_lr, cfg.optim_eps)
        self.mix = Schedule(cfg.mix_start, cfg.mix_finish, over=cfg.mix_updates, per="update")
        self.updates = 0
        self._prior_ready = False
        if cfg.prior and Path(cfg.prior).exists():
            self._load_prior()
        self._history: Unroll | None = None
        self._metrics: dict[str, Tensor] = {}
        self._seen: tuple[Tensor, Tensor, Tensor] | None = None  # of the last update, for the hit ratio

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> OMGPolicy:
        epsilon = self.cfg.epsilon if explore else Schedule(self.cfg.evaluation_epsilon)
        team = TeamPolicy(self.nets, self.q.agent, rows, epsilon=epsilon, rng=rng)
        return OMGPolicy(self.model, team, obs_is_state=self.cfg.obs_is_state)

    def _load_prior(self) -> None:
        """Take the prior of its own run, refusing one that was trained for other states."""
        load_prior(self.prior, Path(self.cfg.prior), obs_is_state=self.cfg.obs_is_state)
        self._prior_ready = True

    # ---- learning ----

    def update(self, batch: Episode) -> None:
        """Algorithm 1: infer g_hat, select g_bar, mix them to g, improve Q and the inference model."""
        self.updates += 1
        if self.cfg.prior and not self._prior_ready:
            self._load_prior()
        steps = longest(batch.filled)
        data = rows_of(batch, steps, individual=self.cfg.individual_rewards)
        state = data.obs if self.cfg.obs_is_state else data.state
        self._improve_prior(state, data)
        mean, log_variance, history = self._infer(data, state, batch.filled.shape[1] + 1)
        noise = self._normal(mean.shape)
        sampled = mean + noise * torch.exp(0.5 * log_variance)
        g_hat = sampled.detach()
        self.q.take(batch, steps)
        g_bar, g_bar_log_variance, step = self._select(g_hat, state, data)
        g = g_hat.clone()
        selected = torch.from_numpy(self.rng.random(step.shape)) < self.mix(self.updates)
        g[:-1] = torch.where(selected.unsqueeze(-1), g_bar, g_hat[:-1])
        self._metrics |= self.q.improve(data, g, held=True)
        self._improve_model(mean, log_variance, sampled, history, state, (g_bar, g_bar_log_variance), data)
        self._count_steps(step, data.mask)
        self._seen = (mean.detach(), self._embed(state), data.mask)
        self.q.track(self.updates)

    def _normal(self, shape: Any) -> Tensor:
        return torch.from_numpy(self.rng.standard_normal(tuple(shape), np.float32))

    @torch.no_grad()
    def _embed(self, state: Tensor) -> Tensor:
        mean: Tensor = self.prior.encode(state)[0]
        return mean

    def _improve_prior(self, state: Tensor, data: RowBatch) -> None:
        if self.cfg.prior or self.updates > self.cfg.prior_updates:
            return
        metrics = improve_prior(
            self.prior,
            self.prior_flat,
            self.prior_optimiser,
            state[:-1],
            data.mask,
            self._normal,
            self.cfg.kl_weight,
        )
        self._metrics |= metrics

    def _infer(self, data: RowBatch, state: Tensor, limit: int) -> tuple[Tensor, Tensor, Tensor]:
        """q_phi(g | history, s) at every step: mean and log variance [T + 1, R, g], history [T + 1, R, h]."""
        self._history, memory = run_history(self._history, self.model.history, data.obs, limit)
        flat = (t.flatten(0, 1) for t in (data.obs, memory, state))
        shape = data.obs.shape[:2]
        mean, log_variance, history, _ = self.model(*flat)
        return mean.view(*shape, -1), log_variance.view(*shape, -1), history.view(*shape, -1)

    @torch.no_grad()
    def _select(self, g_hat: Tensor, state: Tensor, data: RowBatch) -> tuple[Tensor, Tensor, Tensor]:
        """The best (or worst) of the next H states by V(s_t, g): prior's mean, log variance, and which step."""
        steps, sign = len(data.mask), 1.0 if self.cfg.selector == "optimistic" else -1.0
        _, memory = self.q.run(self.q.agent, g_hat)
        memory = memory[:-1].clone()
        means, log_variances = self.prior.encode(state)
        avail = data.avail[:-1]
        best = torch.full(data.mask.shape, -torch.inf)
        chosen = torch.zeros(data.mask.shape, dtype=torch.int64)
        played = torch.cat(
            [torch.ones_like(data.mask[:1]), data.mask]
        )  # state t exists if step t - 1 was played
        for k in range(1, self.cfg.horizon + 1):
            ahead = torch.arange(steps).add(k).clamp(max=steps)
            mean, spread = means[ahead], torch.exp(0.5 * log_variances[ahead])
            q = self.q.peek(self.q.agent, mean + spread * self._normal(mean.shape), memory, slice(0, steps))
            value = sign * (q * avail).sum(-1) / avail.sum(-1).clamp(min=1)
            exists = (played[ahead] > 0) & (torch.arange(steps) + k <= steps).unsqueeze(-1)
            better = exists & (value > best)
            best, chosen = torch.where(better, value, best), torch.where(better, k, chosen)
        at = (torch.arange(steps).unsqueeze(-1) + chosen).clamp(max=steps)
        at = at.unsqueeze(-1).expand(-1, -1, self.cfg.subgoal_dim)
        return means.gather(0, at), log_variances.gather(0, at), chosen

    def _improve_model(
        self,
        mean: Tensor,
        log_variance: Tensor,
        sampled: Tensor,
        history: Tensor,
        state: Tensor,
        goal: tuple[Tensor, Tensor],
        data: RowBatch,
    ) -> None:
        """The CVAE: explain s_t by the subgoal, and keep the inferred subgoal near the selected one."""
        explained = self.model.explain(torch.cat([sampled, history], -1)[:-1])
        error = (explained - state[:-1]).square().mean(-1)
        kl = divergence(mean[:-1], log_variance[:-1], *goal)
        total = data.mask.sum()
        error, kl = (error * data.mask).sum() / total, (kl * data.mask).sum() / total
        self.model_flat.zero_grad()
        loss: Tensor = error + self.cfg.kl_weight * kl
        loss.backward()  # type: ignore[no-untyped-call]
        self._metrics["model_grad_norm"] = self.model_flat.clip_(self.cfg.grad_norm_clip)
        self.model_optimiser.step()
        self._metrics |= {"reconstruction": error.detach(), "kl": kl.detach()}

    def _count_steps(self, step: Tensor, mask: Tensor) -> None:
        """Which future step was chosen, as shares."""
        found = (step > 0) & (mask > 0)
        total = found.sum().clamp(min=1)
        for k in range(1, self.cfg.horizon + 1):
            self._metrics[f"chosen_step/{k}"] = ((step == k) & found).sum() / total

    def hit_ratio(self) -> float:
        """How often the state of the episode nearest to the inferred subgoal is one of the next H."""
        if self._seen is None:
            return math.nan
        inferred, embedded, mask = self._seen
        steps = len(mask)
        apart = torch.cdist(inferred[:-1].transpose(0, 1), embedded.transpose(0, 1))  # [R, T, T + 1]
        played = torch.cat([torch.ones_like(mask[:1]), mask]).t()
        nearest = apart.masked_fill(played.unsqueeze(1) == 0, torch.inf).argmin(-1)
        offset = nearest - torch.arange(steps)
        hit = ((offset >= 1) & (offset <= self.cfg.horizon)).float() * mask.t()
        return float(hit.sum() / mask.sum())

    # ---- saying and keeping ----

    def metrics(self) -> dict[str, float]:
        more = {"learner/subgoal_hit_ratio": self.hit_ratio(), "learner/mix": self.mix(self.updates)}
        return super().metrics() | more

    def state_dict(self) -> dict[str, Any]:
        return {
            "q": self.q.state_dict(),
            "prior": self.prior_flat.values.clone(),
            "model": self.model_flat.values.clone(),
            "prior_optimiser": dict(self.prior_optimiser.state_dict()),
            "model_optimiser": dict(self.model_optimiser.state_dict()),
            "rng": self.rng.bit_generator.state,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.q.load_state_dict(state["q"])
        self.prior_flat.values.copy_(torch.as_tensor(state["prior"]))
        self.model_flat.values.copy_(torch.as_tensor(state["model"]))
        load_optimiser(self.prior_optimiser, state["prior_optimiser"])
        load_optimiser(self.model_optimiser, state["model_optimiser"])
        self.rng.bit_generator.state = state["rng"]
        self.updates, self._prior_ready = int(state["updates"]), True

    def policy_state(self) -> dict[str, Any]:
        return {"agent": named(self.q.agent), "model": named(self.model), "prior": named(self.prior)}

    def load_policy_state(self, state: dict[str, Any]) -> None:
        load_named(self.q.agent, state["agent"], "agent")
        load_named(self.model, state["model"], "subgoal model")
        load_named(self.prior, state["prior"], "prior")


class OMGPolicy(ConditionedPolicy):
    """Acts with the subgoal that it infers from what was seen so far."""

    def __init__(self, model: SubgoalModel, team: TeamPolicy, *, obs_is_state: bool) -> None:
        super().__init__(model, team)
        self.obs_is_state = obs_is_state

    def condition(self, seen: Tensor, obs: Obs) -> tuple[Tensor, Tensor]:
        state = seen
        if not self.obs_is_state:
            whole = torch.from_numpy(np.ascontiguousarray(obs["state"], np.float32))
            state = whole.expand(len(seen), *whole.shape)
        flat = (t.flatten(0, 1) for t in (seen, self.memory, state))
        mean, _, _, memory = self.model(*flat)
        return mean, memory


def improve_prior(
    prior: Prior, flat: Flat, optimiser: Any, state: Tensor, mask: Tensor, normal: Any, kl_weight: float
) -> dict[str, Tensor]:
    """One step of the VAE on states [T, R, s] of played steps."""
    size = prior.decode.inputs
    error, kl = prior.loss(state, normal((*state.shape[:-1], size)), mask)
    flat.zero_grad()
    (error + kl_weight * kl).backward()  # type: ignore[no-untyped-call]
    norm = flat.clip_(10.0)
    optimiser.step()
    return {"prior_reconstruction": error.detach(), "prior_kl": kl.detach(), "prior_grad_norm": norm}


def load_prior(prior: Prior, run: Path, *, obs_is_state: bool) -> None:
    """The prior of a finished `omg_prior` run."""
    found = Checkpoints(run / "checkpoints").load()
    if found is None or "named_prior" not in found[1]["learner"]:
        raise CheckpointError(
            f"learner.prior: {run} holds no trained prior (train one with --config=omg_prior)"
        )
    saved = found[1]["learner"]
    if bool(saved["obs_is_state"]) != obs_is_state:
        raise CheckpointError(
            f"learner.prior: {run} was trained with obs_is_state={bool(saved['obs_is_state'])}, "
            f"this run has obs_is_state={obs_is_state}: they must be the same"
        )
    load_named(prior, saved["named_prior"], "prior")
