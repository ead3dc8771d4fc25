"""The skirmish world: SMAC's sizes, rules with known outcomes, exact resuming."""

import json

import numpy as np
import pytest

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.rows.check import check_world
from twofold.team.worlds.battlefield import load_battlefield, map_names
from twofold.team.worlds.skirmish import Skirmish, SkirmishConfig
from twofold.team.worlds.space import shape_of


def skirmish(rows=2, **settings):
    return Skirmish(SkirmishConfig(**settings), rows=rows, purpose="train")


def started(rows=2, **settings):
    world = skirmish(rows, **settings)
    world.reset(seed=list(range(rows)))
    return world


def random_actions(obs, rng):
    return (rng.random(obs["avail"].shape) * obs["avail"]).argmax(-1)


def duel(distance, our="marine", their="marine", **world):
    """A map of one unit against one, so far apart that the jitter does not matter."""
    return {
        "limit": 40,
        "types": world,
        "allies": [{"type": our, "count": 1, "at": [16 - distance / 2, 16]}],
        "enemies": [{"type": their, "count": 1, "at": [16 + distance / 2, 16]}],
    }


@pytest.fixture
def on_map(tmp_path):
    def make(content, rows=1, **settings):
        path = tmp_path / "own.json"
        path.write_text(json.dumps(content))
        return started(rows, map_name=str(path), **settings)

    return make


# Observation, state and action sizes of SMAC's maps of the same names.
SMAC_SIZES = {
    "3m": (3, 30, 48, 9, 60),
    "8m": (8, 80, 168, 14, 120),
    "2s3z": (5, 80, 120, 11, 120),
    "3s5z": (8, 128, 216, 14, 150),
    "5m_vs_6m": (5, 55, 98, 12, 70),
    "3s_vs_5z": (3, 48, 68, 11, 250),
    "2c_vs_64zg": (2, 332, 342, 70, 400),
    "MMM": (10, 160, 290, 16, 150),
}


@pytest.mark.parametrize("name", SMAC_SIZES)
def test_map_has_the_sizes_of_smac(name):
    shape = shape_of(skirmish(map_name=name).single_observation_space)
    assert (shape.agents, shape.obs, shape.state, shape.actions, shape.limit) == SMAC_SIZES[name]


@pytest.mark.parametrize("name", ["3m", "2s3z", "2c_vs_64zg", "MMM"])
def test_world_keeps_the_contract(name):
    assert check_world(skirmish(map_name=name), steps=60) == []


def test_a_battle_resumes_exactly_from_its_middle():
    world, other, rng = started(map_name="2s3z"), skirmish(map_name="2s3z"), np.random.default_rng(0)
    obs, _ = world.reset(seed=[3, 4])
    for _ in range(12):
        obs = world.step(random_actions(obs, rng))[0]
    other.restore(tree.copy(world.snapshot()))
    for _ in range(10):
        actions = random_actions(obs, rng)
        one, two = world.step(actions), other.step(actions)
        assert tree.equal(one[0], two[0]) and (one[1] == two[1]).all()
        obs = one[0]


def test_only_the_masked_rows_begin_anew():
    world = started(rows=3)
    rng = np.random.default_rng(0)
    obs, _ = world.reset(seed=[1, 2, 3])
    for _ in range(5):
        obs = world.step(random_actions(obs, rng))[0]
    after, _ = world.reset(seed=[7, 8, 9], options={"reset_mask": np.array([False, True, False])})
    assert after["step"].tolist() == [5, 0, 5]
    assert (after["state"][[0, 2]] == obs["state"][[0, 2]]).all()


def test_a_marine_hits_for_six_every_fifteen_loops(on_map):
    world = on_map(duel(4, their="target", target={"health": 1000, "damage": 0, "speed": 0.0, "range": 0.1}))
    for _ in range(15):  # 120 loops
        world.step(np.array([[6]]))
    assert 1000 - world.battle.health[0, 1] == 6 * 8


