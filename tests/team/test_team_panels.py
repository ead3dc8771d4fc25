"""Battles and cross-play as data for a page."""

import json
from dataclasses import asdict

import numpy as np

from twofold.cli.menu import Play
from twofold.cli.running import _record
from twofold.show.panels import read_panel
from twofold.team.crossplay import CrossPlay
from twofold.team.panels import battle_panel, cross_play_panel
from twofold.team.worlds.skirmish import Skirmish, SkirmishConfig


class Charge:
    """Shoots whatever it can, and walks east until then."""

    def reset(self, mask):
        pass

    def act(self, obs):
        avail = obs["avail"]
        shots = avail[..., 6:].any(-1)
        return np.where(
            shots, 6 + avail[..., 6:].argmax(-1), np.where(avail[..., 4] > 0, 4, avail.argmax(-1))
        )


def battle(seed):
    return battle_panel(Skirmish(SkirmishConfig(map_name="3m"), rows=1, purpose="eval"), Charge(), seed)


def test_a_battle_is_recorded_from_first_to_last_step():
    panel = battle(4)
    assert panel.teams == [0, 0, 0, 1, 1, 1]
    assert panel.health[0] == [1.0] * 6
    assert len(panel.positions) == len(panel.health) == 24
    assert not any(panel.health[-1][3:]) and any(panel.health[-1][:3])
    assert panel.result == "won"


def test_a_battle_says_whom_every_living_unit_goes_for():
    panel = battle(4)
    assert panel.targets[0] == [-1] * 6 and len(panel.targets) == 24
    assert any(aim >= 3 for frame in panel.targets for aim in frame[:3])
    assert any(0 <= aim < 3 for frame in panel.targets for aim in frame[3:])
    assert panel.targets[-1][3:] == [-1, -1, -1]  # the dead aim at nobody


def test_play_puts_the_battle_on_the_page_of_its_run(tmp_path, capsys):
    world = Skirmish(SkirmishConfig(map_name="3m"), rows=1, purpose="eval")
    _record(Play(run=str(tmp_path), seed=4), world, Charge())
    path = tmp_path / "panels" / "episode_seed4.json"
    assert read_panel(path) == json.loads(json.dumps(asdict(battle(4))))
    assert str(path) in capsys.readouterr().out


def test_a_battle_in_which_nobody_is_left_is_not_won():
    panel = battle(3)
    assert not any(panel.health[-1])
    assert panel.result == "not won"


def test_the_same_seed_is_the_same_battle():
    assert battle(5) == battle(5)


def test_cross_play_is_a_heat_map():
    numbers = np.array([[1.0, 2.0]])
    panel = cross_play_panel(
        CrossPlay("battle_won", ["us"], ["a", "b"], ["train", "train"], numbers, numbers - 1, numbers + 1, {})
    )
    assert (panel.rows, panel.columns, panel.title) == (["us"], ["a", "b"], "Cross-play: battle_won")
    assert (panel.mean, panel.low, panel.high) == ([[1.0, 2.0]], [[0.0, 1.0]], [[2.0, 3.0]])
