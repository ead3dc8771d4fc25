"""IQL with agent modelling: the Q network sees an embedding that predicts what the others do (iql_am)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.errors import ConfigError
from twofold.core.experience import Obs
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.nets import Flat
from twofold.nets.recurrent import Unroll
from twofold.settings.registry import learners
from twofold.team.agents import TeamNetworks, TeamPolicy
from twofold.team.conditioned import ConditionedPolicy, ConditionedQ, RowBatch, rows_of
from twofold.team.episodes import Episode, EpisodeLearner, longest
from twofold.team.learner import QConfig, load_named
from twofold.team.models import ActionModel
from twofold.team.optimise import load_optimiser, make_optimiser


@dataclass(frozen=True)
class AMConfig(QConfig):
    """Q-learning's settings and the model's."""

    embedding: int = 64  # what the Q network sees of the model
    history: int = 96  # memory of the model
    model_lr: float = 5e-4


@learners.register("team/am", config=AMConfig)
class AgentModelling(EpisodeLearner):
    """Independent Q-learning on observations and an embedding trained to predict the others' actions."""

    def __init__(
        self,
        cfg: AMConfig,
        *,
        networks: TeamNetworks,
        observation_space: Any,
        action_space: Any,
        rngs: Generators,
    ) -> None:
        self.cfg, self.nets, self.shape = cfg, networks, networks.shape
        self._spaces = (observation_space, action_space)
        others = self.shape.agents - 1 + self.shape.others
        if others == 0:
            raise ConfigError(
                "agent modelling needs somebody to model: this world has one agent and no partners"
            )
        self.q = ConditionedQ(cfg, networks, cfg.embedding)
        choices = max(self.shape.actions, self.shape.other_actions)
        sizes = {"history": cfg.history, "size": cfg.embedding}
        self.model = ActionModel(self.shape.obs, others, choices, **sizes, generator=networks.generator)
        self.model_flat = Flat(self.model)
        self.model_optimiser = make_optimiser(cfg.optimiser, self.model_flat, cfg.model_lr, cfg.optim_eps)
        self.updates = 0
        self._history: Unroll | None = None
        self._metrics: dict[str, Tensor] = {}

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> AMPolicy:
        epsilon = self.cfg.epsilon if explore else Schedule(self.cfg.evaluation_epsilon)
        return AMPolicy(self.model, TeamPolicy(self.nets, self.q.agent, rows, epsilon=epsilon, rng=rng))

    def update(self, batch: Episode) -> None:
        """The model learns to predict, then the Q network learns with its embeddings."""
        self.updates += 1
        steps = longest(batch.filled)
        data = rows_of(batch, steps, individual=self.cfg.individual_rewards)
        self.q.take(batch, steps)
        self._history, memory = run_history(
            self._history, self.model.history, data.obs, batch.filled.shape[1] + 1
        )
        embedding, _ = self.model(data.obs.flatten(0, 1), memory.flatten(0, 1))
        self._improve_model(embedding.view(steps + 1, -1, self.cfg.embedding)[:-1], data)
        extra = embedding.detach().view(steps + 1, -1, self.cfg.embedding)
        self._metrics |= self.q.improve(data, extra, held=False)
        self.q.track(self.updates)

    def _improve_model(self, embedding: Tensor, data: RowBatch) -> None:
        logits = self.model.logits(embedding)
        error = nn.functional.cross_entropy(logits.flatten(0, 2), data.others.flatten(), reduction="none")
        weight = data.mask.unsqueeze(-1).expand_as(data.others)
        loss = (error.view_as(data.others) * weight).sum() / weight.sum()
        self.model_flat.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._metrics["model_grad_norm"] = self.model_flat.clip_(self.cfg.grad_norm_clip)
        self.model_optimiser.step()
        right = (logits.detach().argmax(-1) == data.others).float()
        self._metrics["model_loss"] = loss.detach()
        self._metrics["model_accuracy"] = (right * weight).sum() / weight.sum()

    def state_dict(self) -> dict[str, Any]:
        return {
            "q": self.q.state_dict(),
            "model": self.model_flat.values.clone(),
            "model_optimiser": dict(self.model_optimiser.state_dict()),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.q.load_state_dict(state["q"])
        self.model_flat.values.copy_(torch.as_tensor(state["model"]))
        load_optimiser(self.model_optimiser, state["model_optimiser"])
        self.updates = int(state["updates"])

    def policy_state(self) -> dict[str, Any]:
        return {"agent": named(self.q.agent), "model": named(self.model)}

    def load_policy_state(self, state: dict[str, Any]) -> None:
        load_named(self.q.agent, state["agent"], "agent")
        load_named(self.model, state["model"], "agent model")


def named(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's parameters by name, for a policy file."""
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def run_history(unroll: Unroll | None, net: Any, obs: Tensor, limit: int) -> tuple[Unroll, Tensor]:
    """The memory before every step of rows [T, R, d]: [T, R, h]. Gradients stop there, step by step."""
    steps, rows = obs.shape[:2]
    if unroll is None or unroll.rows != rows:
        unroll = Unroll(net, limit, rows)
    unroll.x[0, :steps] = obs
    unroll.forward(net, steps)
    return unroll, unroll._hidden[0, :steps, :, :-1].clone()


class AMPolicy(ConditionedPolicy):
    """Acts with the embedding of what was seen so far."""

    def condition(self, seen: Tensor, obs: Obs) -> tuple[Tensor, Tensor]:
        embedding, memory = self.model(seen.flatten(0, 1), self.memory.flatten(0, 1))
        return embedding, memory
