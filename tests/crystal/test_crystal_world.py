import numpy as np
import pytest

from twofold.base.errors import ConfigError, UserError
from twofold.crystal.displacements import GraphConfig, GraphEnv, element_features, graph
from twofold.crystal.features import NAMES
from twofold.crystal.rewards import reward, telescoped
from twofold.crystal.structures import builtin
from twofold.crystal.structures import load as structures_of
from twofold.crystal.world import RelaxConfig, SpringEnv
from twofold.rows.check import check_world
from twofold.settings.config import load
from twofold.settings.registry import worlds

COPPER = {"cu": {"structures": ["Cu"], "rattle": [0.1, 0.1]}}
WEIGHTS = (2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("name", "done", "wanted"),
    [
        ("force", False, -0.1),
        ("log_force", False, 1.0),
        ("step", False, -1.0),
        ("step", True, 0.0),
        ("hybrid", False, -2 * 0.1 + 3 * 1.0 - 4.0),
        ("scale_free", False, 0.5 - 0.1),
        ("scale_free", True, 0.5 - 0.1 + 1),
    ],
)
def test_rewards_have_their_exact_values(name, done, wanted):
    assert reward(name, 0.1 * 10**0.5, 0.1, done, WEIGHTS, 0.1) == pytest.approx(wanted)


def test_a_telescoped_return_says_the_calls_alone():
    env = SpringEnv(RelaxConfig(sets=COPPER, telescoped=True), "eval")
    for action in (np.zeros(7), np.full(7, 0.3)):
        env.reset(seed=3)
        start, total, done = env.now.force, 0.0, False
        while not done:
            _, gained, done, _, _ = env.step(action)
            total += gained
        assert total == pytest.approx(np.log10(start / 0.01) - 0.1 * (env.now.calls - 1) + 1)


def test_a_large_fall_counts_whole_and_a_large_rise_in_part():
    assert telescoped(10.0, 0.001, 0.01, True, 0.1) == pytest.approx(3 - 0.1 + 1)
    assert telescoped(0.1, 1e4, 0.01, False, 0.1) == pytest.approx(-2 - 0.1)


def test_the_spring_world_keeps_the_contract():
    world = worlds.get("crystal/spring").make(RelaxConfig(sets=COPPER), rows=2, purpose="train")
    assert check_world(world, steps=8) == []


def test_the_displacement_world_keeps_the_contract():
    cfg = GraphConfig(sets=COPPER, max_atoms=5, nfake=3, num_neighbors=12)
    world = worlds.get("crystal/displacements").make(cfg, rows=2, purpose="train")
    assert check_world(world, steps=7) == []


def test_the_prior_relaxes_an_episode_and_counts_its_calls():
    env = SpringEnv(RelaxConfig(sets=COPPER), "eval")
    env.reset(seed=3)
    done, info, steps = False, {}, 0
    while not done:
        _, _, done, cut, info = env.step(np.zeros(7))
        steps += 1
        assert not cut
    assert info["episode"]["calls"] == steps + 1
    assert info["episode"]["relaxed"] == 1
    assert info["episode"]["final_force"] <= 0.01
    assert info["episode"]["return"] == pytest.approx(-np.log2(steps + 1))


def test_a_step_limit_is_a_truncation():
    env = SpringEnv(RelaxConfig(sets=COPPER, eps=1e-9, max_steps=2), "train")
    env.reset(seed=0)
    env.step(np.zeros(7))
    assert env.step(np.zeros(7))[2:4] == (False, True)


def test_evaluation_may_have_sets_of_its_own():
    cfg = RelaxConfig(sets=COPPER, eval_sets={"al": {"structures": ["Al"], "rattle": [0.1, 0.1]}})
    env = SpringEnv(cfg, "eval")
    env.reset(seed=0)
    assert set(env.now.atoms.symbols) == {"Al"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rattel": 1}, "sets.cu.rattel"),
        ({"weight": 0}, "sets.cu.weight must be above 0, got 0"),
        ({"weight": "heavy"}, "sets.cu.weight must be a finite number, got 'heavy'"),
        ({"rattle": 0.05}, "a range [least, most], got [0.05]"),
        ({"rattle": [0.1, -0.1]}, "sets.cu.rattle"),
        ({"pick": [-1]}, "sets.cu.pick.0 must be at least 0"),
        ({"structures": []}, "needs at least one"),
        ({"rattle": [0.2, 0.1]}, "least, most"),
    ],
)
@pytest.mark.parametrize("world", ["crystal/spring", "crystal/displacements"])
def test_wrong_sets_are_one_line_that_names_them(world, wrong, words):
    with pytest.raises(ConfigError) as problem:
        load(None, None, env=world, env_args={"sets": {"cu": wrong}})
    assert words in str(problem.value) and "\n" not in str(problem.value)


def test_a_world_without_sets_relaxes_copper_and_one_with_none_is_refused():
    env = SpringEnv(RelaxConfig(), "train")
    env.reset(seed=0)
    assert set(env.now.atoms.symbols) == {"Cu"}
    with pytest.raises(ConfigError, match="at least one"):
        SpringEnv(RelaxConfig(sets={}), "train")


