"""Which share of the catalogue an actor can choose at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twofold.recsys.data import Array
from twofold.recsys.item_nets import Chooser
from twofold.recsys.items import best_items

_NAMED = 20  # items out of reach that are listed
_TRIES = 20_000  # random points
_PURSUIT = 300  # steps towards items that no point has chosen yet, for catalogues of up to ...
_PURSUED = 5_000  # ... so many items


@dataclass(frozen=True)
class Reach:
    """What the actions of a policy can choose."""

    found: Array  # bool [items]
    low: float  # actions are points of [low, 1]^d
    nearest: int  # so many nearest items are candidates

    @property
    def share(self) -> float:
        return float(self.found.mean())

    def text(self, names: Sequence[str]) -> str:
        """One line, and the first names of what is out of reach."""
        box = "[0, 1]" if self.low == 0 else "[-1, 1]"
        among = "the nearest item" if self.nearest == 1 else f"one of the {self.nearest} nearest items"
        line = (
            f"the actor can choose {self.found.sum()} of {len(self.found)} items ({100 * self.share:.1f} %): "
            f"{among} to a point of {box}^d"
        )
        missed = [name for name, found in zip(names, self.found, strict=True) if not found]
        if not missed:
            return line
        more = f" and {len(missed) - _NAMED} more" if len(missed) > _NAMED else ""
        return f"{line}\nout of reach: {', '.join(missed[:_NAMED])}{more}"


def reach_of(chooser: Chooser) -> Reach:
    """The reach of a trained policy's actions."""
    cfg, vectors = chooser.cfg, chooser.tables.item_vectors.numpy()
    low = 0.0 if cfg.positive_actions else -1.0
    return Reach(reachable(vectors, low, 1.0, nearest=cfg.rerank), low, cfg.rerank)


def reachable(vectors: Array, low: float, high: float, *, nearest: int = 1, seed: int = 0) -> Array:
    """Which items are among the `nearest` of some action in the box [low, high]^d: bool [items].

    What is found is certain; an item with a very narrow cone of actions could be missed.
    """
    won = np.zeros(len(vectors), bool)
    k = min(nearest, len(vectors))
    rng = np.random.default_rng(seed)
    _try(np.clip(vectors, low, high), vectors, k, won)
    _try(np.sign(vectors).clip(low, high), vectors, k, won)
    for _ in range(_TRIES // 1000):
        _try(rng.uniform(low, high, (1000, vectors.shape[1])).astype(np.float32), vectors, k, won)
    if len(vectors) <= _PURSUED:
        _pursue(vectors, low, high, k, won)
    return won


def _try(points: Array, vectors: Array, k: int, won: Array) -> Array:
    """The items of some points, noted as reached [N, k]."""
    none = np.full((len(points), 1), -1)
    winners = best_items(points, vectors, none, k)
    won[winners] = True
    return winners


def _pursue(vectors: Array, low: float, high: float, k: int, won: Array) -> None:
    """Move a point of each missing item towards it and away from the last item that beats it (a perceptron)."""
    wanted = np.flatnonzero(~won)
    points = np.clip(vectors[wanted], low, high)
    for _ in range(_PURSUIT):
        winners = _try(points, vectors, k, won)
        left = ~won[wanted]
        wanted, points, winners = wanted[left], points[left], winners[left]
        if not len(wanted):
            return
        points = np.clip(points + 0.1 * (vectors[wanted] - vectors[winners[:, -1]]), low, high)
