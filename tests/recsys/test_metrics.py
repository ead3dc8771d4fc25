import numpy as np
import pytest

from twofold.recsys.data import Dataset, category_table, from_matrix
from twofold.recsys.metrics import diversity, measure, novelty, over_seeds

DATA = Dataset(
    "tiny", from_matrix(np.array([[5, 5, 0], [5, 0, 0]])), 1, 5, categories=category_table([[0], [0], [1]])
)


def test_the_metrics_of_two_episodes():
    episodes = {"items": np.array([[0, 1, -1], [0, -1, -1]]), "ratings": np.array([[5, 4, 0], [3, 0, 0]])}
    found = measure(episodes, DATA, np.eye(3), liked=4.0)
    assert found["return"] == 6.0
    assert found["length"] == 1.5
    assert found["reward_per_turn"] == 4.0
    assert found["coverage"] == pytest.approx(2 / 3)
    assert found["coverage_per_turn"] == pytest.approx(2 / 3)
    assert found["diversity"] == 0.5
    assert found["dominant_categories"] == 1.0


def test_items_that_point_alike_are_not_diverse():
    assert diversity(np.array([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(0.0)
    assert diversity(np.array([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(1.0)


def test_rare_items_are_novel():
    values = novelty(DATA)
    assert values[2] > values[1] > values[0] == pytest.approx(0.0)


def test_intervals_over_seeds_use_student_quantiles():
    found = over_seeds([{"return": 1.0}, {"return": 2.0}, {"return": 3.0}])
    assert found["return"]["mean"] == 2.0
    assert found["return"]["half"] == pytest.approx(4.303 / np.sqrt(3), rel=1e-3)
