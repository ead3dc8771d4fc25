"""The matrix games pay what the papers' tables say."""

import numpy as np
import pytest

from twofold.base.errors import ConfigError
from twofold.rows.check import check_world
from twofold.team.worlds.matrix import MatrixConfig, TwoStepConfig, matrix_game, two_step


@pytest.mark.parametrize(
    ("joint", "paid"), [((0, 0), 8), ((0, 1), -12), ((2, 0), -12), ((1, 2), 0), ((2, 2), 0)]
)
def test_matrix_game_pays_the_table(joint, paid):
    world = matrix_game(MatrixConfig(), rows=1, purpose="train")
    world.reset(seed=[0])
    _, reward, terminated, _, info = world.step(np.array([joint]))
    assert reward[0] == paid and terminated[0] and info["episode"]["payoff"][0] == paid


@pytest.mark.parametrize(
    ("first", "second", "paid"),
    [(0, (0, 1), 7), (0, (1, 1), 7), (1, (0, 0), 0), (1, (1, 0), 1), (1, (1, 1), 8)],
)
def test_two_step_game_pays_the_tables(first, second, paid):
    world = two_step(TwoStepConfig(), rows=1, purpose="train")
    world.reset(seed=[0])
    _, reward, terminated, _, _ = world.step(np.array([(first, 0)]))
    assert reward[0] == 0 and not terminated[0]
    _, reward, terminated, _, _ = world.step(np.array([second]))
    assert reward[0] == paid and terminated[0]


@pytest.mark.parametrize(
    "world",
    [
        matrix_game(MatrixConfig(), rows=2, purpose="train"),
        two_step(TwoStepConfig(), rows=2, purpose="train"),
    ],
)
def test_games_keep_the_world_contract(world):
    assert check_world(world, steps=20) == []


def test_a_payoff_that_is_no_square_table_is_refused():
    with pytest.raises(ConfigError, match="square"):
        matrix_game(MatrixConfig(payoff={"rows": [[1, 2, 3], [4, 5, 6]]}), rows=1, purpose="train")
