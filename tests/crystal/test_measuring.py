import numpy as np

from twofold.crystal.library import StructureSet
from twofold.crystal.measuring import depth_of, fresh
from twofold.crystal.policy import default_policy
from twofold.crystal.world import RelaxConfig


def test_each_start_is_measured_where_it_is_decided_who_steps():
    one = StructureSet(structures=("Cu",), rattle=(0.1, 0.2), relax_cell=True)
    depth = depth_of(default_policy(), RelaxConfig(sets={"copper": one}), 12)
    assert len(depth.seen) == len(depth.gain) == 9  # every fourth of twelve says how far fresh ones lie
    calls = (depth.seen * depth.scale)[:, 14]
    np.testing.assert_allclose(calls, 2 / 20, rtol=1e-6)
    assert np.isfinite(depth.gain).all() and depth.limit > 0


def test_fresh_starts_are_seen_where_it_is_decided_and_no_further():
    one = StructureSet(structures=("Cu",), rattle=(0.1, 0.2), relax_cell=True)
    seen = fresh(RelaxConfig(sets={"copper": one}), 12)
    assert len(seen) == 3
    np.testing.assert_allclose([row[14] for row in seen], 2 / 20, rtol=1e-6)
    assert seen[0].tolist() != seen[1].tolist()
