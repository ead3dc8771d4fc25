import numpy as np
import pytest
from crystals import rattled

from twofold.base.errors import CheckpointError
from twofold.crystal.bonds import Frame
from twofold.crystal.features import NAMES
from twofold.crystal.policy import SpringPolicy, export_weights, load_weights, shipped
from twofold.crystal.spring import SCALARS, Scalars, SpringStep

SIZES = (len(NAMES), 8, len(SCALARS))


def layers(scale):
    return [scale * np.ones((a + 1, b), np.float32) for a, b in zip(SIZES[:-1], SIZES[1:], strict=True)]


def test_zero_weights_are_the_prior():
    atoms, step = rattled(), SpringStep()
    step.observe(Frame(atoms), atoms.positions, atoms.get_forces(), atoms.get_potential_energy())
    assert SpringPolicy(layers(0.0)).scalars(step, 0.01) == Scalars()


def test_actions_are_bounded():
    assert np.abs(SpringPolicy(layers(100.0)).act(np.ones(len(NAMES)))).max() <= 1


def test_weights_come_back_from_their_file(tmp_path):
    matrices = [
        np.random.default_rng(i).standard_normal(m.shape).astype(np.float32) for i, m in enumerate(layers(1))
    ]
    state = {"actor": {f"layers.{i}.matrix": m for i, m in enumerate(matrices)}, "normaliser": None}
    export_weights(state, tmp_path / "w.safetensors")
    for mine, theirs in zip(load_weights(tmp_path / "w.safetensors").layers, matrices, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_shipped_policy_is_not_the_prior():
    seen = np.zeros(len(NAMES))
    assert np.abs(shipped().act(seen)).max() > 0.01


def test_damaged_or_foreign_weights_are_refused(tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"not weights")
    with pytest.raises(CheckpointError):
        load_weights(tmp_path / "bad.safetensors")
    with pytest.raises(CheckpointError, match="other features"):
        SpringPolicy([np.zeros((3, 2), np.float32)])


def test_numpy_acts_as_the_networks_that_trained_it():
    torch = pytest.importorskip("torch")
    from gymnasium.spaces import Box
    from twofold.nets.vector import VectorConfig

    from twofold.crystal.networks import ScalarNetworks

    nets = ScalarNetworks(
        VectorConfig(actor_hidden=(16,)),
        Box(-3, 3, (len(NAMES),)),
        Box(-1, 1, (len(SCALARS),)),
        torch.Generator(),
    )
    actor = nets.actor()
    seen = torch.randn(5, len(NAMES), generator=torch.Generator().manual_seed(0))
    assert actor(seen).abs().max() == 0, "the untrained policy is the prior"
    torch.nn.init.normal_(actor.layers[-1].matrix, generator=torch.Generator().manual_seed(1))
    policy = SpringPolicy([layer.matrix.detach().numpy() for layer in actor.layers])
    for row in seen:
        np.testing.assert_allclose(policy.act(row.numpy()), actor(row[None])[0].detach().numpy(), atol=1e-6)


def test_crystals_with_nonmetals_get_the_prior():
    atoms, step = rattled(), SpringStep()
    forces, energy = atoms.get_forces(), atoms.get_potential_energy()
    step.observe(Frame(atoms), atoms.positions, forces, energy)
    assert SpringPolicy(layers(0.5)).scalars(step, 0.01) != Scalars()
    atoms.numbers[0] = 8
    assert SpringPolicy(layers(0.5)).scalars(step, 0.01) == Scalars()
