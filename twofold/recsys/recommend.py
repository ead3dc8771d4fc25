"""Ask a trained policy: which items now, for these users or histories, with what it expects and why.

All that is asked for is in the policy file: no data, no user model, no run directory is looked at.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from twofold.base.errors import UserError
from twofold.learners.nets import Nets
from twofold.learners.td3 import TD3
from twofold.recsys.asking import Changes, Entry, Lists, Question, Recommendation, padded, stretched
from twofold.recsys.belief import Belief
from twofold.recsys.config import UsersConfig
from twofold.recsys.data import Array, Ratings
from twofold.recsys.item_nets import Chooser, ItemNetworks, item_critic
from twofold.recsys.menu import By
from twofold.recsys.quit import window_of
from twofold.recsys.reach import reach_of
from twofold.recsys.seen import Listed, Seen
from twofold.recsys.strangers import Strangers
from twofold.recsys.stream import PairMemory
from twofold.recsys.tables import taken_by
from twofold.settings.config import own_settings
from twofold.store.policy_file import LoadedPolicy, load_policy

log = logging.getLogger("twofold")
_CELLS = 20_000_000  # rows x items that are scored at once


@dataclass(frozen=True)
class _Asked:
    """A question in numbers."""

    user: int  # -1: never seen
    items: list[int]  # of the history, oldest first
    ratings: list[float]
    forbidden: Array  # items that must not be shown
    block: int  # as in the world's observation


def parts_of(loaded: LoadedPolicy) -> tuple[Nets, Chooser]:
    """What a policy over items is made of."""
    if not isinstance(loaded.learner, TD3) or not isinstance(loaded.learner.networks, ItemNetworks):
        raise UserError(f"{loaded.source} does not choose items")
    return loaded.learner.nets, loaded.learner.networks.chooser


class Recommender:
    """A trained policy with its catalogue."""

    def __init__(self, loaded: LoadedPolicy) -> None:
        self.loaded = loaded
        self.nets, self.chooser = parts_of(loaded)
        self.catalogue = self.chooser.tables.catalogue
        self.labels = self.catalogue.labels
        self.settings = own_settings(UsersConfig, loaded.config.env_args)
        items, share = len(self.catalogue.item_vectors), self.settings.close_share
        self.memory = PairMemory(items, share) if self.chooser.tables.remembers else None
        self._gone = np.zeros(0, np.int64)  # items that left the catalogue
        self._rated_since: dict[str, Array] = {}

    # ---- asking ----

    def recommend(
        self,
        history: Sequence[Entry] = (),
        k: int = 10,
        user: str | int | None = None,
        repeats: bool = False,
        rated: bool = False,
        by: By = "policy",
    ) -> list[Recommendation]:
        """The k best next items after `history` ([(item, rating), ...] or [item, ...]), best first.

        Items and users are named as in the data. A user who is not given or not known is an average one whom the
        history tells about. All items of the history are left out unless `repeats`, and those that the user rated
        in the data unless `rated`. `by` names another ranking than the policy's: the highest expected rating, what is
        taken most likely (env_args.reward=taken, both), or what most users rated.
        """
        if user is not None and not self.knows(user):
            log.warning("user '%s' is not in the data: recommended as to an average user", user)
        found = self.answers([Question(user, history, repeats, rated)], k, by)
        if found.items[0, 0] < 0:
            raise UserError("the user has seen every item: nothing is left to recommend")
        return self.described(user, found, 0)

    def recommend_many(
        self,
        users: Sequence[str | int | None],
        k: int = 10,
        histories: Sequence[Sequence[Entry]] | None = None,
        repeats: bool = False,
        rated: bool = False,
        by: By = "policy",
    ) -> Lists:
        """The same for many users at once, as arrays; `histories` goes with `users` row by row."""
        given = histories if histories is not None else [()] * len(users)
        if len(given) != len(users):
            raise UserError(f"{len(users)} users and {len(given)} histories: one for each user is needed")
        rows = zip(users, given, strict=True)
        return self.answers([Question(user, history, repeats, rated) for user, history in rows], k, by)

    def answers(self, questions: Sequence[Question], k: int, by: By = "policy") -> Lists:
        """The k best items for each question."""
        if k < 1:
            raise UserError(f"k must be at least 1, got {k}")
        self.check_ranking(by)
        asked = [self._asked(question) for question in questions]
        size = max(1, min(1000, _CELLS // len(self.catalogue.item_vectors)))
        parts = [self._ranked(asked[start : start + size], k, by) for start in range(0, len(asked), size)]
        if not parts:
            none = np.zeros((0, k), np.float32)
            return Lists(none.astype(np.int64), none, none, np.zeros(0, bool))
        items, values, expected = (np.concatenate(leaves) for leaves in zip(*parts, strict=True))
        return Lists(items, values, expected, np.array([one.user >= 0 for one in asked]))

    def described(self, user: str | int | None, found: Lists, row: int) -> list[Recommendation]:
        """One row of lists in words."""
        taste = self._taste(self._user(user))
        columns = found.items[row].tolist(), found.values[row].tolist(), found.expected[row].tolist()
        return [
            Recommendation(
                item, self._name(item), self.labels.title(item), value, rating, self._reasons(taste, item)
            )
            for item, value, rating in zip(*columns, strict=True)
            if item >= 0
        ]

    def check(self, history: Sequence[Entry]) -> None:
        """Refuse a history with an item that is not in the catalogue or a rating off the scale."""
        self._history(history, -1)

    def check_ranking(self, by: By) -> None:
        """Refuse a ranking that the policy file does not hold."""
        if by == "taken" and self.catalogue.taking is None:
            raise UserError("the policy does not know what users take: train it with env_args.reward=both")

    def saw(self, history: Sequence[Entry], entry: Entry, quit: bool) -> None:
        """An item was shown after a history, and the user stayed or quit: all who share the memory learn from it."""
        if self.memory is not None:
            items, _ = self._history([*history[-self.settings.num_leave_compute :], entry], -1)
            window = np.array([items[:-1]], np.int64).reshape(1, -1)
            self.memory.see(np.array(items[-1:]), window, np.array([quit]))

    def knows(self, user: str | int) -> bool:
        """Whether the user was in the data."""
        return str(user) in self.labels.user_numbers

    def reachability(self) -> str:
        """Which share of the catalogue the actor can choose at all, and what it cannot."""
        return reach_of(self.chooser).text(self.labels.titles or self.labels.items)

    def popularity(self) -> Array:
        """By how many users each item was rated [items]."""
        return np.bincount(self.labels.rated_items, minlength=len(self.catalogue.item_vectors))

    def update(self, today: Ratings) -> Changes:
        """Take over, by name, which items there are today and what users have rated since."""
        ours, theirs = self.labels.item_numbers, set(today.item_names)
        gone = [name for name in self.labels.items if name not in theirs]
        self._gone = np.array([ours[name] for name in gone], np.int64)
        place = np.array([ours.get(name, -1) for name in today.item_names])
        order = np.argsort(today.users, kind="stable")
        edges = np.searchsorted(today.users[order], np.arange(len(today.user_names) + 1))
        rated = place[today.items[order]]
        spans = zip(today.user_names, edges[:-1], edges[1:], strict=True)
        self._rated_since = {name: rated[start:end][rated[start:end] >= 0] for name, start, end in spans}
        return Changes(tuple(name for name in today.item_names if name not in ours), tuple(gone))

    # ---- what is known of who asks ----

    def _user(self, user: str | int | None) -> int:
        return -1 if user is None else self.labels.user_numbers.get(str(user), -1)

    def _item(self, name: str | int | float) -> int:
        number = self.labels.item_numbers.get(str(name))
        if number is None:
            raise UserError(f"no item '{name}' in the catalogue of {len(self.labels.items)} items")
        return number

    def _name(self, item: int) -> str:
        return self.labels.items[item] if self.labels.items else str(item)

    def _history(self, history: Sequence[Entry], user: int) -> tuple[list[int], list[float]]:
        """Numbers and ratings; an item without a rating counts as what was expected of it."""
        items: list[int] = []
        ratings: list[float] = []
        for entry in history:
            name, rating = entry if isinstance(entry, (tuple, list)) else (entry, None)
            items.append(self._item(name))
            ratings.append(math.nan if rating is None else self._rating(name, float(rating)))
        if unrated := [place for place, rating in enumerate(ratings) if math.isnan(rating)]:
            expected = self.catalogue.expected(np.array(user), np.array([items[n] for n in unrated]))
            for place, value in zip(unrated, expected.tolist(), strict=True):
                ratings[place] = value
        return items, ratings

    def _rating(self, name: str | int | float, rating: float) -> float:
        low, high = self.labels.low, self.labels.high
        if not low <= rating <= high:
            raise UserError(
                f"item '{name}': the rating {rating:g} is not in {low:g}..{high:g}, the scale of the data"
            )
        return rating

    def _asked(self, question: Question) -> _Asked:
        """A question in numbers, with all that must not be shown in answer to it."""
        number = self._user(question.user)
        items, ratings = self._history(question.history, number)
        forbidden = [self._gone]
        if question.without:
            forbidden.append(np.array([self._item(name) for name in question.without], np.int64))
        if not question.repeats:
            forbidden.append(np.array(items, np.int64))
        if not question.rated and question.user is not None:
            since = self._rated_since.get(str(question.user), self._gone[:0])
            forbidden += [self.labels.rated(number), since]
        block = self.settings.cool_down if question.repeats else self.settings.max_turn
        return _Asked(number, items, ratings, np.concatenate(forbidden), block)

    # ---- ranking ----

    @torch.no_grad()
    def _ranked(self, asked: list[_Asked], k: int, by: By) -> tuple[Array, Array, Array]:
        """Items, values and expected ratings [n, k] for some questions."""
        users, forbidden = np.array([one.user for one in asked]), padded([one.forbidden for one in asked])
        obs = self._obs(users, asked)
        seen, tables = Seen(obs, forbidden, self._takes(users, asked)), self.chooser.tables
        items, group = self._candidates(seen, k) if by == "policy" else self._listed(seen, k, by)
        found = torch.from_numpy(items)
        values = item_critic(self.nets.critic.module).of_items(seen, found).amin(dim=0).numpy()
        expected = tables.expected(seen, found).numpy() + self.catalogue.user_factors[users, :1]
        expected = expected.clip(self.labels.low, self.labels.high)
        order = np.lexsort((-values, group), axis=-1)[:, :k]
        left = np.take_along_axis(group, order, axis=1) < _NEVER
        return (
            _picked(items, order, left, k, -1),
            _picked(values, order, left, k, 0),
            _picked(expected, order, left, k, 0),
        )

    def _candidates(self, seen: Seen, k: int) -> tuple[Array, Array]:
        """Candidate items [n, c] and the group of each: lower groups are recommended before higher ones.

        Group 0 is what the policy chooses from, so the first item is the one that it would show; the next nearest
        follow in groups of the same size. A longer list so begins with the shorter one.
        """
        cfg, tables = self.chooser.cfg, self.chooser.tables
        point = self.nets.acting(seen)
        nearest = tables.top(seen, point, -(-k // cfg.rerank) * cfg.rerank).numpy()
        group = np.broadcast_to(np.arange(nearest.shape[1]) // cfg.rerank, nearest.shape)
        if cfg.rerank > 1 and (short := self.chooser.shortlist(seen)):
            best = torch.cat(short, dim=1).numpy()
            nearest = np.hstack([best, nearest])
            group = np.hstack([np.zeros(best.shape, np.int64), group])
        refused = _repeated(nearest) | self._blocked(seen, nearest)
        return nearest, np.where(refused, _NEVER, group)

    def _listed(self, seen: Seen, k: int, by: By) -> tuple[Array, Array]:
        """Items [n, c] by another ranking than the policy's, and the place of each in it."""
        if by == "rating":
            items = self.chooser.tables.favourites(seen, k).numpy()
        elif by == "taken" and self.catalogue.taking is not None:
            items = taken_by(seen, self.catalogue.taking)[0]
        else:
            most = k + seen.blocked(len(self.catalogue.item_vectors)).shape[1]
            ranking = np.argsort(-self.popularity(), kind="stable")[:most]
            items = np.tile(ranking, (len(seen), 1))
        places = np.broadcast_to(np.arange(items.shape[1]), items.shape)
        return items, np.where(self._blocked(seen, items), _NEVER, places)

    def _blocked(self, seen: Seen, items: Array) -> Array:
        """Which candidates may not be shown: a catalogue that is nearly used up gives them, too."""
        count = len(self.catalogue.item_vectors)
        mask = np.zeros((len(items), count + 1), bool)
        np.put_along_axis(mask, seen.blocked(count), True, axis=1)
        mask[:, count] = False
        return np.take_along_axis(mask, items, axis=1)

    def _obs(self, users: Array, asked: list[_Asked]) -> dict[str, Array]:
        """The observations that the world would give; only the newest items fit into their histories."""
        size, rows = self.settings.max_turn, len(asked)
        items, ratings = np.full((rows, size), -1, np.int32), np.zeros((rows, size), np.float32)
        turn = np.array([[min(len(one.items), size - 1)] for one in asked], np.int32)
        for row, (one, length) in enumerate(zip(asked, turn[:, 0].tolist(), strict=True)):
            if length:
                items[row, :length], ratings[row, :length] = one.items[-length:], one.ratings[-length:]
        block = np.array([[one.block] for one in asked], np.int32)
        obs = {"user": users[:, None], "turn": turn, "block": block, "items": items, "ratings": ratings}
        if (beliefs := self._beliefs(users, asked)) is not None:
            obs["belief"] = beliefs
        if self.memory is not None:
            rule = self.settings.num_leave_compute, self.settings.quit_rule
            obs["risk"] = self.memory.risk(window_of(items, turn[:, 0], *rule))
        return obs

    def _beliefs(self, users: Array, asked: list[_Asked]) -> Array | None:
        """What each whole history tells about its user [N, b]."""
        belief = Belief(self.catalogue, len(users))
        if not belief.width:
            return None
        told = np.array([row for row, one in enumerate(asked) if one.items], np.int64)
        if not len(told):
            return belief.mean
        some = Belief(self.catalogue, len(told))
        some.reset(np.arange(len(told)))
        # A shorter history goes on with its last item: an item that was seen before tells nothing new.
        items = stretched([asked[row].items for row in told.tolist()]).astype(np.int64)
        ratings = stretched([asked[row].ratings for row in told.tolist()]).astype(np.float32)
        for turn in range(items.shape[1]):
            before = items[:, :turn] if turn else np.full((len(told), 1), -1)
            some.see(users[told], items[:, turn], ratings[:, turn], before)
        belief.mean[told] = some.mean
        return belief.mean

    def _takes(self, users: Array, asked: list[_Asked]) -> Listed | None:
        """What users take, of strangers by what their histories tell; None: all are in the data or tell nothing."""
        told = {row: (one.items, one.ratings) for row, one in enumerate(asked) if one.user < 0 and one.items}
        if self.catalogue.taking is None or not told:
            return None
        return self._strangers.lists(self.catalogue.taking, users, told)

    @cached_property
    def _strangers(self) -> Strangers:
        return Strangers(self.labels, len(self.catalogue.item_vectors))

    # ---- reasons ----

    def _reasons(self, taste: Array, item: int) -> tuple[str, ...]:
        """The item's own features that the user is expected to like, the most liked first."""
        if not len(taste):
            return ()
        own = [column for column in self._columns[item] if taste[column] >= 0.005]  # shown as +0.01
        best = sorted(own, key=lambda column: -taste[column])[:3]
        return tuple(f"{self.labels.feature_names[column]} ({taste[column]:+.2f})" for column in best)

    @cached_property
    def _columns(self) -> list[list[int]]:
        """The features of each item."""
        return [np.flatnonzero(row).tolist() for row in self.labels.features]

    @cached_property
    def _contrast(self) -> Array:
        """Weights [items, features] that make of ratings their mean with a feature less that without it."""
        flags = (self.labels.features != 0).astype(np.float32)
        having = flags.sum(axis=0)
        rest = np.maximum(len(flags) - having, 1)
        return np.asarray(flags / np.maximum(having, 1) - (1 - flags) / rest)

    def _taste(self, user: int) -> Array:
        """Expected rating with each feature less that without it [features]; none where there are no features."""
        if not self.labels.feature_names:
            return np.zeros(0, np.float32)
        expected = self.catalogue.item_factors @ self.catalogue.user_factors[user]
        return np.asarray(expected @ self._contrast)


_NEVER = 1 << 30  # the group of what must not be recommended


def _picked(values: Array, order: Array, left: Array, k: int, blank: int) -> Array:
    """The values in this order [N, k], blank where nothing is left."""
    found: Array = np.full((len(values), k), blank, values.dtype)
    found[:, : order.shape[1]] = np.where(
        left, np.take_along_axis(values, order, axis=1), found[:, : order.shape[1]]
    )
    return found


def _repeated(items: Array) -> Array:
    """Which entries of each row stood further left already: bool [N, c]."""
    order = np.argsort(items, axis=1, kind="stable")
    ranked = np.take_along_axis(items, order, axis=1)
    again = np.zeros(items.shape, bool)
    again[:, 1:] = ranked[:, 1:] == ranked[:, :-1]
    found = np.zeros_like(again)
    np.put_along_axis(found, order, again, axis=1)
    return found


def load_recommender(path: str | Path) -> Recommender:
    """The best policy of a run directory (or a policy file), ready to be asked."""
    loaded = load_policy(path)
    if not isinstance(loaded.config.env_args, UsersConfig):
        raise UserError(f"{path} is not a policy for users (recsys/users)")
    return Recommender(loaded)
