import numpy as np
import pytest
from scipy import sparse

from twofold.crystal.curvature import Curvature, Secant, definite


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
