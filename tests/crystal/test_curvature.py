import numpy as np
import pytest
from scipy import sparse

from twofold.crystal.curvature import Curvature, Secant, conjugate, definite


def matrix(size, seed=0, lowest=1.0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((size, size))
    return a @ a.T + lowest * np.eye(size)


def test_the_last_pair_is_mapped_exactly():
    true, rng = matrix(9, 1), np.random.default_rng(2)
    moves = rng.standard_normal((3, 9))
    secant = Secant(np.eye(9), [(s, true @ s) for s in moves], 1.0, indefinite=False)
    np.testing.assert_allclose(secant @ moves[-1], true @ moves[-1], atol=1e-9)
    np.testing.assert_allclose(secant.dense() @ moves[-1], true @ moves[-1], atol=1e-9)


def test_a_pair_of_negative_curvature_is_learnt_only_where_allowed():
    move = np.array([1.0, 0.0, 0.0])
    assert Secant(np.eye(3), [(move, -move)], 1.0, indefinite=False).dense()[0, 0] == 1.0
    assert Secant(np.eye(3), [(move, -2 * move)], 1.0, indefinite=True).dense()[0, 0] == pytest.approx(-2.0)


def test_no_weight_means_no_history():
    move = np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(Secant(np.eye(3), [(move, 5 * move)], 0.0, indefinite=True).dense(), np.eye(3))


@pytest.mark.parametrize("size", [12, 96])
def test_small_and_middle_sizes_solve_the_model(size):
    exact = matrix(size)
    curvature = Curvature(exact, lambda: exact, [], 1.0, floor=1e-9)
    force = np.random.default_rng(0).standard_normal(size)
    np.testing.assert_allclose(curvature.solver()(force), np.linalg.solve(exact, force), rtol=1e-6)


def test_large_sizes_solve_by_conjugate_gradients():
    exact = matrix(30) / 30
    curvature = Curvature(sparse.csr_array(exact), lambda: sparse.csr_array(exact), [], 1.0, 0.1)
    assert not curvature.dense
    force = np.random.default_rng(0).standard_normal(30)
    step = curvature.solver(0.5)(force)
    assert np.linalg.norm((exact + 0.5 * np.eye(30)) @ step - force) < 1e-3 * np.linalg.norm(force)


@pytest.mark.parametrize("size", [12, 96])
def test_a_saddle_is_left_downhill(size):
    exact = matrix(size)
    values, vectors = np.linalg.eigh(exact)
    exact -= 2 * values[0] * np.outer(vectors[:, 0], vectors[:, 0])
    assert not definite(exact)
    curvature = Curvature(exact, lambda: matrix(size), [], 1.0, floor=0.5)
    force = np.random.default_rng(3).standard_normal(size)
    assert force @ curvature.solver()(force) > 0
    assert vectors[:, 0] @ (curvature @ vectors[:, 0]) == pytest.approx(-values[0])


def test_conjugate_pairs_are_all_mapped_exactly_where_the_energy_is_quadratic():
    true, rng = matrix(9, 1), np.random.default_rng(2)
    moves = np.linalg.qr(rng.standard_normal((9, 4)))[0].T
    pairs = [(s, true @ s) for s in moves]
    plain = Secant(np.eye(9), pairs, 1.0, indefinite=False)
    kept = conjugate(pairs)
    assert len(kept) == 4
    secant = Secant(np.eye(9), kept, 1.0, indefinite=False)
    for move in moves:
        np.testing.assert_allclose(secant @ move, true @ move, atol=1e-9)
    assert np.abs(plain @ moves[0] - true @ moves[0]).max() > 0.1


def test_the_newest_pair_stays_as_it_is_and_an_older_one_loses_what_it_says_again():
    newest = np.array([1.0, 0.0]), np.array([2.0, 0.0])
    older = np.array([1.0, 1.0]), np.array([2.0, 5.0])
    kept = conjugate([older, newest])
    np.testing.assert_allclose(kept[0][0], [0.0, 1.0])
    np.testing.assert_allclose(kept[0][1], [0.0, 5.0])
    np.testing.assert_allclose(kept[1], newest)


def test_an_older_move_along_a_newer_one_is_dropped():
    newest = np.array([1.0, 0.0]), np.array([2.0, 0.0])
    older = np.array([1.0, 0.5]), np.array([2.0, 1.0])  # half of it is new, less than 0.6 of its length
    assert len(conjugate([older, newest])) == 1


def test_pairs_that_contradict_each_other_are_left_as_they_are():
    newest = np.array([1.0, 0.0]), np.array([2.0, 1.0])
    older = (
        np.array([0.5, 1.0]),
        np.array([-1.0, 5.0]),
    )  # its own drop along the newer move has the other sign
    kept = conjugate([older, newest])
    np.testing.assert_allclose(kept[0], older)
