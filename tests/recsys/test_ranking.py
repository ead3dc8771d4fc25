import numpy as np
import pytest

from twofold.recsys.data import from_matrix
from twofold.recsys.ranking import at_cutoff, errors, ranking
from twofold.recsys.truth import Matrix


def test_metrics_of_one_list_are_the_textbook_numbers():
    found = at_cutoff(np.array([False, True, False, True, False]), 3)
    assert found["recall"] == 0.5
    assert found["precision"] == pytest.approx(1 / 3)
    assert found["hit"] == 1.0
    assert found["mrr"] == 0.5
    assert found["map"] == pytest.approx(0.5 / 2)
    assert found["ndcg"] == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))


def test_a_perfect_prediction_has_no_error_and_ranks_first():
    table = np.array([[5.0, 1.0, 2.0], [1.0, 4.0, 3.0]])
    log = from_matrix(table)
    assert errors(Matrix(table), log) == {"mae": 0.0, "mse": 0.0, "rmse": 0.0}
    assert ranking(Matrix(table), log, 4.0, (1,))["ndcg@1"] == 1.0
