"""What the policy knows before an episode: vectors and factors made from the user model."""

import numpy as np
import pytest

from twofold.recsys.catalogue import _lifted, build
from twofold.recsys.truth import Matrix
from twofold.recsys.user_model import UserModel


def test_lifted_vectors_have_unit_length_and_rank_items_as_the_products_do():
    rng = np.random.default_rng(0)
    rows, taste = rng.normal(size=(50, 4)), rng.normal(size=4)
    lifted = _lifted(rows)
    assert np.linalg.norm(lifted, axis=1) == pytest.approx(np.ones(50))
    assert (np.argsort(lifted[:, :4] @ taste) == np.argsort(rows @ taste)).all()


def test_equal_items_are_lifted_to_the_pole():
    assert _lifted(np.zeros((3, 2))).tolist() == [[0.0, 0.0, 1.0]] * 3


def test_the_item_nearest_to_a_users_taste_is_the_one_he_likes_best():
    rng = np.random.default_rng(1)
    table = 3 + rng.normal(size=(40, 3)) @ rng.normal(size=(3, 30)) / 2
    model = UserModel("made up", Matrix(table), (Matrix(table),), None, 1.0)
    known = build(model, taste=8, random=0, rank=8, belief=0)
    assert known.expected(np.arange(40)[:, None], np.arange(30)) == pytest.approx(table, abs=1e-4)
    assert known.item_vectors.shape == (30, 8)
    best = table.argmax(axis=1)
    towards = known.item_vectors[best]
    assert ((towards @ known.item_vectors.T).argmax(axis=1) == best).all()
