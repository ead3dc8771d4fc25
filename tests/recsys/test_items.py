import numpy as np

from twofold.recsys.items import best_items, largest


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


def test_the_largest_are_found_without_changing_the_scores():
    scores = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    before = scores.copy()
    for k in (1, 5, 16, 17, 40):
        assert (largest(scores, k) == np.argsort(-before, axis=1)[:, :k]).all()
        assert (scores == before).all()


def test_where_fewer_items_are_allowed_than_asked_for_every_item_still_comes_once():
    scores = np.array([[-np.inf, 2.0, -np.inf, 3.0]], np.float32)
    assert largest(scores, 3)[0, :2].tolist() == [3, 1]
    assert len(set(largest(scores, 3)[0])) == 3