def test_armour_counts_for_each_of_a_zealots_two_hits():
    field = load_battlefield("2s3z")
    zealot, stalker = field.kinds.index("zealot"), field.kinds.index("stalker")
    assert field.damage[zealot, stalker] == 2 * (8 - 1)
    assert field.damage[stalker, stalker] == 13 + 5 - 1


def test_a_perfect_battle_pays_the_scale_rate(on_map):
    frail = duel(4, their="target", target={"health": 6, "damage": 0, "speed": 0.0, "range": 0.1})
    world = on_map(frail)
    total = 0.0
    for _ in range(3):
        _, reward, terminated, _, info = world.step(np.array([[6]]))
        total += reward[0]
    assert total == pytest.approx(20.0)
    assert terminated[0] and info["episode"]["battle_won"][0] == 1.0


def test_sparse_reward_is_minus_one_for_a_defeat(on_map):
    strong = duel(4, their="target", target={"health": 1000, "damage": 100, "range": 5})
    world = on_map(strong, reward_sparse=True)
    assert sum(world.step(np.array([[1]]))[1][0] for _ in range(4)) == -1.0


def test_shields_that_grow_pay_as_in_smac(on_map):
    world = on_map(duel(14, their="wall", wall={"health": 10, "shield": 50, "damage": 0, "speed": 0.0}))
    world.battle.shield[0, 1] = 20
    world.battle.quiet[0, 1] = 100
    _, reward, *_ = world.step(np.array([[1]]))
    assert reward[0] == pytest.approx(1.0 * 20 / (60 + 10 + 200))


def test_a_unit_that_bursts_dies_of_its_own_attack_and_hurts_all_around(on_map):
    two = duel(2, their="baneling")
    two["allies"][0]["count"] = 2
    world = on_map(two)
    for _ in range(6):
        *_, info = world.step(np.array([[1, 1]]))
    assert info["episode"]["dead_enemies"][0] == 1
    assert (world.battle.health[0, :2] == 45 - 35).all()  # 16, and 19 more to light units


def test_the_state_scales_cooldowns_and_energy_as_smac_does():
    world = started(map_name="MMM")
    world.battle.cooldown[:], world.battle.energy[:] = 15.0, 50.0
    state = world._observe()["state"][0, :70].reshape(10, 7)  # health, cooldown, x, y, three bits of type
    assert state[:, 1] == pytest.approx([15 / 25] * 2 + [15 / 15] * 7 + [50 / 200])


def test_sparse_reward_is_one_for_a_win_and_nothing_else(on_map):
    frail = duel(4, their="target", target={"health": 6, "damage": 0, "speed": 0.0, "range": 0.1})
    world = on_map(frail, reward_sparse=True)
    rewards = [world.step(np.array([[6]]))[1][0] for _ in range(4)]
    assert sum(rewards) == 1.0


def test_the_dead_can_only_do_nothing():
    world = started(map_name="3m")
    world.battle.health[0, 1] = 0
    obs = world.step(np.ones((2, 3), int))[0]
    assert obs["avail"][0, 1].tolist() == [1] + [0] * 8
    assert obs["avail"][0, 0, 0] == 0
    assert not obs["obs"][0, 1, 4:].any()


def test_an_enemy_out_of_reach_cannot_be_attacked_and_an_unavailable_action_stands_still():
    world = started(map_name="3m")
    obs, _ = world.reset(seed=[1, 2])
    assert not obs["avail"][..., 6:].any()
    before = world.battle.position[:, :3].copy()
    world.step(np.full((2, 3), 6))
    assert np.allclose(world.battle.position[:, :3], before, atol=0.3)  # crowding may nudge, nobody walks


def test_enemies_walk_to_the_allies_and_shoot_the_nearest(on_map):
    world = on_map(duel(14))
    for _ in range(12):
        world.step(np.array([[1]]))
    assert world.battle.health[0, 0] < 45
    assert world.battle.aim[0, 0] == 0


def test_shields_take_damage_first_and_grow_again_after_ten_quiet_seconds(on_map):
    world = on_map(duel(14, our="stalker", their="target", target={"health": 10, "damage": 0, "speed": 0.0}))
    world.battle.shield[0, 0] = 50
    for _ in range(20):
        world.step(np.array([[1]]))
    assert world.battle.shield[0, 0] == pytest.approx(51)


