"""Actor and critics over items, and the choice of the item to show: the domain's half of TD3."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.core.protocols import Policy, State
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.config import TD3Config
from twofold.learners.engine import AnyEngine
from twofold.learners.nets import Nets, load_module
from twofold.nets.mlp import MLP, Affine, affine
from twofold.nets.twin import Twin
from twofold.recsys.candidates import Candidates
from twofold.recsys.data import Array
from twofold.recsys.items import CHUNK
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.seen import Derived, Observation, Seen
from twofold.recsys.tables import Tables
from twofold.recsys.trackers import Tracker

STATE: Derived[Tensor] = Derived()
BESIDE: Derived[tuple[Tensor, Tensor, Tensor]] = Derived()
SOFT = 8  # items that a point between items is a mixture of, while the actor learns


class UserState(nn.Module):
    """Who the user is and what the episode was so far: obs -> [B, outputs]."""

    def __init__(self, cfg: ItemNetConfig, tables: Tables, generator: torch.Generator) -> None:
        super().__init__()
        self.cfg, self.tables = cfg, tables
        self.tracker = Tracker(cfg, tables.width, generator)
        self.outputs = self.tracker.outputs + 1 + tables.beliefs + (tables.rank if cfg.user_embedding else 0)

        self.learned = any(True for _ in self.parameters())

    def forward(self, obs: Observation, rng: np.random.Generator | None = None) -> Tensor:
        """With a generator, dropout is drawn from it: only what is being trained on gets one."""
        seen = Seen.of(obs)
        if self.learned:
            return self._state(seen, rng)
        return seen.once(STATE, lambda: self._state(seen, None))

    def _state(self, seen: Seen, rng: np.random.Generator | None) -> Tensor:
        ratings, mask, rest = seen.once(BESIDE, lambda: self._beside(seen))
        vectors = self.tables.window_vectors(seen, self.cfg.window_size).to(self.tables.place)
        return torch.cat([self.tracker.of_present(vectors, ratings, mask, rng), rest], dim=-1)

    def _beside(self, seen: Seen) -> tuple[Tensor, Tensor, Tensor]:
        """The window's ratings relative to the user's level, where it has items, and what is beside the window."""
        last = seen.last(self.cfg.window_size)
        centred = (last.ratings - self.tables.level(seen)) * last.there
        parts = [(seen.turn / seen.items.shape[1]).astype(np.float32)]
        if seen.belief is not None:
            parts.append(seen.belief)
        if self.cfg.user_embedding:
            parts.append(self.tables.factors(seen).numpy())
        rest = np.concatenate(parts, axis=1)
        mask = last.there[:, :, None].astype(np.float32)
        ratings, there, beside = (torch.from_numpy(x).to(self.tables.place) for x in (centred, mask, rest))
        return ratings, there, beside


class ItemActor(nn.Module):
    """obs -> a unit vector in the item space (or a point of [0, 1]^d with `positive_actions`)."""

    def __init__(self, cfg: ItemNetConfig, tables: Tables, generator: torch.Generator) -> None:
        super().__init__()
        self.cfg, self.tables = cfg, tables
        self.state = UserState(cfg, tables, generator)
        inputs = self.state.outputs + (tables.width if cfg.guide else 0)
        self.body = MLP(inputs, cfg.hidden_sizes, tables.width, output="tanh", generator=generator)

    def forward(self, obs: Observation) -> Tensor:
        seen = self.tables.seen(obs)
        state: Tensor = self.state(seen)
        point: Tensor
        if not self.cfg.guide:
            point = self.body(state)
        else:
            towards = self.tables.towards_the_best(seen)
            point = self.body(torch.cat([state, towards], dim=-1)) + towards
        if self.cfg.positive_actions:
            return (point.clamp(-1, 1) + 1) / 2
        return functional.normalize(point, dim=-1)


class ItemCritic(nn.Module):
    """(obs, point) -> the values [2, B] of the item that the point stands for."""

    def __init__(self, cfg: ItemNetConfig, tables: Tables, generator: torch.Generator) -> None:
        super().__init__()
        self.cfg, self.tables = cfg, tables
        self.state = UserState(cfg, tables, generator)
        self.candidates = Candidates(cfg, tables) if cfg.critic_on == "item" else None
        width = tables.width if self.candidates is None else self.candidates.outputs
        self.head = Twin(self.state.outputs, width, cfg.hidden_sizes, generator=generator)
        # Weights [features] that make of an item what a planner would: the networks learn what is missing in it.
        self.prior = None if self.candidates is None else self.candidates.prior()
        if self.prior is not None:
            nn.init.zeros_(cast(Affine, self.head.layers[-1]).matrix)

    def forward(self, obs: Observation, point: Tensor) -> Tensor:
        seen = self.tables.seen(obs)
        features = self._features(seen, point)
        values: Tensor = self.head(self.state(seen), features)
        return values + self.planned(features)

    def first(self, obs: Observation, point: Tensor) -> Tensor:
        """The first critic alone [B]."""
        seen = self.tables.seen(obs)
        features = self._features(seen, point)
        return self.head.first(self.state(seen), features) + self.planned(features)

    def planned(self, features: Tensor) -> Tensor | float:
        """What a planner makes of items with features [..., f] -> [...]; nothing where the critic sees points."""
        return 0.0 if self.prior is None else features @ self.prior.to(features.device)

    def of_items(self, obs: Observation, items: Tensor) -> Tensor:
        """Values of several items per row: items [B, k] -> [2, B, k]."""
        seen = self.tables.seen(obs)
        features = (
            self.tables.vectors(items).to(self.tables.place)
            if self.candidates is None
            else self.candidates(seen, items)
        )
        values = self._joined(self.state(seen), features)
        if self.prior is not None and seen.stays is not None and seen.stays.any():
            # What was learned is how to keep users; of those who cannot leave the planner knows all that counts.
            values = values * torch.from_numpy(1 - seen.stays).to(values)
        return values + self.planned(features)

    def _joined(self, state: Tensor, features: Tensor) -> Tensor:
        """The head for state [B, s] and features [B, k, f]: the state's part of the first layer is done once."""
        first, *rest = (cast(Affine, layer) for layer in self.head.layers)
        sizes = [features.shape[2], state.shape[1], 1]
        for_item, for_state, bias = torch.split(first.matrix, sizes, dim=1)
        shape = (2, *features.shape[:2], first.outputs)
        x = (features.flatten(0, 1) @ for_item).view(shape) + (state @ for_state + bias).unsqueeze(2)
        x = x.flatten(1, 2)
        for layer in rest:
            x = affine(layer.matrix, torch.relu(x))
        return x.view(shape[:3])

    def _features(self, seen: Seen, point: Tensor) -> Tensor:
        """The item's features; for a point between items a soft mixture, through which the gradient flows."""
        if self.candidates is None:
            return point
        soft = point.requires_grad
        scores, items = self.tables.nearest(seen, point, SOFT if soft else 1)
        features: Tensor = self.candidates(seen, items)
        if not soft:
            return features.squeeze(1)
        weights = (self.cfg.sharpness * scores).softmax(dim=-1)
        return (weights.unsqueeze(-1) * features).sum(dim=1)


