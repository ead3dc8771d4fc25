from __future__ import annotations

import pytest

from twofold.base.errors import ConfigError
from twofold.settings.registry import Learners, Worlds, learners


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no learner named 'tdd3'; did you mean 'td3'"):
        learners.get("tdd3")


def test_a_registered_world_is_found_with_all_that_was_said_of_it() -> None:
    registry = Worlds("world", home="")

    @registry.register("mine/one", config=dict, evaluations=("a", "b"))
    def make() -> int:
        """Makes one.

        And more.
        """
        return 1

    entry = registry.get("mine/one")
    assert (entry.make(), entry.config, entry.doc) == (1, dict, "Makes one.")
    assert (entry.evaluations, entry.workers, entry.view) == (("a", "b"), False, None)


def test_a_misspelt_word_in_a_registration_is_refused() -> None:
    with pytest.raises(TypeError, match="evaluation"):
        Worlds("world", home="").register("mine/one", config=dict, evaluation=("a",))  # type: ignore[call-arg]


def test_a_name_that_is_taken_is_refused() -> None:
    registry = Learners("learner", home="")
    registry.register("mine", config=dict)(dict)
    registry.register("mine", config=dict)(dict)  # the same again, as when a file is imported twice
    with pytest.raises(ConfigError, match=r"'mine' is registered already, by builtins\.dict"):
        registry.register("mine", config=dict)(list)
