import subprocess
import sys

import numpy as np
import pytest
from ase.build import add_adsorbate, fcc111
from ase.calculators.emt import EMT
from crystals import rattled

from twofold.base.errors import CheckpointError
from twofold.crystal.bonds import Frame
from twofold.crystal.depth import Depth
from twofold.crystal.features import NAMES
from twofold.crystal.policy import DEFAULT, NONMETALS, SpringPolicy, default_policy, load_weights
from twofold.crystal.spring import SCALARS, Scalars, SpringStep
from twofold.crystal.structures import builtin
from twofold.nets.numpy_mlp import NumpyMLP
from twofold.store.policy_file import load_policy, unseal

SIZES = (len(NAMES), 8, len(SCALARS))


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
    for share, path in ((0.0, DEFAULT), (0.5, NONMETALS)):
        seen[NAMES.index("nonmetals")] = share
        action, network = default_policy().act(seen), load_policy(path)
        assert np.abs(action).max() > 0.01
        inputs, outputs = network.observation_space.shape[0], network.action_space.shape[0]
        np.testing.assert_allclose(network.act(seen[:inputs]), action[:outputs], atol=1e-6)
        assert (action[outputs:] == 0).all()


def test_where_there_are_nonmetals_their_own_policy_is_asked():
    both = SpringPolicy(policy(0.1).network, None, SpringPolicy(policy(-0.1).network, near(0.5, gain=0.1)))
    for share, sign, known in ((0.0, 1, True), (0.5, -1, True), (0.9, -1, False)):
        seen = np.full(len(NAMES), 0.1, np.float32)
        seen[NAMES.index("nonmetals")] = share
        assert (np.sign(both.act(seen)) == sign).all()
        assert both.knows(seen) is known


def near(share, gain):
    """Knows what has this share of nonmetals, and gained there."""
    seen = np.full((12, len(NAMES)), 0.1, np.float32)
    seen[:, NAMES.index("nonmetals")] = share
    fresh = seen + np.random.default_rng(1).uniform(-0.01, 0.01, seen.shape)
    return Depth.of(seen, np.full(12, gain), fresh)


@pytest.mark.parametrize("path", [DEFAULT, NONMETALS])
def test_the_default_policies_say_how_they_were_made(path):
    assert unseal(DEFAULT)[1]["score"]["complete"]
    score = unseal(path)[1]["score"]
    assert score["command"].startswith("twofold train --config=td3_crystal")
    assert {"seed", "data", "packages", "curve", "commit"} <= set(score)
    first, best = score["curve"][0], max(score["curve"], key=lambda entry: entry["-log2(calls)"])
    assert best["step"] == score["step"] and best["mean calls"] < first["mean calls"]


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
    assert asked(alloy) > 0
    assert asked(slab) == 0
    assert unseal(DEFAULT)[1]["score"]["depth"]["starts"] >= 400


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
