"""The StarCraft II adapter against a FAKE of smac's interface: sizes as recorded from the map 3m, no game behind it."""

import sys
from types import ModuleType

import numpy as np
import pytest

from twofold.base.errors import UserError
from twofold.team.worlds import starcraft
from twofold.team.worlds.space import shape_of
from twofold.team.worlds.starcraft import StarCraftConfig, sc2


class FakeStarCraft2Env:
    """FAKE: the calls and return values of smac.env.StarCraft2Env on 3m, with a scripted battle."""

    def __init__(self, **settings):
        self.settings, self.steps, self.closed = settings, 0, False

    def get_env_info(self):
        return {"state_shape": 48, "obs_shape": 30, "n_actions": 9, "n_agents": 3, "episode_limit": 60}

    def reset(self):
        self.steps = 0
        return self.get_obs(), self.get_state()

    def get_obs(self):
        return [np.full(30, self.steps + agent, np.float32) for agent in range(3)]

    def get_state(self):
        return np.full(48, self.steps, np.float32)

    def get_avail_actions(self):
        return [[0, 1, 1, 1, 1, 1, 0, 0, int(self.steps > 0)] for _ in range(3)]

    def step(self, actions):
        assert [type(a) for a in actions] == [int] * 3
        self.steps += 1
        if self.steps == 4:
            return 11.0, True, {"battle_won": True, "dead_allies": 1, "dead_enemies": 3}
        return 0.5, False, {"battle_won": False}

    def close(self):
        self.closed = True


class Endless(FakeStarCraft2Env):
    """FAKE: a battle that nobody wins; smac calls it off after 60 steps and says so only if episodes continue."""

    def step(self, actions):
        self.steps += 1
        cut = {"episode_limit": True} if self.settings["continuing_episode"] else {}
        over = self.steps >= 60
        return 0.0, over, {"battle_won": False} | (cut if over else {})


@pytest.fixture
def fake_smac(monkeypatch, tmp_path):
    names = ["smac", "smac.env", "smac.env.starcraft2", "smac.env.starcraft2.starcraft2"]
    for name in names:
        module = ModuleType(name)
        module.__path__ = []
        module.__spec__ = __import__("importlib").machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules[names[-1]].StarCraft2Env = FakeStarCraft2Env
    (tmp_path / "Maps" / "SMAC_Maps").mkdir(parents=True)
    (tmp_path / "Maps" / "SMAC_Maps" / "3m.SC2Map").touch()
    (tmp_path / "Versions" / "Base69232").mkdir(parents=True)
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    return tmp_path


def test_a_battle_comes_through_with_its_masks_rewards_and_result(fake_smac):
    world = sc2(StarCraftConfig(map_name="3m"), rows=1, purpose="train")
    shape = shape_of(world.single_observation_space)
    assert (shape.agents, shape.obs, shape.state, shape.actions, shape.limit) == (3, 30, 48, 9, 60)
    obs, _ = world.reset(seed=[0], options={"reset_mask": np.ones(1, bool)})
    assert obs["avail"][0, 0].tolist() == [0, 1, 1, 1, 1, 1, 0, 0, 0]
    rewards = []
    for _ in range(4):
        obs, reward, terminated, truncated, info = world.step(np.ones((1, 3), int))
        rewards.append(reward[0])
    assert sum(rewards) == pytest.approx(12.5) and terminated[0] and not truncated[0]
    assert info["episode"]["battle_won"][0] == 1.0 and obs["avail"][0, 0, 8] == 1


@pytest.mark.parametrize("continuing", [False, True])
def test_a_time_out_is_an_end_as_in_pymarl_unless_the_episode_continues(fake_smac, continuing):
    sys.modules["smac.env.starcraft2.starcraft2"].StarCraft2Env = Endless
    world = sc2(StarCraftConfig(map_name="3m", continuing_episode=continuing), rows=1, purpose="train")
    world.reset(seed=[0], options={"reset_mask": np.ones(1, bool)})
    for _ in range(60):
        _, _, terminated, truncated, _ = world.step(np.ones((1, 3), int))
    assert (bool(terminated[0]), bool(truncated[0])) == (not continuing, continuing)


def test_the_game_version_is_recorded_and_the_run_is_called_inexact(fake_smac):
    world = sc2(StarCraftConfig(map_name="3m"), rows=1, purpose="train")
    assert world.metadata["game_version"] == "Base69232" and world.metadata["exact"] is False


def test_settings_reach_the_game_under_their_own_names(fake_smac):
    world = sc2(StarCraftConfig(map_name="3m", reward_win=100.0), rows=1, purpose="train")
    assert world.envs[0].game.env.settings["reward_win"] == 100.0


def test_absent_smac_names_the_skirmish_map_to_use_instead(monkeypatch):
    monkeypatch.setattr(starcraft.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"skirmish env_args.map_name=3s_vs_5z"):
        sc2(StarCraftConfig(map_name="3s_vs_5z"), rows=1, purpose="train")


def test_the_optimiser_called_smac_is_recognised(monkeypatch):
    for name in ("smac", "smac.facade"):
        module = ModuleType(name)
        module.__spec__ = __import__("importlib").machinery.ModuleSpec(name, None)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(UserError, match="SMAC3"):
        sc2(StarCraftConfig(), rows=1, purpose="train")


def test_an_absent_game_or_map_is_named(fake_smac, monkeypatch):
    with pytest.raises(UserError, match=r"no map .*8m.SC2Map"):
        sc2(StarCraftConfig(map_name="8m"), rows=1, purpose="train")
    monkeypatch.setenv("SC2PATH", str(fake_smac / "nowhere"))
    with pytest.raises(UserError, match="set SC2PATH"):
        sc2(StarCraftConfig(map_name="3m"), rows=1, purpose="train")
