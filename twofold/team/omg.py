"""OMG: Q-learning conditioned on the subgoal that the other agents seem to pursue (Yu, Jiang, Lu, NeurIPS 2024).

Words and symbols: g_hat is the subgoal inferred from the history by the CVAE, g_bar the prior's embedding of the
future state that the selector chose, g what the Q network sees. See docs/algorithms/omg.md for the equations.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.device import check_cpu
from twofold.base.errors import ConfigError, UserError
from twofold.base.regular import is_there
from twofold.base.setting import setting, settings
from twofold.core.experience import Array, Obs
from twofold.core.protocols import Metrics, State
from twofold.core.schedules import Schedule
from twofold.settings.registry import learners
from twofold.team.agents import TeamPolicy
from twofold.team.conditioned import (
    ConditionedConfig,
    ConditionedPolicy,
    ConditionedQ,
    History,
    RowBatch,
    rows_of,
    whom,
)
from twofold.team.episodes import Episode
from twofold.team.hits import HitRatio, exists, explained, first_ahead, ratio
from twofold.team.learning import EpisodeLearner, Given, weights_of
from twofold.team.models import (
    ACTIVE,
    Actions,
    Normal,
    Prior,
    SubgoalModel,
    about,
    action_loss,
    divergence,
    improve_prior,
    modelled,
)
from twofold.team.optimise import Weights
from twofold.team.prior import load_prior


@settings
class OMGConfig(ConditionedConfig):
    """Q-learning's settings and those of the subgoal model."""

    prior: str = setting(
        "run directory of the prior (config omg_prior); empty: trained in the first updates here", default=""
    )
    prior_updates: int = setting(
        "the prior is frozen after this many, when it is trained here", default=500, ge=1, unit="updates"
    )
    prior_first: bool = setting(
        "Q sees zeros in place of subgoals until the prior is frozen; needs model_columns=zero", default=False
    )
    obs_is_state: bool = setting(
        "subgoals are about the agent's observations; false: about the global state, known in training alone, and "
        "inferred from observations",
        default=True,
    )
    subgoal_columns: tuple[int, ...] = setting(
        "columns of the state that subgoals are about, for example those of the partner; empty: all",
        default=(),
    )
    selector: Literal["optimistic", "conservative", "first"] = setting(
        "which of the next H states is the subgoal: that of highest value, of lowest (general-sum games), or the first "
        "in which what subgoals are about is there (columns of at least 0), if any",
        default="optimistic",
    )
    horizon: int = setting("H: future states that the selector looks at", default=5, ge=1, unit="steps")
    subgoal_dim: int = setting("columns of a subgoal", default=64, ge=1)
    model_hidden: int = setting("width of the models' encoders and decoders", default=128, ge=1)
    kl_weight: float = setting(
        "weight of the KL terms against mean-square reconstruction", default=1e-2, ge=0
    )
    kl_mean: bool = setting(
        "KL is averaged over the subgoal's columns, as the error is over the state's", default=False
    )
    standardise_states: bool = setting(
        "states minus their mean, over their standard deviation, measured while the prior learns",
        default=False,
    )
    prior_explains: float = setting(
        "share of the states' variance that a frozen prior must explain, or training is refused",
        default=0.0,
        ge=0,
        le=1,
    )
    history_before: bool = setting(
        "the model knows the history up to the step before, so that the subgoal must carry what is new in this one",
        default=False,
    )
    noise: bool = setting(
        "Q and the selector see subgoals drawn from their distributions; false: means", default=True
    )
    action_weight: float = setting(
        "weight of a loss that predicts the others' actions, as iql_am does; 0: none",
        default=0.0,
        ge=0,
    )
    action_from: Literal["subgoal", "history"] = setting(
        "what predicts them: the subgoal, or the history, which Q then sees beside the subgoal",
        default="subgoal",
    )
    mix_start: float = setting("probability of training with the selected subgoal", default=1.0, ge=0, le=1)
    mix_finish: float = setting("final value of that probability", default=0.0, ge=0, le=1)
    mix_updates: float = setting("it falls over this long", default=10_000.0, gt=0, unit="updates")

    def __post_init__(self) -> None:
        if self.prior_first and self.model_columns != "zero":
            raise ConfigError("learner.prior_first=true needs learner.model_columns=zero: Q acts before, too")

    @property
    def embedding(self) -> int:
        """Columns of the history that Q sees beside the subgoal."""
        return self.history if self.action_weight > 0 and self.action_from == "history" else 0

    @property
    def kl_share(self) -> float:
        """The weight of a KL that is summed over the subgoal's columns."""
        return self.kl_weight / (self.subgoal_dim if self.kl_mean else 1)