class Chooser:
    """From the actor's point to the item that is shown, as the vector of that item."""

    def __init__(self, cfg: ItemNetConfig, tables: Tables) -> None:
        self.cfg, self.tables = cfg, tables

    @torch.no_grad()
    def choose(self, obs: Observation, point: Tensor, critic: ItemCritic) -> Tensor:
        """The nearest item that may be shown, or the best of the `rerank` nearest by the smaller critic."""
        if self.cfg.rerank == 1:
            if self.cfg.critic_on == "point":
                return point
            return self.tables.vectors(self.tables.top(self.tables.seen(obs), point, 1)[:, 0])
        items, values = self._ranked(obs, point, critic)
        best = values.amin(dim=0).argmax(dim=1, keepdim=True).cpu()
        return self.tables.vectors(items.gather(1, best)[:, 0])

    @torch.no_grad()
    def values(self, obs: Observation, point: Tensor, critic: ItemCritic) -> Tensor:
        """The critic's values [2, B] of what `choose` would show."""
        if self.cfg.rerank == 1:
            return critic.forward(obs, point)
        _, values = self._ranked(obs, point, critic)
        best = values.amin(dim=0).argmax(dim=1)
        return values[:, torch.arange(len(best), device=best.device), best]

    def _ranked(self, obs: Observation, point: Tensor, critic: ItemCritic) -> tuple[Tensor, Tensor]:
        seen = self.tables.seen(obs)
        items = self.candidates(seen, point, self.cfg.rerank)
        return items, critic.of_items(seen, items)

    def candidates(self, seen: Seen, point: Tensor, nearest: int) -> Tensor:
        """The nearest items to the point, and the shortlist: [B, k], some of them twice."""
        items = self.tables.top(seen, point, nearest)
        if self.cfg.rerank == 1:
            return items
        return torch.cat([items, *self.shortlist(seen)], dim=1)

    def shortlist(self, seen: Seen) -> list[Tensor]:
        """The items of highest expectation, those that risk least for it, and those most likely to be taken."""
        found = [self.tables.favourites(seen, self.cfg.shortlist)] if self.cfg.shortlist else []
        if self.tables.remembers and self.cfg.shortlist:
            found.append(self.tables.safest(seen, self.cfg.shortlist))
        if self.tables.taking is not None:
            found.append(self.tables.likeliest(seen, self.cfg.take_shortlist))
        return found

    def explore(self, obs: dict[str, Array], action: Array, rng: np.random.Generator) -> Array:
        """Now and then, and for each row by itself, a random item."""
        swapped = rng.random(len(action)) < self.cfg.remap_eps
        return np.where(swapped[:, None], self.random(obs, rng), action)

    def random(self, obs: dict[str, Array], rng: np.random.Generator) -> Array:
        """The vector of a random item that may be shown, for each row."""
        count = len(self.tables.item_vectors)
        items = rng.integers(count, size=len(obs["turn"]))
        history, turn = obs["items"], obs["turn"]
        recent = np.arange(history.shape[1]) >= turn - obs["block"]
        for _ in range(20):
            refused = ((history == items[:, None]) & recent).any(axis=1)
            if not refused.any():
                break
            items = np.where(refused, rng.integers(count, size=len(items)), items)
        return np.asarray(self.tables.item_vectors[torch.from_numpy(items)].numpy())