def test_a_medivac_heals_an_ally_and_spends_energy():
    world = started(map_name="MMM")
    field = world.field
    medivac, marine = field.kinds.index("medivac"), field.kinds.index("marine")
    world.battle.health[:, marine] = 20
    energy = world.battle.energy[0, medivac]
    actions = np.ones((2, 10), int)
    actions[:, medivac] = 6 + marine
    world.step(actions)
    assert world.battle.health[0, marine] == pytest.approx(20 + 4.5)
    assert world.battle.energy[0, medivac] == pytest.approx(energy - 1.5)


def test_only_tall_units_walk_on_cliffs():
    world = started(map_name="2c_vs_64zg")
    world.battle.position[0, 0] = world.battle.position[0, 5] = (12, 16)
    world.step(np.ones((2, 2), int))
    inside = (world.battle.position > (10, 13)).all(-1) & (world.battle.position < (14, 19)).all(-1)
    assert inside[0, 0] and not inside[0, 2:].any()


@pytest.mark.parametrize("continuing", [False, True])
def test_a_time_out_is_an_end_as_in_smac_unless_the_episode_continues(on_map, continuing):
    map_file = duel(14, their="target", target={"health": 10, "damage": 0, "speed": 0.0}) | {"limit": 3}
    world = on_map(map_file, continuing_episode=continuing)
    ends = [world.step(np.array([[1]]))[2:4] for _ in range(3)]
    assert [bool(t[0]) for t, _ in ends] == [False, False, not continuing]
    assert [bool(t[0]) for _, t in ends] == [False, False, continuing]


def test_optional_columns_are_added():
    shape = shape_of(
        skirmish(
            map_name="3m", obs_last_action=True, obs_timestep_number=True, state_timestep_number=True
        ).single_observation_space
    )
    assert (shape.obs, shape.state) == (30 + 2 * 9 + 1, 49)
    joined = shape_of(skirmish(map_name="3m", obs_instead_of_state=True).single_observation_space)
    assert joined.state == 3 * 30


def test_a_picture_of_a_battle_shows_both_teams():
    picture = started(map_name="3m").render()[0]
    assert picture.shape == (512, 512, 3) and picture.dtype == np.uint8
    colours = {tuple(c) for c in picture.reshape(-1, 3)}
    assert (84, 160, 255) in colours and (255, 96, 84) in colours


def test_a_picture_shows_the_part_where_units_stand_and_how_the_battle_ended():
    from twofold.team.worlds.drawing import _around, _result

    world = started(rows=1, map_name="3m")
    x0, y0, x1, y1 = _around(world.battle, 0, 512, 512)
    assert (x1 - x0) == (y1 - y0) < 512 and x0 <= world.battle.position[0, :, 0].min() * 16 <= x1
    assert _result(world.battle, 0, 3) == "" and _result(world.battle, 0, 60) == "  called off"
    world.battle.health[0, 3:] = 0
    assert _result(world.battle, 0, 20) == "  won"
    world.battle.health[0, :3] = 0
    assert _result(world.battle, 0, 20) == "  lost"


def test_an_unknown_map_names_those_there_are():
    with pytest.raises(ConfigError, match="3s_vs_5z"):
        skirmish(map_name="9m")


