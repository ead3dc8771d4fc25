"""The catalogue as tensors, shared by all networks, and look-ups over it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.core.protocols import State
from twofold.recsys.catalogue import Catalogue, ItemSpace
from twofold.recsys.data import Array
from twofold.recsys.items import largest
from twofold.recsys.labels import Labels
from twofold.recsys.seen import Derived, Listed, Observation, Seen
from twofold.recsys.taking import Taking
from twofold.store.spaces import SizedBox

FACTORS: Derived[Tensor] = Derived()
PERSON: Derived[Tensor] = Derived()
WINDOW_VECTORS: Derived[Tensor] = Derived()
FAVOURITES: Derived[Tensor] = Derived()
TOWARDS: Derived[Tensor] = Derived()
SAFEST: Derived[Array] = Derived()
NOW: Derived[Array] = Derived()

_NAMES = ("item_vectors", "user_factors", "item_factors", "belief_factors")
SHARPNESS = 8.0  # of the guide: how much more an item counts that is expected a point higher


class Part(NamedTuple):
    """Items start..start + size of the catalogue, and after them one item of zeros that stands for none."""

    start: int
    size: int
    vectors: Tensor  # [size + 1, d]
    transposed: Tensor  # [d, size + 1]
    relative: Tensor  # [r + b, size + 1]: makes expected ratings of a `person`, times the guide's sharpness


class Tables:
    """Fixed tensors: never trained, never copied with a network, saved once with the policy."""

    def __init__(self, known: Catalogue, chunk: int, told: Collection[str]) -> None:
        tables = [torch.from_numpy(array) for array in (known.item_vectors, known.user_factors)]
        self.item_vectors, self.user_factors = tables
        self.item_factors = torch.from_numpy(known.item_factors)
        self.belief_factors = torch.from_numpy(known.belief_factors)
        self.belief_noise, self.labels, self.taking = known.belief_noise, known.labels, known.taking
        self.place = torch.device(
            "cpu"
        )  # where the networks live that read what is looked up here, on the CPU
        self.remembers = (
            "risk" in told
        )  # observations hold the risk of every item, by a memory that users share
        # Policies of before observations said who cannot leave: their critics learned ratings from nothing.
        self.starts = "stays" in told
        self.chunk = chunk  # items looked at together; bounds memory for large catalogues
        self._seen: list[Seen] = []  # of the last two batches, s and s' of one update
        self._parts: tuple[int, list[Part]] = (0, [])
        self._joined: Tensor | None = None
        self._padded: Tensor | None = None

    def seen(self, obs: Observation) -> Seen:
        """What is derived from an observation: made once for all networks that look at the same batch."""
        if isinstance(obs, Seen):
            return obs
        for known in self._seen:
            if known.obs is obs:
                return known
        self._seen = [Seen(obs), *self._seen[:1]]
        return self._seen[0]

    @classmethod
    def of(cls, action_space: AnySpace, observation_space: AnySpace, chunk: int) -> Tables:
        """From the catalogue of a world's action space; blank ones of its sizes where a policy file will fill them."""
        told = observation_space.spaces if isinstance(observation_space, gym.spaces.Dict) else ()
        if isinstance(action_space, ItemSpace):
            return cls(action_space.catalogue, chunk, told)
        if not isinstance(action_space, SizedBox) or not isinstance(observation_space, gym.spaces.Dict):
            raise ConfigError("the networks 'recsys/items' need a world of users (env: recsys/users)")
        users, items, rank = (action_space.sizes[name] for name in ("users", "items", "rank"))
        beliefs = observation_space.spaces["belief"].shape if "belief" in observation_space.spaces else None
        shapes = (
            (items, action_space.shape[0]),
            (users + 1, rank),
            (items, rank),
            (items, *(beliefs or (0,))),
        )
        # Torch's zeros, so that a limit on what a file may ask for sees them.
        vectors, user, item, belief = (torch.zeros(shape).numpy() for shape in shapes)
        takes = torch.zeros(users + 1, action_space.sizes.get("takes", 0)).numpy()
        taking = Taking(takes.astype(np.int64), takes) if takes.shape[1] else None
        return cls(Catalogue(vectors, user, item, belief, 1.0, taking=taking), chunk, told)

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue again, on the same memory."""
        factors = self.user_factors.numpy(), self.item_factors.numpy(), self.belief_factors.numpy()
        return Catalogue(self.item_vectors.numpy(), *factors, self.belief_noise, self.labels, self.taking)

    def __deepcopy__(self, memo: dict[int, object]) -> Tables:
        return self

    @property
    def width(self) -> int:
        return self.item_vectors.shape[1]

    @property
    def rank(self) -> int:
        return self.user_factors.shape[1]

    @property
    def beliefs(self) -> int:
        return self.belief_factors.shape[1]

    def parts(self) -> list[Part]:
        """The catalogue in pieces of at most `chunk` items, laid out for products."""
        if self._parts[0] != self.chunk:
            starts = range(0, self.item_vectors.shape[0], self.chunk)
            self._parts = self.chunk, [self._part(start) for start in starts]
        return self._parts[1]

    def _part(self, start: int) -> Part:
        some = slice(start, start + self.chunk)
        vectors = functional.pad(self.item_vectors[some], (0, 0, 0, 1))
        relative = functional.pad(SHARPNESS * self.joined[some, self.width :], (0, 0, 0, 1))
        return Part(start, len(vectors) - 1, vectors, vectors.T.contiguous(), relative.T.contiguous())

    @property
    def joined(self) -> Tensor:
        """For each item its vector, its factors less the user's level, and those of the belief: [items, d + r + b]."""
        if self._joined is None:
            self._joined = torch.cat([self.item_vectors, self.item_factors, self.belief_factors], dim=1)
            self._joined[:, self.width] -= 1.0  # a user's level is the first factor
        return self._joined

    @property
    def padded(self) -> Tensor:
        """The item vectors, and zeros that stand for none [items + 1, d]."""
        if self._padded is None:
            self._padded = functional.pad(self.item_vectors, (0, 0, 0, 1))
        return self._padded

    # ---- users ----

    def factors(self, seen: Seen) -> Tensor:
        """The users' factors [B, r]; user -1 is one never seen, the last row."""

        def looked_up() -> Tensor:
            users = self.user_factors.numpy()
            return torch.from_numpy(users[seen.user[:, 0]])

        return seen.once(FACTORS, looked_up)

    def level(self, seen: Seen) -> Array:
        """What these users give on average [B, 1]."""
        return self.factors(seen).numpy()[:, :1]

    def person(self, seen: Seen) -> Tensor:
        """All that is expected of a user: factors and what the episode told [B, r + b]."""

        def made() -> Tensor:
            factors = self.factors(seen)
            return factors if seen.belief is None else torch.cat([factors, _tensor(seen.belief)], dim=1)

        return seen.once(PERSON, made)

    # ---- items ----

    def vectors(self, items: Tensor) -> Tensor:
        """Vectors [..., d] of items, which must exist."""
        return torch.embedding(self.item_vectors, items)

    def window_vectors(self, seen: Seen, window: int) -> Tensor:
        """Vectors [B, window, d] of the newest items, zeros where there is none."""

        def looked_up() -> Tensor:
            last = seen.last(window)
            # -1 reads the last item, which is then blotted out.
            vectors = self.item_vectors.numpy()[last.items]
            vectors *= last.there[:, :, None]
            return torch.from_numpy(vectors)

        longer = seen.longest
        if longer > window:
            return self.window_vectors(seen, longer)[:, -window:]
        return seen.once(WINDOW_VECTORS, looked_up, window)

    def nearest(self, seen: Seen, point: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Scores and numbers [B, k] of the items nearest to the point, best first; scores carry gradients."""
        items = self.top(seen, point.detach(), k)
        if not point.requires_grad:
            return point.new_zeros(0), items
        near = self.vectors(items).to(self.place)
        scores = torch.einsum("bd,bkd->bk", functional.normalize(point, dim=-1), near)
        return scores, items

    def top(self, seen: Seen, point: Tensor, k: int) -> Tensor:
        """Numbers [B, k] of the items nearest to the point that may be shown, best first."""
        return self._top(seen, point.cpu(), k, attrgetter("transposed"))

    def favourites(self, seen: Seen, k: int) -> Tensor:
        """Numbers [B, k] of the items of highest expectation that may be shown, best first."""
        by = attrgetter("relative")
        return seen.once(FAVOURITES, lambda: self._top(seen, self.person(seen), k, by), k)

    def likeliest(self, seen: Seen, k: int) -> Tensor:
        """Numbers [B, k] of the items most likely to be taken; blocked ones give way to the favourite."""
        if self.taking is None:
            return torch.zeros(len(seen), 0, dtype=torch.int64)
        found = taken_by(seen, self.taking)[0][:, :k]
        blocked = (found[:, :, None] == seen.blocked(len(self.item_vectors))[:, None]).any(axis=2)
        return torch.from_numpy(np.where(blocked, self.favourites(seen, 1).numpy(), found))

    def safest(self, seen: Seen, k: int) -> Tensor:
        """Numbers [B, k] of the items of highest expectation less what a quit would cost, where risk is known."""
        risk = seen.risk
        if risk is None:
            return torch.zeros(len(seen), 0, dtype=torch.int64)
        return torch.from_numpy(seen.once(SAFEST, lambda: self._safest(seen, risk, k), k))

    def _safest(self, seen: Seen, risk: Array, k: int) -> Array:
        count, expected = len(self.item_vectors), self.now(seen)
        left = np.maximum(seen.items.shape[1] - seen.turn - 1, 0)
        scores = np.pad(expected - risk * left * expected.max(axis=1, keepdims=True), ((0, 0), (0, 1)))
        np.put_along_axis(scores, seen.blocked(count), -np.inf, axis=1)
        return largest(scores[:, :count], min(k, count))

    def now(self, seen: Seen) -> Array:
        """The rating expected of every item, known where the episode has shown it [B, items]."""

        def made() -> Array:
            relative = torch.mm(self.person(seen), self.joined[:, self.width :].T).numpy()
            expected: Array = relative + self.level(seen)
            rows, turns = np.nonzero(seen.items >= 0)
            expected[rows, seen.items[rows, turns]] = seen.ratings[rows, turns]
            return expected

        return seen.once(NOW, made)

    def _top(self, seen: Seen, point: Tensor, k: int, by: Callable[[Part], Tensor]) -> Tensor:
        k = min(k, self.item_vectors.shape[0])
        blocked, parts = seen.blocked(self.item_vectors.shape[0]), self.parts()
        if len(parts) == 1:
            return torch.from_numpy(_best_of(point, by(parts[0]), blocked, k)[0])
        values, found = [], []
        for part in parts:
            items, scores = _best_of(point, by(part), _inside(blocked, part), min(k, part.size))
            values.append(np.take_along_axis(scores, items, axis=1))
            found.append(items + part.start)
        places = largest(np.hstack(values), k)
        return torch.from_numpy(np.take_along_axis(np.hstack(found), places, axis=1))

    def expected(self, seen: Seen, items: Tensor) -> Tensor:
        """Expected ratings [B, k] of items, relative to the user's level, as far as the episode tells."""
        factors = torch.embedding(self.joined, items)[:, :, self.width :]
        return torch.bmm(factors, self.person(seen).unsqueeze(2)).squeeze(2)

    def towards_the_best(self, seen: Seen) -> Tensor:
        """Where the items of highest expectation lie: a softly weighted sum of item vectors, of length one [B, d]."""
        return seen.once(TOWARDS, lambda: self._towards_the_best(seen).to(self.place))

    def _towards_the_best(self, seen: Seen) -> Tensor:
        person, blocked = self.person(seen), seen.blocked(self.item_vectors.shape[0])
        parts = self.parts()
        total = torch.zeros(person.shape[0], self.width)
        for part in parts:
            # One scale for all parts: expectations are at most a few points from the user's level.
            weights = torch.mm(person, part.relative).clamp_(max=4.0 * SHARPNESS).exp_()
            places = blocked if len(parts) == 1 else _inside(blocked, part)
            weights.scatter_(1, torch.from_numpy(places), 0.0)
            total.addmm_(weights, part.vectors)
        return total.div_(torch.linalg.vector_norm(total, dim=1, keepdim=True).clamp_min_(1e-12))

    def state_dict(self) -> State:
        labels = {"belief_noise": self.belief_noise, **self.labels.state_dict()}
        found = {name: getattr(self, name) for name in _NAMES} | {"labels": labels}
        if self.taking is not None:
            found["taking"] = {"items": self.taking.items, "scores": self.taking.scores}
        return found

    def load_state_dict(self, state: State) -> None:
        """Take the tables of a policy; those of other data would give every item another's name."""
        if "labels" not in state:
            raise ConfigError(
                "the policy is of an earlier version and does not name its items: train it again"
            )
        labels = Labels.from_state(state["labels"])
        if self.labels.digest and self.labels.digest != labels.digest:
            raise ConfigError("the policy was trained on other ratings than those of this world")
        for name in _NAMES:
            getattr(self, name).copy_(torch.from_numpy(np.array(state[name])))
        self.labels, self.belief_noise = labels, float(state["labels"]["belief_noise"])
        if self.taking is not None:
            self.taking = Taking(np.array(state["taking"]["items"]), np.array(state["taking"]["scores"]))
        self._parts, self._seen = (0, []), []
        self._joined = self._padded = None


def taken_by(seen: Seen, taking: Taking) -> Listed:
    """What each row takes most likely: its user's list, unless it is known from elsewhere."""
    return taking.rows(seen.user[:, 0]) if seen.takes is None else seen.takes


def _best_of(point: Tensor, items: Tensor, blocked: Array, k: int) -> tuple[Array, Array]:
    """The k best columns of `items` (the last stands for none), and the scores of all of them."""
    scores = torch.mm(point, items).scatter_(1, torch.from_numpy(blocked), -torch.inf).numpy()[:, :-1]
    return largest(scores, k), scores


def _inside(blocked: Array, part: Part) -> Array:
    """Blocked numbers as places in a part; those of other parts stand for none."""
    places = blocked - part.start
    return np.where((places >= 0) & (places < part.size), places, part.size)


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.asarray(array))
