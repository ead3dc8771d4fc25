"""A user's history and recommendations as data for a page."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from twofold.recsys.labels import Labels
from twofold.recsys.panels import user_panel
from twofold.recsys.recommend import Recommendation

LABELS = Labels(users=("u",), items=("1", "2", "3"), titles=("Alien", "Brazil", "Clue"), low=1.0, high=5.0)
NEXT = Recommendation(2, "3", "Clue", 0.5, 4.21, ("comedy (+0.30)",))


def test_what_was_rated_in_the_upper_third_is_marked_as_liked():
    panel = user_panel(SimpleNamespace(labels=LABELS), [("1", 4.0), ("2", 3.0), "2"], [NEXT], "u")
    assert panel.rows == [
        ["Alien", "history", 4.0, None, ""],
        ["Brazil", "history", 3.0, None, ""],
        ["Brazil", "history", None, None, ""],
        ["Clue", "recommended", None, 4.21, "comedy (+0.30)"],
    ]
    assert (panel.title, panel.marked, panel.mark) == ("User u", [0], "liked")


def test_a_user_who_is_not_named_is_an_average_one():
    assert user_panel(SimpleNamespace(labels=LABELS), [], [NEXT]).title == "User average"


def test_what_a_user_rated_in_the_data_stands_first():
    known = replace(LABELS, rated_ends=np.array([2]), rated_items=np.array([0, 2], np.int32))
    panel = user_panel(SimpleNamespace(labels=known), [("2", 5.0)], [NEXT], "u")
    assert [row[:3] for row in panel.rows[:3]] == [
        ["Alien", "rated before", None],
        ["Clue", "rated before", None],
        ["Brazil", "history", 5.0],
    ]
    assert panel.marked == [2]
