"""Seeding: one seed fans out by name."""

from __future__ import annotations

import numpy as np

from twofold.core.seeding import Generators, final_seeds, validation_seeds


def test_generators_depend_on_seed_and_name_alone() -> None:
    assert Generators(1)["a"].random() == Generators(1)["a"].random()
    assert Generators(1)["a"].random() != Generators(1)["b"].random()
    assert Generators(1)["a"].random() != Generators(2)["a"].random()


def test_generators_go_on_after_a_save() -> None:
    one = Generators(0)
    one["a"].random(7)
    state = one.state_dict()
    wanted = one["a"].random(3)
    other = Generators(0)
    other.load_state_dict(state)
    assert np.array_equal(other["a"].random(3), wanted)


def test_validation_and_test_seeds_are_disjoint() -> None:
    assert not set(validation_seeds(10_000)) & set(final_seeds(10_000))
