import subprocess
import sys

import numpy as np
import pytest
from ase.build import add_adsorbate, fcc111
from ase.calculators.emt import EMT
from ase.cluster import Octahedron
from crystals import rattled

from twofold.base.errors import CheckpointError
from twofold.crystal.bonds import Frame
from twofold.crystal.features import NAMES
from twofold.crystal.policy import DEFAULT, SpringPolicy, default_policy, load_weights
from twofold.crystal.spring import SCALARS, Scalars, SpringStep
from twofold.crystal.structures import builtin
from twofold.nets.numpy_mlp import NumpyMLP
from twofold.store.checkpoint import unpack
from twofold.store.policy_file import load_policy, unseal, weights_digest

SIZES = (len(NAMES), 8, len(SCALARS))
TAUGHT = {  # what the trainings on metals and on nonmetals do at two of the measured observations
    5: [-0.5365, -0.6768, 0.4629, 0.1025, -0.9997, 0.9442, 0.0],
    746: [-0.0946, 0.0279, -0.0072, 0.0438, -0.1507, 0.0464, -0.1287],
}
DIGEST = "5728ed8a68e9d2d9ac5c5217dc22327312a918531378732e0e45d2501c984694"


def policy(scale):
    layers = [np.full((a + 1, b), scale, np.float32) for a, b in zip(SIZES[:-1], SIZES[1:], strict=True)]
    return SpringPolicy(NumpyMLP(layers, [], "relu", "tanh"))


def test_zero_weights_are_the_prior():
    atoms, step = rattled(), SpringStep()
    step.observe(Frame(atoms), atoms.positions, atoms.get_forces(), atoms.get_potential_energy())
    assert policy(0.0).scalars(step, 0.01) == Scalars()


def test_actions_are_bounded():
    assert np.abs(policy(100.0).act(np.ones(len(NAMES)))).max() <= 1


def test_the_default_policy_is_not_the_prior_and_an_ordinary_policy_file():
    seen = np.random.default_rng(0).uniform(-1, 1, len(NAMES)).astype(np.float32)
    network = load_policy(DEFAULT)
    assert (network.observation_space.shape, network.action_space.shape) == ((28,), (7,))
    for share in (0.0, 0.5):
        seen[NAMES.index("nonmetals")], seen[NAMES.index("any nonmetal")] = share, share > 0
        action = default_policy().act(seen)
        assert np.abs(action).max() > 0.01
        np.testing.assert_allclose(network.act(seen), action, atol=1e-6)


def test_one_network_learnt_what_each_training_does():
    depth = default_policy().depth
    for number, wanted in TAUGHT.items():
        found = default_policy().act(depth.seen[number] * depth.scale)
        np.testing.assert_allclose(found, wanted, atol=0.02)


def test_nothing_in_the_default_network_was_built():
    state = unpack(unseal(DEFAULT)[1]["rest"], unseal(DEFAULT)[0])["actor"]
    layers = [state[f"layers.{number}.matrix"] for number in range(len(state))]
    assert [layer.shape for layer in layers] == [(29, 128), (129, 128), (129, 7)]
    for layer in layers:
        assert (layer != 0).all(), "units that are not joined are built beside each other, not learnt"
        assert np.abs(layer).max() < 5, "a weight that outweighs all others is a switch"


def test_the_results_belong_to_this_file():
    assert weights_digest(DEFAULT) == DIGEST


def test_one_measure_holds_starts_of_metals_and_of_nonmetals():
    depth = default_policy().depth
    nonmetal = (depth.seen * depth.scale)[:, NAMES.index("any nonmetal")] > 0.5
    assert (len(nonmetal), nonmetal.sum()) == (1011, 270)


def test_the_default_policy_says_how_it_was_made():
    score = unseal(DEFAULT)[1]["score"]
    assert score["command"] == "python benchmarks/crystal_one.py metals.safetensors nonmetals.safetensors"
    assert score["depth"]["presets"] == {"crystal_depth": 1000, "crystal_depth_nonmetals": 360}
    assert score["fit"]["root mean square on other starts"]["metals"] < 0.01
    assert score["trainings"][0]["complete"]
    for training in score["trainings"]:
        assert training["command"].startswith("twofold train --config=td3_crystal")
        assert {"seed", "data", "packages", "curve", "commit"} <= set(training)
        first, best = training["curve"][0], max(training["curve"], key=lambda entry: entry["-log2(calls)"])
        assert best["step"] == training["step"] and best["mean calls"] < first["mean calls"]


def asked(atoms, calls=6):
    """How many of the first steps the default policy sets."""
    step, policy, number = SpringStep(), default_policy(), 0
    atoms.calc = EMT()
    for _ in range(calls):
        step.observe(Frame(atoms), atoms.positions, atoms.get_forces(), atoms.get_potential_energy())
        scalars = policy.scalars(step, 0.01)
        number += scalars != Scalars()
        atoms.positions = atoms.positions + step.propose(scalars)
    return number


def test_the_default_policy_is_asked_where_it_saves_calls():
    alloy = builtin("NiAl:B2*2x2x2")
    alloy.rattle(0.1, seed=1)
    slab = fcc111("Cu", (2, 2, 3), vacuum=8.0)
    add_adsorbate(slab, "O", 1.2, "fcc")
    slab.rattle(0.07, seed=1)
    cluster = Octahedron("Pt", 4, cutoff=1)
    cluster.rattle(0.1, seed=1)
    assert asked(alloy) > 0 and asked(slab) > 0  # of 5 and 8 calls; 7 and 8 without it
    assert asked(cluster) == 0  # of 8, 11 with it


def test_damaged_or_foreign_policies_are_refused(tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"not weights")
    with pytest.raises(CheckpointError):
        load_weights(tmp_path / "bad.safetensors")
    with pytest.raises(CheckpointError, match="2 inputs and 2 outputs"):
        SpringPolicy(NumpyMLP([np.zeros((3, 2), np.float32)], [], "relu", "tanh"))


def test_a_policy_of_an_earlier_version_sees_and_sets_what_there_was():
    layers = [np.zeros((22 + 1, 6), np.float32)]
    layers[0][0] = 1.0
    early = SpringPolicy(NumpyMLP(layers, [], "relu", "tanh"))
    seen = np.full(len(NAMES), 0.3, np.float32)
    np.testing.assert_allclose(early.act(seen), [*[np.tanh(0.3)] * 6, 0.0], atol=1e-6)


def test_relaxing_does_not_import_torch():
    code = """
import sys
from ase.build import bulk
from ase.calculators.emt import EMT
from twofold.crystal import TD3Relaxer
atoms = bulk("Cu", cubic=True)
atoms.rattle(0.1, seed=1)
atoms.calc = EMT()
assert TD3Relaxer(atoms, logfile=None).run(fmax=0.01)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
