"""Ask a trained policy: which items now, for this user or for this history, with what it expects and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from twofold.base.errors import UserError
from twofold.learners.nets import Nets
from twofold.learners.td3 import TD3
from twofold.recsys.belief import Belief
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.data import Array, Dataset
from twofold.recsys.item_nets import Chooser, ItemCritic, ItemNetworks
from twofold.recsys.reach import reach_of
from twofold.recsys.seen import Seen
from twofold.recsys.worlds import UsersConfig, make, prepare
from twofold.settings.config import own_settings
from twofold.store.policy_file import LoadedPolicy, load_policy


@dataclass(frozen=True)
class Recommendation:
    """One recommended item."""

    item: int
    name: str
    value: float  # the smaller critic's value of showing it now (discounted, relative to the user's level)
    expected_rating: float  # by the user model and the given history
    reasons: tuple[str, ...]  # the features that lift the expectation most


def _parts(loaded: LoadedPolicy) -> tuple[Nets, Chooser]:
    """What a policy over items is made of."""
    if not isinstance(loaded.learner, TD3) or not isinstance(loaded.learner.networks, ItemNetworks):
        raise UserError(f"{loaded.source} does not choose items")
    return loaded.learner.nets, loaded.learner.networks.chooser


def chooser_of(loaded: LoadedPolicy) -> Chooser:
    """From the actor's point to the item that is shown."""
    return _parts(loaded)[1]


