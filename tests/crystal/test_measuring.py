import numpy as np

from twofold.crystal.library import StructureSet
from twofold.crystal.measuring import depth_of, fresh, path
from twofold.crystal.policy import default_policy
from twofold.crystal.world import RelaxConfig, SpringEnv


def test_each_start_is_measured_where_it_is_decided_who_steps():
    one = StructureSet(structures=("Cu",), rattle=(0.1, 0.2), relax_cell=True)
    depth = depth_of(default_policy(), [(RelaxConfig(sets={"copper": one}), 12)])
    assert len(depth.seen) == len(depth.gain) == 9  # every fourth of twelve says how far fresh ones lie
    calls = (depth.seen * depth.scale)[:, 14]
    np.testing.assert_allclose(calls, 2 / 20, rtol=1e-6)
    assert np.isfinite(depth.gain).all() and depth.limit > 0


def test_starts_of_several_kinds_are_one_measure():
    kinds = [
        RelaxConfig(sets={"one": StructureSet(structures=(name,), rattle=(0.1, 0.2))})
        for name in ("Cu", "Ni")
    ]
    apart, both = (depth_of(default_policy(), [(kind, 4) for kind in some]) for some in (kinds[:1], kinds))
    assert len(apart.seen) == 3 and len(both.seen) == 6
    np.testing.assert_allclose((both.seen * both.scale)[:3], apart.seen * apart.scale, atol=1e-5)


def test_a_path_is_what_is_seen_where_the_policy_is_asked():
    one = StructureSet(structures=("Cu",), rattle=(0.1, 0.2), relax_cell=True)
    env, asked = SpringEnv(RelaxConfig(sets={"copper": one}), "train"), []

    def act(seen):
        asked.append(seen)
        return np.zeros(7)

    seen = path(env, 5, act)
    assert [row.tolist() for row in seen] == [row.tolist() for row in asked]
    np.testing.assert_allclose([row[14] for row in seen], np.arange(2, env.now.calls) / 20, rtol=1e-6)


def test_fresh_starts_are_seen_where_it_is_decided_and_no_further():
    one = StructureSet(structures=("Cu",), rattle=(0.1, 0.2), relax_cell=True)
    seen = fresh(RelaxConfig(sets={"copper": one}), 12)
    assert len(seen) == 3
    np.testing.assert_allclose([row[14] for row in seen], 2 / 20, rtol=1e-6)
    assert seen[0].tolist() != seen[1].tolist()
