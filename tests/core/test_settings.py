from __future__ import annotations

import pytest

from twofold.base.errors import ConfigError
from twofold.settings.schema import convert, edit_distance, nearest


def test_whole_numbers_may_be_written_as_25e3_but_not_as_a_half() -> None:
    assert convert("x", 25e3, int) == 25_000
    with pytest.raises(ConfigError, match=r"x must be a whole number, got 2\.5"):
        convert("x", 2.5, int)


def test_edit_distance_counts_swaps_as_one() -> None:
    assert edit_distance("gamma", "gamma") == 0
    assert edit_distance("gmama", "gamma") == 1
    assert edit_distance("gama", "gamma") == 1
    assert nearest("zzzzzz", ["gamma", "tau"]) is None