def test_a_displacement_moves_atoms_by_so_much_and_nothing_else():
    env = GraphEnv(GraphConfig(sets=COPPER, max_atoms=6, max_move=0.1), "eval")
    env.reset(seed=0)
    before = env.now.atoms.positions.copy()
    action = np.zeros((6, 3))
    action[0], action[1] = [1, 0, 0], [-1, 0, 0]
    action[5] = 1  # padding
    obs = env.step(action.ravel())[0]
    moved = env.now.atoms.positions - before
    np.testing.assert_allclose(moved[:2], [[0.1, 0, 0], [-0.1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(moved[2:], 0, atol=1e-12)
    np.testing.assert_allclose(obs["moved"][:4], moved, atol=1e-6)


def test_net_translation_is_removed_and_no_lattice_vector_is_carried():
    env = GraphEnv(GraphConfig(sets=COPPER, max_atoms=4), "eval")
    env.reset(seed=0)
    for _ in range(5):
        before = env.now.atoms.positions.copy()
        obs = env.step(np.ones(12))[0]
        np.testing.assert_allclose(env.now.atoms.positions, before, atol=1e-12)
        np.testing.assert_allclose(obs["moved"], 0, atol=1e-12)


def test_too_close_atoms_shorten_the_step():
    cfg = GraphConfig(sets=COPPER, max_atoms=4, max_move=3.0, r0=1.5)
    env = GraphEnv(cfg, "eval")
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    from twofold.crystal.structures import nearest_pair

    for _ in range(5):
        env.step(rng.uniform(-1, 1, 12))
        assert nearest_pair(env.now.atoms) >= 1.5 - 1e-3


def test_a_demonstration_leads_to_the_minimum():
    cfg = GraphConfig(sets=COPPER, max_atoms=4, max_move=1.0, nfake=1, eps=0.05)
    env = GraphEnv(cfg, "train")
    obs, _ = env.reset(seed=1)
    assert obs["offered"][0] == 1
    assert env.step(obs["demonstration"])[2], "one step along the demonstration ends the episode"


def test_evaluation_offers_no_demonstration():
    env = GraphEnv(GraphConfig(sets=COPPER, max_atoms=4, nfake=1), "eval")
    assert env.reset(seed=1)[0]["offered"][0] == 0


def test_stagnation_is_seen_after_n_gr_steps():
    env = GraphEnv(GraphConfig(sets=COPPER, max_atoms=4, n_gr=3, f_max=0.01), "train")
    env.reset(seed=0)
    stuck = [env.step(np.zeros(12))[0]["stuck"][0] for _ in range(13)]
    assert stuck.index(1.0) == 11, "ten still moves fill the window, the third still step in a row counts"


def test_the_graph_holds_the_nearest_neighbours():
    cfg = GraphConfig(max_atoms=4, num_neighbors=12)
    index, vector = graph(builtin("Cu"), cfg)
    assert (index >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(vector, axis=-1), 3.61 / 2**0.5, atol=1e-3)


def test_element_features_differ_and_are_finite():
    table = element_features()
    assert table.shape == (119, 12) and np.isfinite(table).all()
    assert len(np.unique(table[1:100].round(6), axis=0)) == 99


def test_too_many_atoms_name_the_setting():
    env = GraphEnv(GraphConfig(sets=COPPER, max_atoms=2), "train")
    with pytest.raises(ConfigError, match="max_atoms"):
        env.reset(seed=0)


def prior_path(name, steps=60, **settings):
    """An episode of the untrained step on the structures of a set."""
    env = SpringEnv(RelaxConfig(sets={"one": {"structures": [name], **settings}}, max_steps=steps), "train")
    seen, over = [env.reset(seed=0)[0]], False
    first = env.now.atoms.copy()
    while not over:
        obs, _, done, cut, _ = env.step(np.zeros(7))
        seen.append(obs)
        over = done or cut
    return env.now, first, np.array(seen)


def test_a_slab_keeps_the_layer_that_is_held():
    now, first, seen = prior_path(
        "shipped:surfaces.extxyz", pick=[1], at_rest=False, rattle=[0.05, 0.05], r0=0.5
    )
    held = first.constraints[0].index
    assert len(held) == 4 and now.force <= 0.01
    np.testing.assert_array_equal(now.atoms.positions[held], first.positions[held])
    assert np.allclose(seen[:, NAMES.index("held")], 4 / 14)
    assert (seen[:, NAMES.index("nonmetals")] > 0).all()


def test_a_cell_relaxes_with_its_atoms_in_one_call_a_step():
    now, first, seen = prior_path("Ni3Al:L12", strain=0.02, rattle=[0.05, 0.05], cell=True)
    assert now.force <= 0.01 and now.calls == len(seen)
    assert np.abs(now.atoms.cell.array - first.cell.array).max() > 1e-3
    assert (seen[:, NAMES.index("cell")] == 1).all()


def test_a_molecule_is_stepped_in_internal_coordinates():
    now, first, seen = prior_path(
        "shipped:molecules.extxyz", steps=3, pick=[0], at_rest=False, rattle=[0.05, 0.05], r0=0.5
    )
    assert len(first) == 9 and now.calls == 4
    assert (seen[:, NAMES.index("internal coordinates")] == 1).all()


def test_sets_may_repeat_cells_and_take_atoms_out():
    env = SpringEnv(
        RelaxConfig(sets={"one": {"structures": ["Cu"], "repeat": [2, 1, 1], "vacancies": 1}}), "train"
    )
    env.reset(seed=0)
    assert len(env.now.atoms) == 7


def test_shipped_structures_are_named_or_refused():
    with pytest.raises(UserError, match=r"no shipped structures 'oxides\.extxyz': there are alloys\.extxyz"):
        structures_of("shipped:oxides.extxyz")
    with pytest.raises(UserError, match="no shipped structures"):
        structures_of("shipped:../world.py")
