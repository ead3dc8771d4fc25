import numpy as np
import pytest

from twofold.recsys.reach import Reach, reachable


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_every_item_can_be_reached_from_the_full_box():
    vectors = unit(np.random.default_rng(0).normal(size=(50, 8)))
    assert reachable(vectors, -1.0, 1.0).all()


def test_actions_of_the_positive_orthant_miss_part_of_the_catalogue():
    vectors = unit(np.random.default_rng(0).normal(size=(300, 8)))
    share = reachable(vectors, 0.0, 1.0).mean()
    assert share < 0.8


def test_an_item_opposite_to_all_actions_is_never_chosen():
    vectors = unit(np.array([[1.0, 1.0], [-1.0, -1.0]]))
    assert reachable(vectors, 0.0, 1.0).tolist() == [True, False]
    assert reachable(vectors, -1.0, 1.0).mean() == pytest.approx(1.0)


def test_an_item_between_others_is_reached_only_where_it_is_one_of_the_nearest():
    # In the positive quadrant, the third item is beaten by the first or the second everywhere.
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.4, 0.4]], np.float32)
    assert reachable(vectors, 0.0, 1.0).tolist() == [True, True, False]
    assert reachable(vectors, 0.0, 1.0, nearest=2).all()


def test_a_narrow_cone_that_random_points_miss_is_found_by_going_after_it():
    # In forty dimensions a random positive point is never near one axis; pursuit finds every axis and the middle.
    vectors = unit(np.vstack([np.eye(40), np.ones((1, 40))]))
    assert reachable(vectors, 0.0, 1.0).all()


def test_the_report_counts_and_names_what_is_out_of_reach():
    reach = Reach(np.array([True, False, True, False]), low=0.0, nearest=1)
    text = reach.text(["a", "b", "c", "d"])
    assert text.startswith("the actor can choose 2 of 4 items (50.0 %)")
    assert text.endswith("out of reach: b, d")
    assert reach.share == 0.5


def test_a_catalogue_within_reach_needs_no_names():
    text = Reach(np.ones(3, bool), low=-1.0, nearest=10).text(["a", "b", "c"])
    assert "3 of 3 items (100.0 %)" in text
    assert "out of reach" not in text
