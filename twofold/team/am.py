"""IQL with agent modelling: the Q network sees an embedding that predicts what the others do (iql_am)."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from twofold.base.setting import setting, settings
from twofold.core.experience import Array
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
from twofold.team.learning import EpisodeLearner, Given, weights_of
from twofold.team.models import ActionModel, action_loss


@settings
class AMConfig(ConditionedConfig):
    """Settings of IQL with a model of the others' actions."""

    embedding: int = setting("columns of the model that the Q network sees", default=64, ge=1)


@learners.register("team/am", config=AMConfig)
class AgentModelling(EpisodeLearner):
    """Independent Q-learning on observations and an embedding trained to predict the others' actions."""

    def __init__(self, cfg: AMConfig, **given: Unpack[Given]) -> None:
        super().__init__(**given)
        self.cfg, shape = cfg, self.shape
        others, choices = whom(shape)
        self.q = ConditionedQ(cfg, self.nets, cfg.embedding)
        sizes = {"history": cfg.history, "size": cfg.embedding}
        self.model = ActionModel(shape.obs, others, choices, **sizes, generator=self.nets.generator)
        self.model_weights = weights_of(self.model, cfg, cfg.model_lr, place=self.nets.place)
        self._history = History(self.model.history)
        self._kept = {"q": self.q, "model": self.model_weights}
        self._acts = {"agent": self.q.agent, "model": self.model}

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> AMPolicy:
        return AMPolicy(self.model, self.q.policy(explore=explore, rows=rows, rng=rng))

    def learn(self, batch: Episode, steps: int) -> None:
        """The model learns to predict, then the Q network learns with its embeddings."""
        data = rows_of(batch, steps, self.nets.place)
        self.q.take(batch, steps)
        for _ in range(self.cfg.model_updates):
            embedding = torch.tanh(self._history(data, self.shape.limit + 1))
            self._improve_model(embedding[:-1], data)
        self._metrics |= self.q.improve(data, embedding.detach(), held=0)
        self.q.target.track(self.updates)

    def _improve_model(self, embedding: Tensor, data: RowBatch) -> None:
        loss, accuracy = action_loss(self.model.predict(embedding), data.others, data.mask)
        self.model_weights.zero_grad()
        torch.autograd.backward(loss)
        self._history.backward()
        self._metrics["model_grad_norm"] = self.model_weights.descend()
        self._metrics |= {"model_loss": loss.detach(), "model_accuracy": accuracy}


class AMPolicy(ConditionedPolicy):
    """Acts with the embedding of what was seen so far."""

    def __init__(self, model: ActionModel, team: TeamPolicy) -> None:
        super().__init__(model.history, team)
        self.model = model

    def condition(self, seen: Tensor, obs: dict[str, Array]) -> tuple[Tensor, Tensor]:
        embedding, memory = self.model(seen.flatten(0, 1), self.memory.flatten(0, 1))
        return embedding, memory
