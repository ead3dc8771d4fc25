"""The catalogue as tensors, shared by all networks, and look-ups over it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from twofold.core.errors import ConfigError

from .catalogue import Catalogue
from .seen import Seen

_NAMES = ("item_vectors", "user_factors", "item_factors", "belief_factors")


class Tables:
    """Fixed tensors: never trained, never copied with a network, saved once with the policy."""

    def __init__(self, tables: list[Tensor], chunk: int) -> None:
        self.item_vectors, self.user_factors, self.item_factors, self.belief_factors = tables
        self.chunk = chunk
        self._seen: list[Seen] = []  # of the last two batches, s and s' of one update

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

    def level(self, user: Tensor) -> Tensor:
        """What these users give on average [B]."""
        return self.user_factors[user, 0]

    def nearest(self, seen: Seen, point: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Scores and numbers [B, k] of the items nearest to the point, best first; scores carry gradients."""
        k = min(k, len(self.item_vectors))
        with torch.no_grad():
            items = self._top(point, seen.blocked(), k)
        if not point.requires_grad:
            return point.new_zeros(0), items
        scores = torch.einsum("bd,bkd->bk", functional.normalize(point, dim=-1), self.item_vectors[items])
        return scores, items

    def _top(self, point: Tensor, blocked: Tensor, k: int) -> Tensor:
        values, found = [], []
        for start in range(0, len(self.item_vectors), self.chunk):
            part = self.item_vectors[start : start + self.chunk]
            scores = mask_out(point @ part.T, blocked - start)
            best: Any = (
                scores.max(dim=1, keepdim=True) if k == 1 else scores.topk(min(k, scores.shape[1]), dim=1)
            )
            values.append(best[0])
            found.append(best[1] + start)
        if len(found) == 1:
            return found[0]  # type: ignore[no-any-return]
        places = torch.cat(values, dim=1).topk(k, dim=1).indices
        return torch.cat(found, dim=1).gather(1, places)

    def expected(self, seen: Seen, items: Tensor) -> Tensor:
        """Expected ratings [B, k] of items, relative to the user's level, as far as the episode tells."""
        factors = self.user_factors[seen.user]
        rating = torch.einsum("br,bkr->bk", factors, self.item_factors[items]) - factors[:, :1]
        if self.beliefs:
            rating = rating + torch.einsum("bs,bks->bk", seen.belief, self.belief_factors[items])
        return rating

    @torch.no_grad()
    def towards_the_best(self, seen: Seen) -> Tensor:
        """Where the items of highest expectation lie: a mean of item vectors, weighted softly [B, d]."""
        user = seen.user
        total = torch.zeros(len(user), self.width)
        weight = torch.full((len(user), 1), 1e-9)
        blocked = seen.blocked()
        for start in range(0, len(self.item_vectors), self.chunk):
            some = slice(start, start + self.chunk)
            rating = self.user_factors[user] @ self.item_factors[some].T - self.level(user).unsqueeze(1)
            if seen.belief is not None:
                rating = rating + seen.belief @ self.belief_factors[some].T
            # One scale for all chunks: expectations are at most a few points from the user's level.
            weights = torch.exp(8.0 * (mask_out(rating, blocked - start).clamp(max=4.0) - 1.0))
            total += weights @ self.item_vectors[some]
            weight += weights.sum(dim=1, keepdim=True)
        return functional.normalize(total / weight, dim=-1)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in _NAMES:
            getattr(self, name).copy_(torch.from_numpy(np.array(state[name])))


def mask_out(scores: Tensor, blocked: Tensor) -> Tensor:
    """Scores [B, items] with minus infinity at the blocked numbers [B, b] that lie inside."""
    inside = (blocked >= 0) & (blocked < scores.shape[1])
    lowest = torch.where(inside, -torch.inf, torch.inf).to(scores.dtype)
    # The minimum with plus infinity changes nothing: numbers outside are moved anywhere, harmlessly.
    return scores.scatter_reduce_(1, blocked.clamp(0, scores.shape[1] - 1), lowest, "amin")