class ItemNetworks(ActorCritic):
    """Actor and critic over items, and the chooser between them."""

    def __init__(
        self,
        cfg: ItemNetConfig,
        observation_space: AnySpace,
        action_space: AnySpace,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.generator, self.action_space = cfg, generator, action_space
        self.tables = Tables.of(action_space, observation_space, CHUNK)
        self.chooser = Chooser(cfg, self.tables)

    def actor(self) -> ItemActor:
        return ItemActor(self.cfg, self.tables, self.generator)

    def critic(self) -> ItemCritic:
        return ItemCritic(self.cfg, self.tables, self.generator)

    def engine(self, nets: Nets, cfg: TD3Config, rng: np.random.Generator) -> AnyEngine:
        """Gradients by hand for these networks; `rng` draws dropout."""
        from twofold.recsys.engine import ItemAutograd, ItemEngine

        self.tables.place = nets.actor.values.device
        if cfg.engine in ("native", "fused"):
            raise ConfigError(f"learner.engine={cfg.engine} needs plain MLPs; use engine=auto")
        if cfg.engine == "autograd" or self.tables.place.type != "cpu":
            return ItemAutograd(nets, cfg, self.chooser)
        return ItemEngine(nets, cfg, self.chooser, rng)

    def policy(
        self, nets: Nets, cfg: TD3Config, *, explore: bool, rows: int, rng: np.random.Generator
    ) -> Policy:
        from twofold.recsys.policy import ItemPolicy

        return ItemPolicy(nets, cfg, self.chooser, explore=explore, rows=rows, rng=rng)

    def policy_state(self, nets: Nets) -> State:
        """The choice asks the critic and the catalogue, too; names let it be read without the data."""
        own = {"critic": nets.critic.module.state_dict(), "chooser": self.tables.state_dict()}
        return super().policy_state(nets) | own

    def load_policy_state(self, nets: Nets, state: State) -> None:
        super().load_policy_state(nets, state)
        load_module(nets.critic.module, state["critic"], "critic")
        self.tables.load_state_dict(state["chooser"])


def item_critic(module: nn.Module) -> ItemCritic:
    """The critic of networks over items as what it is."""
    if not isinstance(module, ItemCritic):
        raise TypeError(f"a critic over items was expected, this is a {type(module).__name__}")
    return module


def item_actor(module: nn.Module) -> ItemActor:
    """The actor of networks over items as what it is."""
    if not isinstance(module, ItemActor):
        raise TypeError(f"an actor over items was expected, this is a {type(module).__name__}")
    return module
