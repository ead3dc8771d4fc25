import numpy as np
import pytest

from twofold.recsys import quit as quit_rules
from twofold.recsys.quit import (
    CategoryCount,
    CloseByChance,
    CloseTable,
    CloseVectors,
    Never,
    close_by_distance,
    close_by_share,
    distances,
    window_of,
)
from twofold.recsys.truth import Factors, Matrix

HISTORY = np.array([[10, 11, 12, 13, 14, 15, 16, 17, -1, -1]])
ZERO = np.zeros(1, np.int64)


def python_slice(turn, size):
    return [10 + i for i in range(turn)][turn - size : turn]


@pytest.mark.parametrize("turn", range(1, 9))
def test_the_compat_window_is_the_python_slice(turn):
    window = window_of(HISTORY, np.array([turn]), 7, "compat")[0]
    assert sorted(window[window >= 0]) == python_slice(turn, 7)


@pytest.mark.parametrize("turn", range(1, 9))
def test_the_intended_window_is_the_last_items(turn):
    window = window_of(HISTORY, np.array([turn]), 7, "intended")[0]
    assert sorted(window[window >= 0]) == [10 + i for i in range(max(0, turn - 7), turn)]


def test_turn_six_of_seven_checks_one_item_in_compat():
    window = window_of(HISTORY, np.array([6]), 7, "compat")[0]
    assert (window >= 0).sum() == 1


def test_items_whose_columns_are_near_end_the_episode():
    table = Matrix(np.array([[1.0, 1.0, 5.0], [2.0, 3.0, 5.0]], np.float32))
    rule = close_by_distance(table, threshold=1.5)
    assert rule.hits(ZERO, ZERO, np.array([0]), np.array([[1]])).tolist() == [True]
    assert rule.hits(ZERO, ZERO, np.array([0]), np.array([[2]])).tolist() == [False]
    assert rule.hits(ZERO, ZERO, np.array([0]), np.array([[-1]])).tolist() == [False]


def test_padding_never_quits_whatever_the_item():
    close = np.pad(np.ones((1, 3, 3), bool), ((0, 0), (0, 1), (0, 1)))
    hits = CloseTable(close).hits(np.zeros(3, int), np.zeros(3, int), np.arange(3), np.full((3, 2), -1))
    assert not hits.any()


def test_vectors_and_table_give_the_same_answers():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1, 30, 4)).astype(np.float32)
    table = CloseTable(np.pad(distances(vectors[0]) < 2.0, ((0, 1), (0, 1)))[None])
    far = CloseVectors(vectors, np.array([2.0]))
    items, window = rng.integers(30, size=200), rng.integers(-1, 30, size=(200, 5))
    keys = np.zeros(200, np.int64)
    assert (table.hits(keys, keys, items, window) == far.hits(keys, keys, items, window)).all()


def test_the_share_of_close_pairs_goes_from_a_quarter_to_four_times_the_asked_one():
    table = Matrix(np.random.default_rng(0).normal(size=(9, 41)))
    inside = close_by_share(table.item_vectors(), 0.1, 3).close[:, :41, :41]
    shares = [world[np.triu_indices(41, 1)].mean() for world in inside]
    assert sorted(shares) == pytest.approx([0.025, 0.1, 0.4], abs=0.002)
    smallest, largest = inside[np.argmin(shares)], inside[np.argmax(shares)]
    assert (largest | ~smallest).all()  # what is close in a strict world is close in a lenient one


def test_one_world_has_the_asked_share_itself():
    inside = close_by_share(np.random.default_rng(0).normal(size=(41, 9)), 0.1, 1).close[0, :41, :41]
    assert inside[np.triu_indices(41, 1)].mean() == pytest.approx(0.1, abs=0.002)


def test_large_catalogues_get_distances_in_place_of_tables(monkeypatch):
    table = Matrix(np.random.default_rng(0).normal(size=(9, 41)))
    small = close_by_share(table.item_vectors(), 0.1, 3)
    monkeypatch.setattr(quit_rules, "TABLE_CELLS", 1000)
    large = close_by_share(table.item_vectors(), 0.1, 3)
    assert isinstance(large, CloseVectors)
    items = np.repeat(np.arange(41), 41)
    others = np.tile(np.arange(41), 41)[:, None]
    worlds = np.zeros(len(items), np.int64)
    same = small.hits(worlds, worlds, items, others) == large.hits(worlds, worlds, items, others)
    assert same.mean() > 0.97  # thresholds come from a sample of the pairs


def test_categories_are_counted_over_the_window():
    rule = CategoryCount(np.array([[0, -1], [0, 1], [1, -1], [2, -1]]), threshold=1)
    window = np.array([[0, 1, 3]])
    assert rule.hits(ZERO, ZERO, np.array([0]), window).tolist() == [True]  # category 0 occurs twice
    assert rule.hits(ZERO, ZERO, np.array([2]), window).tolist() == [False]  # category 1 occurs once
    assert rule.hits(ZERO, ZERO, np.array([3]), np.array([[3, -1, -1]])).tolist() == [False]


def test_chance_pairs_are_symmetric_and_fixed_for_an_episode():
    rule = CloseByChance(Never(), 0.5)
    seeds = np.arange(400)
    one = rule.hits(seeds, seeds, np.full(400, 3), np.full((400, 1), 8))
    other = rule.hits(seeds, seeds, np.full(400, 8), np.full((400, 1), 3))
    assert (one == other).all()
    assert 0.4 < one.mean() < 0.6


def test_whitened_factors_keep_the_distances_of_the_rating_columns():
    rng = np.random.default_rng(1)
    factors = Factors(rng.normal(size=(50, 3)), rng.normal(size=(7, 3)), -99, 99, rounded=False)
    columns = factors.rows(np.arange(50)).T
    np.testing.assert_allclose(distances(factors.item_vectors()), distances(columns), rtol=1e-3, atol=1e-3)