@learners.register("team/omg", config=OMGConfig)
class OMG(EpisodeLearner):
    """Independent Q-learning with opponents modelled by subgoal inference."""

    def __init__(self, cfg: OMGConfig, **given: Unpack[Given]) -> None:
        super().__init__(**given)
        check_cpu(self.nets.place, "subgoals are learned")
        self.cfg, self.rng, generator = cfg, given["rngs"]["omg"], self.nets.generator
        self._normal = Normal(self.rng)
        state = modelled(self.shape.obs if cfg.obs_is_state else self.shape.state, cfg.subgoal_columns)
        self.q = ConditionedQ(cfg, self.nets, cfg.subgoal_dim + cfg.embedding)
        self.prior = Prior(state, cfg.model_hidden, cfg.subgoal_dim, generator=generator)
        widths = {"history": cfg.history, "hidden": cfg.model_hidden, "size": cfg.subgoal_dim}
        seen = state if cfg.obs_is_state else self.shape.obs
        self.model = SubgoalModel(self.shape.obs, seen, state, **widths, generator=generator)
        self.predict: Actions | None = None
        if cfg.action_weight > 0:
            sizes = cfg.embedding or cfg.subgoal_dim, cfg.model_hidden, *whom(self.shape)
            self.predict = Actions(*sizes, generator=generator)
        together = nn.ModuleList([self.model, *([] if self.predict is None else [self.predict])])
        self.prior_weights: Weights = weights_of(self.prior, cfg, cfg.model_lr)
        self.model_weights = weights_of(together, cfg, cfg.model_lr)
        self.mix = Schedule(cfg.mix_start, cfg.mix_finish, over=cfg.mix_updates, per="update")
        self.hits = HitRatio(cfg.horizon)
        self._history = History(self.model.history)
        self._kept = {"q": self.q, "prior": self.prior_weights}
        self._kept |= {"model": self.model_weights, "hits": self.hits}
        self._acts = {"agent": self.q.agent, "model": self.model, "prior": self.prior}
        self._prior_ready, self._prior_checked = False, cfg.prior_explains == 0

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> OMGPolicy:
        team = self.q.policy(explore=explore, rows=rows, rng=rng)
        if explore and self.cfg.prior and is_there(self.cfg.prior):
            self._need_prior()  # who only acts looks nowhere: a policy file may name any path
        ready = self._need_prior if explore else None
        return OMGPolicy(self.model, self.prior, team, self.cfg, ready=ready)

    def _need_prior(self) -> None:
        """Take the prior of its own run, if there is to be one; whoever only acts needs none."""
        if self.cfg.prior and not self._prior_ready:
            cfg = self.cfg
            load_prior(
                self.prior, Path(cfg.prior), obs_is_state=cfg.obs_is_state, columns=cfg.subgoal_columns
            )
            self._prior_ready = True

    @property
    def _prior_learns(self) -> bool:
        return not self.cfg.prior and self.updates <= self.cfg.prior_updates

    # ---- learning ----

    def learn(self, batch: Episode, steps: int) -> None:
        """Algorithm 1: infer g_hat, select g_bar, mix them to g, improve Q and the inference model."""
        self._need_prior()
        data = rows_of(batch, steps)
        state = self._improve_prior(data.obs if self.cfg.obs_is_state else data.state, data)
        with torch.no_grad():
            mean, log_variance, history = self._infer(data, state)
        noise = self._normal(*mean.shape) * torch.exp(0.5 * log_variance)
        g_hat = mean + noise if self.cfg.noise else mean
        self.q.take(batch, steps)
        beside = torch.tanh(history[..., : self.cfg.embedding])
        step = self._select(torch.cat([g_hat, beside], -1), state, data)
        g_bar, g_bar_log_variance = self._ahead(state, step)
        g = g_hat.clone()
        aimed = (step > 0) * data.mask
        selected = (torch.from_numpy(self.rng.random(step.shape)) < self.mix(self.updates)) & (step > 0)
        g[:-1] = torch.where(selected.unsqueeze(-1), g_bar, g_hat[:-1])
        if self.cfg.prior_first and self._prior_learns:
            g.zero_()  # no gradient reaches the columns' weights, which are zero: Q is IQL until then
        self._metrics |= self.q.improve(data, torch.cat([g, beside], -1), held=self.cfg.subgoal_dim)
        for _ in range(self.cfg.model_updates):
            self._improve_model(state, (g_bar, g_bar_log_variance), aimed, data)
        self._metrics["signal_to_noise"] = ratio(mean[:-1], noise[:-1], data.mask)
        embedded = self._embed(state)
        self._metrics["subgoal_foreseen"] = explained(mean[:-1], g_bar, aimed)
        self._metrics["subgoal_is_now"] = explained(embedded[:-1], g_bar, aimed)
        self.hits.see(mean, embedded, data.mask, self._there(self.prior.original(state)))
        self.q.target.track(self.updates)

    @torch.no_grad()
    def _embed(self, state: Tensor) -> Tensor:
        mean: Tensor = self.prior.encode(state)[0]
        return mean

    def _improve_prior(self, state: Tensor, data: RowBatch) -> Tensor:
        """The states as the models see them, after the prior learned from them, if it still does."""
        state = about(state, self.cfg.subgoal_columns)
        weight = exists(data.mask) * self._there(state)
        learns = self._prior_learns and bool(weight.any())
        if learns and self.cfg.standardise_states:
            self.prior.measure(state, weight)
        seen, weights, kl = self.prior.standardised(state), self.prior_weights, self.cfg.kl_share
        for _ in range(self.cfg.model_updates * learns):
            self._metrics |= improve_prior(weights, self.prior, seen, weight, self._normal, kl)
        if not (self._prior_checked or self._prior_learns) and bool(weight.any()):
            self._check_prior(seen, weight)
        return seen

    @torch.no_grad()
    def _check_prior(self, state: Tensor, mask: Tensor) -> None:
        """Refuse a frozen prior that says too little of the states."""
        self._prior_checked = True
        error, kl, variance = self.prior.loss(state, torch.zeros(*mask.shape, self.prior.size), mask)
        explains, active = float(1 - error / variance.clamp(min=1e-8)), int((kl > ACTIVE).sum())
        if explains < self.cfg.prior_explains:
            raise UserError(
                f"the prior explains {explains:.2f} of the states' variance, {active} of its {self.prior.size} columns "
                f"say something, and learner.prior_explains={self.cfg.prior_explains} is asked for: train it longer, "
                "or lower learner.kl_weight"
            )

    def _infer(self, data: RowBatch, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q_phi(g | history, s) at every step: mean and log variance [T + 1, R, g], history [T + 1, R, h]."""
        history = self._remember(data)
        mean, log_variance = self.model(history, self._sight(state, data))
        return mean, log_variance, history

    def _remember(self, data: RowBatch) -> Tensor:
        """The history that the model knows at every step, [T + 1, R, h]."""
        history = self._history(data, self.shape.limit + 1)
        if not self.cfg.history_before:
            return history
        first = self.model.before(history.new_zeros(*history.shape[1:2], self.cfg.history)).detach()
        return torch.cat([first.unsqueeze(0), history[:-1]])

    def _sight(self, state: Tensor, data: RowBatch) -> Tensor:
        """What the model sees now, beside the history."""
        return state if self.cfg.obs_is_state else data.obs

    def _select(self, inferred: Tensor, state: Tensor, data: RowBatch) -> Tensor:
        """How many steps ahead the subgoal of each step lies, [T, R]; 0: there is none."""
        if self.cfg.selector == "first":
            there = self._there(self.prior.original(state)) & (exists(data.mask) > 0)
            return first_ahead(there, self.cfg.horizon)
        return self._by_value(inferred, state, data)

    def _there(self, state: Tensor) -> Tensor:
        """Which states [..., s], as they were, may be subgoals: where what subgoals are about is there."""
        return (state > (-1e-3 if self.cfg.selector == "first" else -torch.inf)).all(-1)

    @torch.no_grad()
    def _ahead(self, state: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """The prior's mean and log variance of the states that lie as many steps ahead."""
        at = torch.arange(len(step)).unsqueeze(-1) + step
        at = at.unsqueeze(-1).expand(-1, -1, state.shape[-1])
        mean, log_variance = self.prior.encode(state.gather(0, at))
        return mean, log_variance

    @torch.no_grad()
    def _by_value(self, inferred: Tensor, state: Tensor, data: RowBatch) -> Tensor:
        """The best (or worst) of the next H states by V(s_t, g)."""
        steps, sign = len(data.mask), 1.0 if self.cfg.selector == "optimistic" else -1.0
        _, memory = self.q.run(self.q.agent, inferred)
        beside = inferred[:-1, :, self.cfg.subgoal_dim :]
        memory = memory[:-1].clone()
        means, log_variances = self.prior.encode(state)
        avail = data.avail[:-1]
        best, total, count = torch.full(data.mask.shape, -torch.inf), *torch.zeros(2, *data.mask.shape)
        chosen = torch.zeros(data.mask.shape, dtype=torch.int64)
        played = exists(data.mask)
        for k in range(1, self.cfg.horizon + 1):
            ahead = torch.arange(steps).add(k).clamp(max=steps)
            goal = means[ahead]
            if self.cfg.noise:
                goal = goal + torch.exp(0.5 * log_variances[ahead]) * self._normal(*goal.shape)
            q = self.q.peek(self.q.agent, torch.cat([goal, beside], -1), memory, slice(0, steps))
            value = sign * (q * avail).sum(-1) / avail.sum(-1).clamp(min=1)
            there = (played[ahead] > 0) & (torch.arange(steps) + k <= steps).unsqueeze(-1)
            total, count = total + torch.where(there, value, 0.0), count + there
            better = there & (value > best)
            best, chosen = torch.where(better, value, best), torch.where(better, k, chosen)
        told = (count > 1) & (data.mask > 0)
        apart = (best - total / count.clamp(min=1))[told]
        self._metrics["selector_spread"] = apart.mean() if len(apart) else torch.zeros(())
        self._count_steps(chosen, data.mask)
        return chosen

    def _improve_model(
        self, state: Tensor, goal: tuple[Tensor, Tensor], aimed: Tensor, data: RowBatch
    ) -> None:
        """The CVAE: explain s_t by the subgoal, and keep the inferred subgoal near the selected one."""
        played = data.mask > 0
        remembered, seen = self._remember(data)[:-1][played], self._sight(state, data)[:-1][played]
        mean, log_variance = self.model(remembered, seen)
        now, aimed = state[:-1][played], aimed[played]
        there = self._there(self.prior.original(now))
        sampled = mean + self._normal(*mean.shape) * torch.exp(0.5 * log_variance)
        explained = self.model.explain(torch.cat([sampled, remembered], -1)[there])
        error = (explained - now[there]).square().mean(-1).sum() / there.sum().clamp(min=1)
        kl = divergence(mean, log_variance, *(part[played] for part in goal))
        kl = (kl * aimed).sum() / aimed.sum().clamp(min=1)
        loss = error + self.cfg.kl_share * kl
        if self.predict is not None:
            source = torch.tanh(remembered) if self.cfg.embedding else mean
            loss = loss + self.cfg.action_weight * self._foretold(source, data.others[played])
        self.model_weights.zero_grad()
        torch.autograd.backward(loss)
        self._history.backward()
        self._metrics["model_grad_norm"] = self.model_weights.descend()
        self._metrics |= {"reconstruction": error.detach(), "kl": kl.detach()}

    def _foretold(self, seen: Tensor, others: Tensor) -> Tensor:
        """Cross entropy of the others' actions [rows, others] as predicted from columns [rows, size]."""
        assert self.predict is not None
        loss, accuracy = action_loss(self.predict(seen)[None], others[None], torch.ones(1, len(others)))
        self._metrics |= {"model_loss": loss.detach(), "model_accuracy": accuracy}
        return loss

    def _count_steps(self, step: Tensor, mask: Tensor) -> None:
        """Which future step was chosen, as shares."""
        found = (step > 0) & (mask > 0)
        total = found.sum().clamp(min=1)
        for k in range(1, self.cfg.horizon + 1):
            self._metrics[f"chosen_step/{k}"] = ((step == k) & found).sum() / total

    # ---- saying and keeping ----

    def metrics(self) -> Metrics:
        hits = {
            "learner/subgoal_hit_ratio": self.hits.ratio(),
            "learner/subgoal_hit_chance": self.hits.chance(),
        }
        return super().metrics() | hits | {"learner/mix": self.mix(self.updates)}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self._prior_ready = True


class OMGPolicy(ConditionedPolicy):
    """Acts with the subgoal that it infers from what was seen so far; `ready` is called before the first action."""

    def __init__(
        self,
        model: SubgoalModel,
        prior: Prior,
        team: TeamPolicy,
        cfg: OMGConfig,
        *,
        ready: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(model.history, team)
        self.model, self.prior, self.cfg, self._ready = model, prior, cfg, ready

    def act(self, obs: Obs) -> Array:
        if self._ready is not None:
            self._ready()
        return super().act(obs)

    def random(self, obs: Obs) -> Array:
        if self._ready is not None:
            self._ready()
        return super().random(obs)

    def condition(self, seen: Tensor, obs: dict[str, Array]) -> tuple[Tensor, Tensor]:
        now = seen.flatten(0, 1)
        before = self.memory.flatten(0, 1)
        history, memory = self.model.remember(now, before)
        if self.cfg.history_before:
            history = self.model.before(before)
        if self.cfg.obs_is_state:
            now = self.prior.standardised(about(now, self.cfg.subgoal_columns))
        mean, _ = self.model(history, now)
        return torch.cat([mean, torch.tanh(history[..., : self.cfg.embedding])], -1), memory
