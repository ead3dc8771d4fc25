"""The catalogue as tensors, shared by all networks, and look-ups over it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from twofold.core.errors import ConfigError

from .catalogue import Catalogue
from .items import largest
from .seen import Seen

_NAMES = ("item_vectors", "user_factors", "item_factors", "belief_factors")


class Part(NamedTuple):
    """Items start..start + size of the catalogue, and after them one item of zeros that stands for none."""

    start: int
    size: int
    vectors: Tensor  # [d, size + 1]
    weighed: Tensor  # [size + 1, d + 1]: the vectors, and a column of ones that counts them
    relative: Tensor  # [r + b, size + 1]: what makes an expected rating of a `person`


class Tables:
    """Fixed tensors: never trained, never copied with a network, saved once with the policy."""

    def __init__(self, tables: list[Tensor], chunk: int) -> None:
        self.item_vectors, self.user_factors, self.item_factors, self.belief_factors = tables
        self.chunk = chunk  # items looked at together; bounds memory for large catalogues
        self._seen: list[Seen] = []  # of the last two batches, s and s' of one update
        self._parts: tuple[int, list[Part]] = (0, [])

    def seen(self, obs: Any) -> Seen:
        """What is derived from an observation: made once for all networks that look at the same batch."""
        if isinstance(obs, Seen):
            return obs
        for known in self._seen:
            if known.obs is obs:
                return known
        self._seen = [Seen(obs), *self._seen[:1]]
        return self._seen[0]

    @classmethod
    def of(cls, action_space: Any, observation_space: Any, rank: int, chunk: int) -> Tables:
        """From the catalogue that the action space carries, or blank ones of the right shapes."""
        known: Catalogue | None = getattr(action_space, "catalogue", None)
        if known is not None:
            if known.user_factors.shape[1] != rank:
                raise ConfigError(
                    f"networks.rank={rank} must equal env_args.rank={known.user_factors.shape[1]}"
                )
            return cls([torch.from_numpy(getattr(known, name)) for name in _NAMES], chunk)
        spaces = observation_space.spaces
        users, items = (int(np.max(spaces[name].high)) + 1 for name in ("user", "items"))
        beliefs = spaces["belief"].shape[0] if "belief" in spaces else 0
        shapes = ((items, action_space.shape[0]), (users + 1, rank), (items, rank), (items, beliefs))
        return cls([torch.zeros(shape) for shape in shapes], chunk)

    def __deepcopy__(self, memo: Any) -> Tables:
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
            starts = range(0, len(self.item_vectors), self.chunk)
            self._parts = self.chunk, [self._part(start) for start in starts]
            self._relative = self._relative_factors(slice(None))
        return self._parts[1]

    def _part(self, start: int) -> Part:
        some = slice(start, start + self.chunk)
        vectors = functional.pad(self.item_vectors[some], (0, 0, 0, 1))
        weighed = functional.pad(functional.pad(self.item_vectors[some], (0, 1), value=1.0), (0, 0, 0, 1))
        relative = functional.pad(self._relative_factors(some), (0, 0, 0, 1))
        return Part(start, len(vectors) - 1, vectors.T.contiguous(), weighed, relative.T.contiguous())

    def _relative_factors(self, some: slice) -> Tensor:
        """Item factors less the user's level, beside the belief's: [items, r + b]."""
        factors = self.item_factors[some].clone()
        factors[:, 0] -= 1.0  # a user's level is the first factor
        return torch.cat([factors, self.belief_factors[some]], dim=1)

    # ---- users ----

    def factors(self, seen: Seen) -> Tensor:
        """The users' factors [B, r]; user -1 is one never seen, the last row."""
        users = self.user_factors
        return seen.once("factors", lambda: users.index_select(0, seen.user.remainder(len(users))))  # type: ignore[no-any-return]

    def level(self, seen: Seen) -> Tensor:
        """What these users give on average [B, 1]."""
        return self.factors(seen)[:, :1]

    def person(self, seen: Seen) -> Tensor:
        """All that is expected of a user: factors and what the episode told [B, r + b]."""

        def joined() -> Tensor:
            factors = self.factors(seen)
            return torch.cat([factors, seen.belief], dim=1) if seen.belief is not None else factors

        return seen.once("person", joined)  # type: ignore[no-any-return]

    # ---- items ----

    def vectors(self, items: Tensor) -> Tensor:
        """Vectors [..., d] of items, which must exist."""
        return torch.embedding(self.item_vectors, items)

    def window_vectors(self, seen: Seen, window: int) -> Tensor:
        """Vectors [B, window, d] of the newest items, zeros where there is none."""

        def looked_up() -> Tensor:
            last = seen.last(window)
            return self.vectors(last.items.clamp_min(0)).mul_(last.there.unsqueeze(-1))

        return seen.once(("vectors", window), looked_up)  # type: ignore[no-any-return]

    def nearest(self, seen: Seen, point: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Scores and numbers [B, k] of the items nearest to the point, best first; scores carry gradients."""
        items = self.top(seen, point.detach(), k)
        if not point.requires_grad:
            return point.new_zeros(0), items
        scores = torch.einsum("bd,bkd->bk", functional.normalize(point, dim=-1), self.vectors(items))
        return scores, items

    @torch.no_grad()
    def top(self, seen: Seen, point: Tensor, k: int) -> Tensor:
        """Numbers [B, k] of the items nearest to the point that may be shown, best first."""
        k = min(k, len(self.item_vectors))
        blocked, parts = seen.blocked(len(self.item_vectors)), self.parts()
        if len(parts) == 1:
            return self._best_of(parts[0], point, blocked, k)[0]
        values, found = [], []
        for part in parts:
            items, scores = self._best_of(part, point, _inside(blocked, part), min(k, part.size))
            values.append(scores.gather(1, items))
            found.append(items + part.start)
        places = torch.cat(values, dim=1).topk(k, dim=1).indices
        return torch.cat(found, dim=1).gather(1, places)

    @staticmethod
    def _best_of(part: Part, point: Tensor, blocked: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best places of a part, and all its scores."""
        scores = torch.mm(point, part.vectors).scatter_(1, blocked, -torch.inf)[:, : part.size]
        return torch.from_numpy(largest(scores.numpy(), k)), scores

    def expected(self, seen: Seen, items: Tensor) -> Tensor:
        """Expected ratings [B, k] of items, relative to the user's level, as far as the episode tells."""
        self.parts()
        factors = torch.embedding(self._relative, items)
        return torch.bmm(factors, self.person(seen).unsqueeze(2)).squeeze(2)

    @torch.no_grad()
    def towards_the_best(self, seen: Seen) -> Tensor:
        """Where the items of highest expectation lie: a mean of item vectors, weighted softly [B, d]."""
        return seen.once("towards", lambda: self._towards_the_best(seen))  # type: ignore[no-any-return]

    def _towards_the_best(self, seen: Seen) -> Tensor:
        person, blocked = self.person(seen), seen.blocked(len(self.item_vectors))
        parts = self.parts()
        total = torch.zeros(len(person), self.width + 1)
        for part in parts:
            # One scale for all parts: expectations are at most a few points from the user's level.
            weights = torch.mm(person, part.relative).clamp_(max=4.0).mul_(8.0).sub_(8.0).exp_()
            weights.scatter_(1, blocked if len(parts) == 1 else _inside(blocked, part), 0.0)
            total.addmm_(weights, part.weighed)
        vectors, weight = total.split([self.width, 1], dim=1)  # type: ignore[no-untyped-call]
        return functional.normalize(vectors / (weight + 1e-9), dim=-1)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in _NAMES:
            getattr(self, name).copy_(torch.from_numpy(np.array(state[name])))
        self._parts, self._seen = (0, []), []


def _inside(blocked: Tensor, part: Part) -> Tensor:
    """Blocked numbers as places in a part; those of other parts stand for none."""
    places = blocked - part.start
    return places.masked_fill_((places < 0) | (places > part.size), part.size)
