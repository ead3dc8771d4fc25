"""The shipped policies load, say how they were made, and act."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.cli import main
from twofold.store.policy_file import load_policy, unseal, zoo_names, zoo_path


@pytest.mark.parametrize("name", zoo_names())
def test_a_shipped_policy_is_small_says_how_it_was_made_and_acts(name: str) -> None:
    assert zoo_path(name).stat().st_size < 1_000_000
    _, about = unseal(zoo_path(name))
    assert {"command", "packages", "test"} <= about["score"].keys()
    policy = load_policy(zoo_path(name))
    action = policy.act(np.zeros(policy.observation_space.shape, np.float32))
    assert np.isfinite(action).all()


def test_the_zoo_is_reached_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--zoo=pendulum", "--episodes=5"]) == 0
    assert float(capsys.readouterr().out.split("return")[1].split()[0]) > -300
    assert main(["eval", "--zoo=pendulumm"]) == 2
    assert "did you mean 'pendulum'" in capsys.readouterr().err
