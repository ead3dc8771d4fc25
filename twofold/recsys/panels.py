"""A user as data that any page can draw: what was rated, what was liked, what comes next and why."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.recsys.asking import Recommendation
from twofold.recsys.recommend import Recommender
from twofold.show.panels import Listing

MOST = 50  # of the items that a user rated in the data


def user_panel(
    policy: Recommender, history: Sequence[object], found: Sequence[Recommendation], user: str | None = None
) -> Listing:
    """What the user rated before, the history, what is recommended; marked is what was rated in the upper third."""
    labels = policy.labels
    before = labels.rated(labels.user_numbers.get(user or "", -1))
    titles = dict(zip(labels.items, labels.titles or labels.items, strict=True))
    liked = labels.low + (labels.high - labels.low) * 2 / 3
    rated = [entry if isinstance(entry, (tuple, list)) else (entry, None) for entry in history]
    rows: list[list[str | float | None]] = [
        [labels.title(item), "rated before", None, None, ""] for item in before[:MOST].tolist()
    ]
    marked = [
        len(rows) + place
        for place, (_, rating) in enumerate(rated)
        if rating is not None and float(rating) >= liked
    ]
    rows += [
        [titles.get(str(item), str(item)), "history", None if rating is None else float(rating), None, ""]
        for item, rating in rated
    ]
    rows += [[r.title, "recommended", None, round(r.expected_rating, 3), ", ".join(r.reasons)] for r in found]
    columns = ["item", "", "rating", "expected rating", "because of"]
    more = f", {MOST} of {len(before)} rated items" if len(before) > MOST else ""
    return Listing(f"User {user or 'average'}{more}", columns, rows, marked, "liked")
