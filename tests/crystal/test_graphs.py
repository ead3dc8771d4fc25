import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from twofold.base import tree
from twofold.core.experience import Transition
from twofold.core.seeding import Generators
from twofold.crystal.displacements import GraphConfig, GraphEnv
from twofold.crystal.graphs import GraphNetConfig, GraphNetworks, paired
from twofold.learners.td3 import TD3, TD3Config

CFG = GraphConfig(
    sets={"al": {"structures": ["NiAl:B2"], "rattle": [0.1, 0.1]}}, max_atoms=3, num_neighbors=8, nfake=2
)
VECTORS = ("force", "force_before", "moved", "vector")


@pytest.fixture(scope="module")
def env():
    return GraphEnv(CFG, "train")


def seen(env, rows=4):
    return tree.stack([env.reset(seed=i)[0] for i in range(rows)])


def nets(env, kind, seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    return GraphNetworks(
        GraphNetConfig(kind=kind, width=8, **settings), env.observation_space, env.action_space, generator
    )


def tensors(obs):
    return tree.map(torch.from_numpy, obs)


@pytest.mark.parametrize("kind", ["equivariant", "cgcnn"])
def test_shapes_and_bounds(env, kind):
    obs = tensors(seen(env))
    action = nets(env, kind).actor()(obs)
    assert action.shape == (4, 9) and action.abs().max() <= 1
    assert nets(env, kind).critic()(obs, action).shape == (2, 4)


@pytest.mark.parametrize("kind", ["equivariant", "cgcnn"])
def test_padding_changes_nothing_and_is_not_moved(env, kind):
    obs = seen(env)
    action = nets(env, kind).actor()(tensors(obs)).reshape(4, 3, 3)
    assert action[:, 2].abs().max() == 0
    assert torch.allclose(action.sum(dim=1), torch.zeros(4, 3), atol=0.3)
    dirty = {k: v.copy() for k, v in obs.items()}
    dirty["force"][:, 2] = 7.0
    again = nets(env, kind).actor()(tensors(dirty)).reshape(4, 3, 3)
    assert torch.allclose(action, again, atol=1e-6)


@pytest.mark.parametrize("kind", ["equivariant", "cgcnn"])
def test_absent_neighbours_say_nothing(env, kind):
    obs = seen(env)
    wide = dict(obs)
    wide["neighbour"] = np.concatenate([obs["neighbour"], np.full((4, 3, 5), -1)], axis=2)
    wide["vector"] = np.concatenate([obs["vector"], np.zeros((4, 3, 5, 3), np.float32)], axis=2)
    actor = nets(env, kind).actor()
    assert torch.allclose(actor(tensors(obs)), actor(tensors(wide)), atol=1e-6)


def test_the_images_of_a_neighbour_are_added_up(env):
    obs = tensors(seen(env, 1))
    sums = paired(obs, 4, 5.0)
    assert sums.shape == (1, 3, 3, 4, 5)
    assert sums[0, 0, :, 0, 4].tolist() == [0, 8, 0], (
        "the eight nearest of an atom in B2 are of the other kind"
    )
    assert torch.allclose(sums[0, :, :, 0, 4].sum(), torch.tensor(16.0))


def test_the_equivariant_actor_turns_and_its_critic_does_not(env):
    obs, turn = seen(env), Rotation.random(random_state=0).as_matrix().astype(np.float32)
    turned = {k: v @ turn if k in VECTORS else v for k, v in obs.items()}
    networks = nets(env, "equivariant")
    actor, critic = networks.actor(), networks.critic()
    action = actor(tensors(obs)).reshape(4, 3, 3)
    again = actor(tensors(turned)).reshape(4, 3, 3)
    assert torch.allclose(action @ torch.from_numpy(turn), again, atol=1e-5)
    values = critic(tensors(obs), action.flatten(1))
    assert torch.allclose(values, critic(tensors(turned), again.flatten(1)), atol=1e-5)
    assert action.abs().max() > 1e-4


def learner(env, noise_level=1.0, **settings):
    return TD3(
        TD3Config(**settings), networks=nets(env, "equivariant", noise_level=noise_level),
        observation_space=env.observation_space, action_space=env.action_space, rngs=Generators(0),
    )  # fmt: skip


def test_updates_lower_the_critics_error_on_a_fixed_batch(env):
    agent, obs = learner(env, critic_lr=1e-2, actor_lr=1e-3), seen(env, 8)
    action = np.random.default_rng(0).uniform(-1, 1, (8, 9)).astype(np.float32)
    ones = np.ones(8, np.float32)
    batch = Transition(obs, action, np.linspace(-1, 1, 8).astype(np.float32), obs, ones, 0.9 * ones)
    losses = []
    for _ in range(40):
        agent.update(batch)
        losses.append(agent.metrics()["critic/loss"])
    assert losses[-1] < 0.8 * losses[0]


def test_demonstrations_are_followed_and_the_stuck_are_shaken(env):
    agent = learner(env, expl_noise=0.0, noise_level=1.0)
    obs = seen(env, 3)
    obs["offered"][:], obs["stuck"][:] = [[1], [0], [0]], [[0], [1], [0]]
    obs["demonstration"][0] = 0.25
    calm = agent.policy(explore=False, rows=3, rng=np.random.default_rng(0)).act(obs)
    bold = agent.policy(explore=True, rows=3, rng=np.random.default_rng(0)).act(obs)
    np.testing.assert_array_equal(bold[0], 0.25)
    assert np.abs(bold[1] - calm[1]).max() > 0.1
    np.testing.assert_allclose(bold[2], calm[2], atol=1e-6)