class Recommender:
    """A trained policy with its catalogue, for one user at a time."""

    def __init__(self, loaded: LoadedPolicy, data: Dataset, catalogue: Catalogue) -> None:
        self.loaded, self.data, self.catalogue = loaded, data, catalogue
        self.nets, self.chooser = _parts(loaded)

    def recommend(
        self, history: Sequence[Any] = (), k: int = 10, user: Any = None, repeats: bool = False
    ) -> list[Recommendation]:
        """The k best next items after `history` ([(item, rating), ...] or [item, ...]), best first.

        Items and users are named as in the data file. A user who is not given or not known is treated as an
        average one whom the history tells about. Items of the history are left out unless `repeats`.
        """
        number = self._user(user)
        items, ratings = self._history(history, number)
        obs = self._obs(number, items, ratings, block=len(items) if not repeats else None)
        count = min(k, self.data.items - (0 if repeats else len(set(items))))
        if count < 1:
            raise UserError("the history holds every item: nothing is left to recommend")
        with torch.no_grad():
            point = self.nets.acting(obs)
            found = self._candidates(obs, point, count)
            values = cast(ItemCritic, self.nets.critic.module).of_items(obs, found).amin(dim=0)[0].numpy()
            expected = self.chooser.tables.expected(Seen(obs), found)[0].numpy()
        order = np.argsort(-values, kind="stable")[:count]
        numbers = found[0].numpy()[order]
        level = float(self.catalogue.user_factors[number, 0])
        return [
            Recommendation(int(item), self._name(item), float(values[place]), float(expected[place]) + level,
                           self._reasons(number, int(item)))
            for item, place in zip(numbers, order, strict=True)
        ]  # fmt: skip

    def reachability(self) -> str:
        """Which share of the catalogue the actor can choose at all, and what it cannot."""
        return reach_of(self.chooser).text(self.data.item_titles or self.data.train.item_names)

    def first_items(self) -> Array:
        """The item that the policy shows first to each user [users]."""
        users = self.data.users
        policy = self.loaded.learner.policy(explore=False, rows=users, rng=np.random.default_rng(0))
        world = make(own_settings(UsersConfig, self.loaded.config.env_args), rows=users, purpose="FB")
        obs, _ = world.reset(seed=list(range(users)), options={"reset_mask": np.ones(users, bool)})
        return np.asarray(world.step(policy.act(obs))[4]["item"])

    def _candidates(self, obs: Any, point: Any, count: int) -> Any:
        """At least `count` items, each once: those that the policy re-ranks, and more around the actor's point."""
        chooser = self.chooser
        items = chooser.candidates(Seen(obs), point, max(count, chooser.cfg.rerank))[0]
        return torch.tensor([list(dict.fromkeys(items.tolist()))])

    def _user(self, user: Any) -> int:
        names = self.data.train.user_names
        return names.index(str(user)) if user is not None and str(user) in names else -1

    def _item(self, name: Any) -> int:
        names = self.data.train.item_names
        if str(name) not in names:
            raise UserError(f"no item '{name}' in the catalogue of {len(names)} items")
        return names.index(str(name))

    def _name(self, item: int) -> str:
        titles = self.data.item_titles or self.data.train.item_names
        return titles[item]

    def _history(self, history: Sequence[Any], user: int) -> tuple[list[int], list[float]]:
        """Numbers and ratings; an item without a rating counts as what was expected of it."""
        items, ratings = [], []
        for entry in history:
            name, rating = entry if isinstance(entry, (tuple, list)) else (entry, None)
            item = self._item(name)
            expected = float(self.catalogue.expected(np.array(user), np.array(item)))
            items.append(item)
            ratings.append(expected if rating is None else self._rating(name, rating))
        return items, ratings

    def _rating(self, name: Any, rating: Any) -> float:
        low, high = self.data.low, self.data.high
        if not low <= float(rating) <= high:
            raise UserError(
                f"item '{name}': the rating {rating} is not in {low:g}..{high:g}, the scale of the data"
            )
        return float(rating)

    def _obs(
        self, user: int, items: list[int], ratings: list[float], block: int | None
    ) -> dict[str, torch.Tensor]:
        """The observation that the world would give; only the newest items fit into its history."""
        cfg = own_settings(UsersConfig, self.loaded.config.env_args)
        belief = Belief(self.catalogue, 1)
        belief.reset(np.array([0]))
        seen = np.full((1, max(len(items), 1)), -1)
        for turn, (item, rating) in enumerate(zip(items, ratings, strict=True)):
            belief.see(np.array([user]), np.array([item]), np.array([rating], np.float32), seen)
            seen[0, turn] = item
        size = cfg.max_turn
        items, ratings = items[-(size - 1) :], ratings[-(size - 1) :]
        row, given = np.full((1, size), -1, np.int32), np.zeros((1, size), np.float32)
        row[0, : len(items)], given[0, : len(items)] = items, ratings
        limit = cfg.cool_down if block is None else size
        obs = {"user": np.array([[user]]), "turn": np.array([[len(items)]]), "block": np.array([[limit]]),
               "items": row, "ratings": given}  # fmt: skip
        if belief.width:
            obs["belief"] = belief.mean
        return {key: torch.from_numpy(np.asarray(value)) for key, value in obs.items()}

    def _reasons(self, user: int, item: int) -> tuple[str, ...]:
        """The item's own features, those that this user is expected to like most first."""
        features = self.data.item_features
        if features is None:
            return ()
        taste = self._taste(user)
        own = list(np.flatnonzero(features.values[item]))
        best = sorted(own, key=lambda column: -taste[column])[:3]
        return tuple(f"{features.names[column]} ({taste[column]:+.2f})" for column in best)

    def _taste(self, user: int) -> Array:
        """Expected rating with each feature less that without it [features]."""
        assert self.data.item_features is not None
        expected = self.catalogue.item_factors @ self.catalogue.user_factors[user]
        flags = self.data.item_features.values != 0
        having = flags.sum(axis=0)
        with_it = expected @ flags / np.maximum(having, 1)
        without = expected @ ~flags / np.maximum(len(flags) - having, 1)
        return with_it - without  # type: ignore[no-any-return]


def load_recommender(path: str | Path) -> Recommender:
    """The best policy of a run directory (or a policy file), ready to be asked."""
    loaded = load_policy(path)
    if not isinstance(loaded.config.env_args, UsersConfig):
        raise UserError(f"{path} is not a policy for users (recsys/users)")
    data, _, catalogue = prepare(loaded.config.env_args)
    return Recommender(loaded, data, catalogue)
