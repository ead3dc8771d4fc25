"""Settings that came and went within a format."""

from __future__ import annotations

from twofold.store.formats import without_gone


def test_a_setting_that_is_gone_and_was_off_is_left_out_and_one_that_was_on_is_not() -> None:
    kept = {"learner.gamma": 0.99, "learner.twin": False}
    assert without_gone(kept | {"learner.reward_unit": False}) == kept
    assert without_gone(kept | {"learner.reward_unit": True}) == kept | {"learner.reward_unit": True}
