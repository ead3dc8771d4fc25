"""What users take, whatever they then feel about it: the second head of a user model, from which items were rated."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from twofold.base.errors import UserError
from twofold.base.progress import task
from twofold.base.regular import is_there
from twofold.recsys.data import Array, Ratings
from twofold.recsys.peers import MOST_ITEMS, Scores, ease, sasrec, taken
from twofold.recsys.seen import Listed
from twofold.store import files
from twofold.store.policy_file import FORMAT, seal, unseal

TakeModel = Literal["auto", "ease", "sasrec", "both"]
FILE = "taking.safetensors"
_ROWS = 1000
_LEAST = 1e-6  # a chance below this is as good as none


@dataclass(frozen=True)
class Taking:
    """For each user the items most likely to be taken next, best first; the last row is for a user never seen."""

    items: Array  # int64 [users + 1, m]
    scores: Array  # float32 [users + 1, m]: about the chance that the item is in a log like the user's

    @property
    def size(self) -> int:
        return int(self.items.shape[1])

    def of(self, users: Array, items: Array) -> Array:
        """The scores of items [n, k] for users [n]; 0 for what is not among the likeliest."""
        return listed_scores(items, self.rows(users))

    def rows(self, users: Array) -> Listed:
        """The likeliest items of users [n] and their scores."""
        return self.items[users], self.scores[users]


def listed_scores(items: Array, listed: Listed) -> Array:
    """The scores of items [n, k] in lists of the likeliest, row by row; 0 for what is not among them."""
    likeliest, scores = listed
    same = items[:, :, None] == likeliest[:, None]
    return np.asarray(np.einsum("nkm,nm->nk", same, scores), np.float32)


def kept_taking(log: Ratings, by: TakeModel, size: int, ridge: float, folder: Path) -> Taking:
    """What users take, from `folder` if it was fitted before to this log with these settings."""
    by = _settled(log, by)
    file = folder / f"taken-{_digest(log, by, size, ridge)}" / FILE
    if is_there(file):
        arrays, _ = unseal(file)
        return Taking(arrays["items"], arrays["scores"])
    with task(f"learning what users take from {len(log):,} ratings"):
        found = fit_taking(log, by, size, ridge)
    about = {"format": FORMAT, "taking": by}
    files.own_folder(file.parent, FILE)
    files.replace_bytes(file, seal({"items": found.items, "scores": found.scores}, about))
    return found


def _digest(log: Ratings, by: TakeModel, size: int, ridge: float) -> str:
    """Changes with the log, its order in time, and the settings."""
    found = hashlib.blake2b(f"{by} {size} {ridge}".encode(), digest_size=6)
    for array in (log.users, log.items, *([] if log.times is None else [log.times])):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def fit_taking(log: Ratings, by: TakeModel, size: int, ridge: float) -> Taking:
    """The likeliest new items of every user; of a user never seen, those that most users rated."""
    count, by = len(log.item_names), _settled(log, by)
    if count > MOST_ITEMS:
        raise UserError(
            f"reward=taken scores all items at once: at most {MOST_ITEMS} items, there are {count}"
        )
    scores, size = _scores(log, by, ridge), min(size, count)
    users = np.arange(len(log.user_names))
    blocks = [users[start : start + _ROWS] for start in range(0, len(users), _ROWS)]
    parts = [_likeliest(np.where(taken(log, some) > 0, -np.inf, scores(some)), by, size) for some in blocks]
    share = np.bincount(log.items, minlength=count) / len(users)
    most = np.argsort(-share, kind="stable")[:size]
    items = np.vstack([*(items for items, _ in parts), most])
    chances = np.vstack([*(chances for _, chances in parts), share[most]])
    return Taking(items.astype(np.int64), chances.astype(np.float32))


def _settled(log: Ratings, by: TakeModel) -> TakeModel:
    """What `auto` means for this log."""
    if by != "auto":
        return by
    return "ease" if log.times is None else "both"


def _scores(log: Ratings, by: TakeModel, ridge: float) -> Scores:
    """What ranks the items."""
    if by == "ease":
        return ease(log, ridge)
    return sasrec(log) if by == "sasrec" else both(ease(log, ridge), sasrec(log))


def both(beside: Scores, after: Scores) -> Scores:
    """The logarithm of the geometric mean of the chances that EASE and SASRec give.

    The one knows what is taken together, the other what is taken next; they miss different items.
    """
    return lambda users: (np.log(np.maximum(beside(users), _LEAST)) + after(users)) / 2


def _likeliest(scores: Array, by: TakeModel, size: int) -> tuple[Array, Array]:
    """The items of highest scores and their chances [n, size]; what was rated is no news and has -inf."""
    items = np.argsort(-scores, axis=1, kind="stable")[:, :size]
    best = np.take_along_axis(scores, items, axis=1)
    # EASE fits ones for what is in a log; a softmax spreads one among all items, so the likeliest is the unit.
    return items, np.clip(best if by == "ease" else np.exp(best - best[:, :1]), 0.0, 1.0)
