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
from twofold.store.policy_file import load_policy, unseal

SIZES = (len(NAMES), 8, len(SCALARS))
WITHOUT = [0.4375, -0.5833, -0.7754, -0.1734, -0.8541, -0.4595, 0.0]  # what the training on metals learnt
WITH = [-0.0517, 0.0249, -0.0095, 0.0144, -0.1096, 0.0422, -0.0885]  # what the one on nonmetals did


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


def test_one_network_does_what_each_training_learnt():
    seen = np.linspace(-1, 1, len(NAMES), dtype=np.float32)
    for share, wanted in ((0.0, WITHOUT), (0.5, WITH)):
        seen[NAMES.index("nonmetals")], seen[NAMES.index("any nonmetal")] = share, share > 0
        np.testing.assert_allclose(default_policy().act(seen), wanted, atol=1e-4)


def test_one_measure_holds_starts_of_metals_and_of_nonmetals():
    depth = default_policy().depth
    nonmetal = (depth.seen * depth.scale)[:, NAMES.index("any nonmetal")] > 0.5
    assert (len(nonmetal), nonmetal.sum()) == (1011, 270)


def test_the_default_policy_says_how_it_was_made():
    score = unseal(DEFAULT)[1]["score"]
    assert score["command"] == "python benchmarks/crystal_one.py metals.safetensors nonmetals.safetensors"
    assert score["depth"]["presets"] == {"crystal_depth": 1000, "crystal_depth_nonmetals": 360}
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