# Allies, enemies, limit, columns of an observation and of the state, actions: as smac tells them of its 23 maps.
SMAC = {
    "3m": (3, 3, 60, 30, 48, 9), "8m": (8, 8, 120, 80, 168, 14), "25m": (25, 25, 150, 250, 950, 31),
    "5m_vs_6m": (5, 6, 70, 55, 98, 12), "8m_vs_9m": (8, 9, 120, 85, 179, 15), "10m_vs_11m": (10, 11, 150, 105, 243, 17),
    "27m_vs_30m": (27, 30, 180, 285, 1170, 36), "MMM": (10, 10, 150, 160, 290, 16), "MMM2": (10, 12, 180, 176, 322, 18),
    "2s3z": (5, 5, 120, 80, 120, 11), "3s5z": (8, 8, 150, 128, 216, 14), "3s5z_vs_3s6z": (8, 9, 170, 136, 230, 15),
    "3s_vs_3z": (3, 3, 150, 36, 54, 9), "3s_vs_4z": (3, 4, 200, 42, 61, 10), "3s_vs_5z": (3, 5, 250, 48, 68, 11),
    "1c3s5z": (9, 9, 180, 162, 270, 15), "2m_vs_1z": (2, 1, 150, 16, 26, 7), "corridor": (6, 24, 400, 156, 282, 30),
    "6h_vs_8z": (6, 8, 150, 78, 140, 14), "2s_vs_1sc": (2, 1, 300, 17, 27, 7),
    "so_many_baneling": (7, 32, 100, None, None, 38), "bane_vs_bane": (24, 24, 200, 336, None, 30),
    "2c_vs_64zg": (2, 64, 400, 332, 342, 70),
}  # fmt: skip


@pytest.mark.parametrize("name", SMAC)
def test_every_map_of_smac_is_here_with_its_sizes(name):
    assert set(map_names()) == set(SMAC)
    world = skirmish(map_name=name)
    shape = shape_of(world.single_observation_space)
    sizes = (shape.agents, world.field.enemies, shape.limit, shape.obs, shape.state, shape.actions)
    assert all(wanted in (None, size) for wanted, size in zip(SMAC[name], sizes, strict=True))


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"limit": 5, "allies": [], "enemies": []}',
        '{"limit": 5, "allies": [{"type": "dragon", "count": 1, "at": [1, 1]}], "enemies": []}',
    ],
)
def test_a_broken_map_is_a_config_error(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ConfigError):
        skirmish(map_name=str(path))


def test_only_training_battles_are_eased_and_a_whole_side_alike():
    worlds = {
        purpose: Skirmish(SkirmishConfig(map_name="2s3z", train_ease=0.4), rows=64, purpose=purpose)
        for purpose in ("train", "eval")
    }
    left = {}
    for purpose, world in worlds.items():
        world.reset(seed=list(range(64)))
        battle, field = world.battle, world.field
        share = battle.health / field.each("health")
        assert (share[:, : field.allies] == 1).all()
        left[purpose] = share[:, field.allies :]
        np.testing.assert_allclose(
            battle.shield[:, field.allies :] / field.each("shield")[field.allies :], left[purpose], rtol=1e-6
        )
    assert (left["eval"] == 1).all()
    np.testing.assert_allclose(left["train"], left["train"][:, :1].repeat(5, 1), rtol=1e-6)
    assert 0.6 <= left["train"].min() < 0.65 and 0.95 < left["train"].max() <= 1


def test_the_ease_follows_the_battles_and_no_evaluation():
    cfg = SkirmishConfig(map_name="3m", train_ease=0.5, train_ease_step=0.02)
    train, test = (Skirmish(cfg, rows=4, purpose=purpose) for purpose in ("train", "eval"))
    train.ease.follow(np.array([True, True, True, False]), np.array([True, True, False, True]))
    assert train.ease.level == pytest.approx(0.48)  # two won, one lost, one not over
    train.ease.follow(np.ones(4, bool), np.zeros(4, bool))
    assert train.ease.level == 0.5  # never easier than the beginning
    train.ease.level = 0.0
    for world in (train, test):
        world.reset(seed=[1, 2, 3, 4])
    strength = train.battle.health[:, 3:] / 45
    assert (strength >= 0.85 - 1e-6).all() and (strength < 1).any() and (strength == 1).any()
    assert (np.ptp(strength, axis=1) > 0).any()  # every enemy has its own
    assert (test.battle.health[:, 3:] == 45).all() and test.ease.level == 0


def test_the_ease_is_part_of_what_a_resume_needs():
    cfg = SkirmishConfig(map_name="3m", train_ease=0.5, train_ease_step=0.02)
    world, other = (Skirmish(cfg, rows=1, purpose="train") for _ in range(2))
    world.ease.level = 0.123
    other.restore(world.snapshot())
    assert other.ease.level == 0.123
