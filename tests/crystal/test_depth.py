import numpy as np
import pytest
from crystals import rattled

from twofold.base.errors import CheckpointError
from twofold.crystal.bonds import Frame
from twofold.crystal.depth import STORED, Depth
from twofold.crystal.features import NAMES, features
from twofold.crystal.policy import SpringPolicy
from twofold.crystal.spring import SCALARS, Scalars, SpringStep
from twofold.nets.numpy_mlp import NumpyMLP


def observations(number=200, seed=0):
    return np.random.default_rng(seed).normal(1.0, 0.5, (number, 4)).astype(np.float32)


def depth(gain=0.1):
    return Depth.of(observations(), np.full(200, gain), observations(seed=1))


def test_what_was_seen_in_training_is_at_no_distance():
    assert depth().distances(observations()[7]).min() == pytest.approx(0, abs=1e-6)


def test_distance_is_in_spreads_of_each_feature():
    kept = np.array([[0.0, 0.0], [2.0, 0.02]])  # spreads of 1 and, because it hardly changed, of 0.05
    made = Depth.of(kept, np.ones(2), kept)
    assert made.distances(np.array([1.0, 0.0]))[0] == pytest.approx(np.sqrt(1 / 2))
    assert made.distances(np.array([0.0, -0.1]))[0] == pytest.approx(np.sqrt((0.1 / 0.05) ** 2 / 2))


def test_one_fresh_observation_in_a_hundred_is_beyond_the_limit():
    made = depth()
    inside = np.mean([made.distances(one).min() <= made.limit for one in observations(seed=1)])
    assert inside == pytest.approx(0.99, abs=0.006)


def test_half_as_far_again_is_still_near():
    made = Depth(np.zeros((5, 1)), np.ones(1), np.ones(5), limit=1.0)
    assert made.holds(np.array([1.49])) and not made.holds(np.array([1.51]))


def test_what_training_never_saw_is_too_far():
    strange = observations(seed=2)
    strange[:, 3] += 8.0
    assert not any(depth().holds(one) for one in strange)


def test_where_the_policy_lost_calls_it_is_not_asked():
    assert not any(depth(gain=-0.1).holds(one) for one in observations())
    kept = np.concatenate([observations(100), observations(100) + 10])
    mixed = Depth.of(kept, np.repeat([0.2, -0.2], 100), kept)
    assert all(mixed.holds(one) for one in kept[:100])
    assert not any(mixed.holds(one) for one in kept[100:])


def test_no_more_than_so_many_observations_are_kept():
    number = 2 * STORED + 5
    made = Depth.of(observations(number), np.ones(number), observations(10, seed=1))
    assert 0.6 * STORED < len(made.seen) <= STORED and len(made.gain) == len(made.seen)


def test_a_file_holds_it():
    made = depth()
    again = Depth.among(made.arrays() | {"actor": np.zeros(3)})
    assert again is not None and again.limit == made.limit
    np.testing.assert_array_equal(again.seen, made.seen)
    assert Depth.among({"actor": np.zeros(3)}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seen", np.zeros(4)),
        ("scale", np.ones(3)),
        ("scale", np.zeros(4)),
        ("limit", np.ones(2)),
        ("gain", np.ones(3)),
        ("seen", np.full((2, 4), np.nan)),
    ],
)
def test_a_damaged_one_is_refused(name, value):
    with pytest.raises(ValueError, match="observations of training"):
        Depth.among(depth().arrays() | {f"depth/{name}": value})


def bold(known=None):
    """A policy that always says 0.5, with this depth."""
    layers = [np.zeros((len(NAMES) + 1, len(SCALARS)), np.float32)]
    layers[0][-1] = np.arctanh(0.5)
    return SpringPolicy(NumpyMLP(layers, [], "relu", "tanh"), known)


def seen(atoms):
    """After the second call, the first at which a policy is asked."""
    step = SpringStep()
    for _ in range(2):
        step.observe(Frame(atoms), atoms.positions, atoms.get_forces(), atoms.get_potential_energy())
        atoms.positions = atoms.positions + step.propose()
    return step


def test_beyond_its_depth_a_policy_is_not_asked():
    small = np.array([features(seen(rattled(seed=k)), 0.01) for k in range(40)])
    known = Depth.of(small[:20], np.ones(20), small[20:])
    policy = bold(known)
    assert policy.scalars(seen(rattled(seed=25)), 0.01) != Scalars()
    assert policy.scalars(seen(rattled(times=3, seed=0)), 0.01) == Scalars(), "108 atoms where it saw 4"
    oxygen = rattled(seed=25)
    oxygen.numbers[0] = 8
    assert policy.scalars(seen(oxygen), 0.01) == Scalars(), "a nonmetal where it saw none"


def test_a_policy_that_does_not_see_nonmetals_is_not_asked_where_there_are_some():
    layers = [np.full((23, 6), 0.1, np.float32)]
    kept = np.zeros((30, len(NAMES)), np.float32)
    early = SpringPolicy(NumpyMLP(layers, [], "relu", "tanh"), Depth.of(kept, np.ones(30), kept))
    assert early.knows(kept[0])
    oxide = kept[0].copy()
    oxide[NAMES.index("nonmetals")] = 1e-3
    assert not early.knows(oxide) and bold(Depth.of(kept, np.ones(30), kept + 1)).knows(oxide)


def test_whether_a_policy_is_asked_is_decided_once():
    step, policy = seen(rattled(seed=0)), bold()
    assert policy.scalars(step, 0.01) != Scalars() and step.memory.asked
    step.memory.asked = False
    assert policy.scalars(step, 0.01) == Scalars() and not step.memory.asked


def test_without_a_depth_a_policy_is_asked_about_metals():
    for first, asked in ((29, True), (8, False)):
        atoms = rattled()
        atoms.numbers[0] = first
        assert (bold().scalars(seen(atoms), 0.01) != Scalars()) is asked


def test_a_depth_of_other_features_is_refused():
    with pytest.raises(CheckpointError, match="4 features"):
        bold(depth())
