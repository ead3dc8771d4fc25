"""Who and what the numbers of a catalogue stand for: kept with every policy, so that serving needs no data file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from twofold.core.protocols import State
from twofold.recsys.data import Array, Dataset, Ratings


def _no_features() -> Array:
    return np.zeros((0, 0), np.float32)


def _nothing_rated() -> Array:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Labels:
    """Names, scale, features and what each user has rated; of made-up catalogues there is none."""

    users: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()  # empty: names are shown
    low: float = 1.0
    high: float = 5.0
    feature_names: tuple[str, ...] = ()
    features: Array = field(default_factory=_no_features)  # float32 [items, f]
    rated_ends: Array = field(default_factory=_nothing_rated)  # int64 [users]: where a user's rated items end
    rated_items: Array = field(default_factory=_nothing_rated)  # int32, user by user
    digest: str = ""  # of all names and ratings it was made from

    @classmethod
    def of(cls, data: Dataset) -> Labels:
        """The labels of a data set; what users rated is taken from all of its logs."""
        logs = [log for log in (data.train, data.test) if log is not None]
        features = data.item_features
        ends, rated = _by_user(logs, data.users)
        return cls(
            users=data.train.user_names,
            items=data.train.item_names,
            titles=data.item_titles or (),
            low=data.low,
            high=data.high,
            feature_names=() if features is None else features.names,
            features=_no_features() if features is None else features.values.astype(np.float32),
            rated_ends=ends,
            rated_items=rated,
            digest=digest_of(data),
        )

    @cached_property
    def user_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.users)}

    @cached_property
    def item_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.items)}

    def title(self, item: int) -> str:
        """What a person is shown for an item."""
        names = self.titles or self.items
        return names[item] if names else str(item)

    def rated(self, user: int) -> Array:
        """The numbers of the items that a user has rated; none for a user never seen."""
        if not 0 <= user < len(self.rated_ends):
            return np.zeros(0, np.int32)
        start = int(self.rated_ends[user - 1]) if user else 0
        return self.rated_items[start : int(self.rated_ends[user])]

    def state_dict(self) -> State:
        """As arrays: lists of names are too long for the description of a file."""
        texts = {name: _packed(getattr(self, name)) for name in ("users", "items", "titles", "feature_names")}
        arrays = {name: getattr(self, name) for name in ("features", "rated_ends", "rated_items")}
        return texts | arrays | {"low": self.low, "high": self.high, "digest": self.digest}

    @classmethod
    def from_state(cls, state: State) -> Labels:
        return cls(
            users=_unpacked(state["users"]),
            items=_unpacked(state["items"]),
            titles=_unpacked(state["titles"]),
            low=float(state["low"]),
            high=float(state["high"]),
            feature_names=_unpacked(state["feature_names"]),
            features=np.asarray(state["features"], np.float32),
            rated_ends=np.asarray(state["rated_ends"], np.int64),
            rated_items=np.asarray(state["rated_items"], np.int32),
            digest=str(state["digest"]),
        )


def digest_of(data: Dataset) -> str:
    """Twelve characters that change with any name or rating of a data set."""
    found = hashlib.blake2b(digest_size=6)
    for names in (data.train.user_names, data.train.item_names):
        found.update("\n".join(names).encode())
    for log in (data.train, data.test):
        if log is not None:
            for array in (log.users, log.items, log.values):
                found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _by_user(logs: Iterable[Ratings], users: int) -> tuple[Array, Array]:
    """Where each user's items end [users], and the items of all users, each once per user."""
    keys = [log.users.astype(np.int64) << 32 | log.items for log in logs]
    pairs = np.unique(np.concatenate(keys))
    user, item = pairs >> 32, pairs & 0xFFFFFFFF
    return np.cumsum(np.bincount(user, minlength=users)).astype(np.int64), item.astype(np.int32)


def _packed(texts: Sequence[str]) -> State:
    """Texts as one array of bytes, and where each of them ends."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(encoded), np.uint8), "ends": ends}


def _unpacked(state: State) -> tuple[str, ...]:
    content, ends = np.asarray(state["text"], np.uint8).tobytes(), np.asarray(state["ends"]).tolist()
    return tuple(content[start:end].decode() for start, end in zip([0, *ends], ends, strict=False))
