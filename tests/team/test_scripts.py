"""Policies that nobody trained: rules by hand, and what they win."""

import numpy as np
import pytest

from twofold.base import tree
from twofold.base.errors import ConfigError, UserError
from twofold.cli import main
from twofold.settings.config import load
from twofold.team.scripts import SCRIPTS, Planner, Script, Uniform, score_script
from twofold.team.worlds.matrix import TwoStepConfig, two_step
from twofold.team.worlds.skirmish import Skirmish, SkirmishConfig


def started(rows=1, map_name="3m"):
    world = Skirmish(SkirmishConfig(map_name=map_name), rows=rows, purpose="eval")
    obs, _ = world.reset(seed=list(range(rows)))
    return world, obs


def stood(world, places, health=None):
    """Put the units of row 0 somewhere, and see."""
    world.battle.position[0] = places
    if health is not None:
        world.battle.health[0] = health
    world._refresh()
    return {"avail": world.avail}


LINE = [[10, 10], [10, 12], [10, 14]]


def test_nobody_in_reach_is_walked_to():
    world, _ = started()
    obs = stood(world, [*LINE, [25, 12], [26, 12], [27, 12]])
    assert Script(world).act(obs)[0].tolist() == [4, 4, 4]  # east


def test_the_nearest_is_shot_or_the_weakest():
    world, _ = started()
    obs = stood(world, [*LINE, [13, 12], [14, 12], [12.5, 12]], health=[45, 45, 45, 45, 3, 45])
    assert Script(world).act(obs)[0].tolist() == [8, 8, 8]
    assert Script(world, focus=True).act(obs)[0].tolist() == [7, 7, 7]


def test_the_hurt_step_back_while_they_reload():
    world, _ = started()
    obs = stood(world, [*LINE, [13, 12], [14, 12], [15, 12]], health=[5, 5, 45, 45, 45, 45])
    world.battle.cooldown[0, :3] = [12.0, 0.0, 12.0]
    action = Script(world, focus=True, steps_back=True).act(obs)[0]
    assert action[0] == 5 and action[1] >= 6 and action[2] >= 6  # west; ready to fire; not hurt


def test_the_dead_do_nothing():
    world, _ = started()
    obs = stood(world, [*LINE, [13, 12], [14, 12], [15, 12]], health=[0, 45, 45, 45, 45, 45])
    assert Script(world, focus=True, steps_back=True).act(obs)[0, 0] == 0


def test_healers_turn_to_the_most_hurt():
    world, _ = started(map_name="MMM")
    world.battle.health[0, 4] = 10
    world.battle.position[0, 9] = world.battle.position[0, 4]
    world._refresh()
    assert Script(world).act({"avail": world.avail})[0, 9] == 6 + 4


@pytest.mark.parametrize("kind", ["nearest", "focus", "step_back", "random"])
def test_scripts_only_do_what_is_available(kind):
    world, obs = started(rows=8, map_name="MMM2")
    policy = SCRIPTS[f"script/{kind}"][0](world, np.random.default_rng(0))
    for _ in range(40):
        action = policy.act(obs)
        assert np.take_along_axis(obs["avail"], action[..., None], -1).all()
        obs, *_ = world.step(action)


def test_the_planner_wins_what_its_scripts_lose_and_leaves_the_world_alone():
    world, obs = started(map_name="3m")
    planner = Planner(world, np.random.default_rng(0), rollouts=16)
    before = tree.copy(world.snapshot())
    planner.act(obs)
    assert tree.equal(before, world.snapshot())
    while not world.over.all():
        *_, info = world.step(planner.act(obs))
    assert info["episode"]["battle_won"][0] == 1


def test_a_planner_goes_on_with_the_best_battle_that_it_found():
    world, obs = started(map_name="3m")
    planner = Planner(world, np.random.default_rng(0), rollouts=16)
    world.step(planner.act(obs))
    (plan,) = planner._plans
    planner._inside.reset(seed=list(range(16)))
    assert len(plan) > 5
    assert all((planner._actions(plan, step)[-1] == plan[step]).all() for step in range(len(plan)))
    planner._actions(plan, len(plan))  # behind its end the script goes on
    planner.reset(np.ones(1, bool))
    assert len(planner._plans[0]) == 0


def test_a_script_of_another_world_is_refused():
    with pytest.raises(ConfigError, match="team/skirmish only"):
        SCRIPTS["script/nearest"][0](
            two_step(TwoStepConfig(), rows=1, purpose="eval"), np.random.default_rng(0)
        )


def test_uniform_actions_are_all_drawn():
    drawn = {
        int(Uniform(np.random.default_rng(i)).act({"avail": np.array([[[0, 1, 1]]])})[0, 0])
        for i in range(30)
    }
    assert drawn == {1, 2}


def test_an_unlearned_policy_is_scored_by_name(capsys):
    config = load(None, "skirmish", env_args={"map_name": "3m"}).config
    won = score_script("script/nearest", config, 20, 3_000_000)["eval"]["battle_won"]
    assert won["episodes"] == 20 and 0 <= won["low"] <= won["mean"] <= won["high"] <= 1
    with pytest.raises(UserError, match="there are script/random"):
        score_script("script/nobody", config, 1, 0)
    words = ["--env-config=skirmish", "env_args.map_name=3m", "--episodes=2"]
    assert main(["eval", "--policy=script/random", *words]) == 0
    assert "battle_won" in capsys.readouterr().out
    assert main(["eval", "--policy=script/random"]) == 2
    assert "--env-config=NAME" in capsys.readouterr().err
