import numpy as np
import pytest

from twofold.recsys.items import best_items, reachable


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_chunks_give_the_same_items_as_one_piece():
    rng = np.random.default_rng(0)
    vectors, points = unit(rng.normal(size=(101, 6))), rng.normal(size=(20, 6)).astype(np.float32)
    blocked = rng.integers(-1, 101, size=(20, 9))
    whole = best_items(points, vectors, blocked, k=7)
    assert (best_items(points, vectors, blocked, k=7, chunk=10) == whole).all()
    assert not (whole[:, :, None] == blocked[:, None, :]).any()


def test_items_come_best_first():
    vectors = unit(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
    assert best_items(np.array([[1.0, 0.2]]), vectors, np.array([[-1]]), k=3).tolist() == [[0, 1, 2]]


def test_every_item_can_be_reached_from_the_full_box():
    vectors = unit(np.random.default_rng(0).normal(size=(50, 8)))
    assert reachable(vectors, -1.0, 1.0, np.random.default_rng(0), tries=10_000).all()


def test_actions_of_the_positive_orthant_miss_part_of_the_catalogue():
    vectors = unit(np.random.default_rng(0).normal(size=(300, 8)))
    share = reachable(vectors, 0.0, 1.0, np.random.default_rng(0), tries=20_000).mean()
    assert share < 0.8


def test_an_item_opposite_to_all_actions_is_never_chosen():
    vectors = unit(np.array([[1.0, 1.0], [-1.0, -1.0]]))
    assert reachable(vectors, 0.0, 1.0, np.random.default_rng(0), tries=10_000).tolist() == [True, False]
    assert reachable(vectors, -1.0, 1.0, np.random.default_rng(0), tries=10_000).mean() == pytest.approx(1.0)
