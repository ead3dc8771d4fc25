"""A user as data that any page can draw: what was rated, what was liked, what comes next and why."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.recsys.asking import Recommendation
from twofold.recsys.recommend import Recommender
from twofold.show.panels import Listing


def user_panel(
    policy: Recommender, history: Sequence[object], found: Sequence[Recommendation], user: str | None = None
) -> Listing:
    """The history with its ratings, then the recommendations; marked is what was rated in the upper third."""
    labels = policy.labels
    titles = dict(zip(labels.items, labels.titles or labels.items, strict=True))
    liked = labels.low + (labels.high - labels.low) * 2 / 3
    rated = [entry if isinstance(entry, (tuple, list)) else (entry, None) for entry in history]
    rows: list[list[str | float | None]] = [
        [titles.get(str(item), str(item)), "history", None if rating is None else float(rating), None, ""]
        for item, rating in rated
    ]
    marked = [i for i, (_, rating) in enumerate(rated) if rating is not None and float(rating) >= liked]
    rows += [[r.title, "recommended", None, round(r.expected_rating, 3), ", ".join(r.reasons)] for r in found]
    columns = ["item", "", "rating", "expected rating", "because of"]
    return Listing(f"User {user or 'average'}", columns, rows, marked, "liked")
