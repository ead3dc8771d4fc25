import gymnasium as gym
import numpy as np
import pytest
import torch

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.learners.config import TD3Config
from twofold.learners.td3 import TD3
from twofold.recsys.baselines import Greedy, expected_now
from twofold.recsys.item_nets import ItemNetworks
from twofold.recsys.metrics import play
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.seen import Seen
from twofold.recsys.worlds import make
from twofold.store import spaces
from twofold.store.checkpoint import pack, unpack


def played(config, turns=4, rows=6, **changes):
    world = make(config(quit="none", **changes), rows=rows, purpose="train")
    obs = world.reset(seed=list(range(rows)), options={"reset_mask": np.ones(rows, bool)})[0]
    for turn in range(turns):
        obs = world.step(np.arange(rows) + turn)[0]
    return world, tree.map(torch.from_numpy, obs)


def nets(world, **changes):
    cfg = ItemNetConfig(**({"embedding_dim": 8, "hidden_sizes": (16,), "rerank": 4} | changes))
    return ItemNetworks(
        cfg, world.single_observation_space, world.single_action_space, torch.Generator().manual_seed(0)
    )


def test_the_actor_points_with_unit_length(config):
    world, obs = played(config)
    point = nets(world).actor()(obs)
    torch.testing.assert_close(point.norm(dim=1), torch.ones(6))


def test_the_critic_of_an_items_vector_is_that_of_the_item(config):
    world, obs = played(config)
    made = nets(world)
    critic = made.critic()
    items = torch.arange(10, 16)
    torch.testing.assert_close(
        critic(obs, made.tables.item_vectors[items]), critic.of_items(obs, items[:, None])[..., 0]
    )


def test_the_gradient_reaches_the_actors_point(config):
    world, obs = played(config)
    made = nets(world)
    point = made.actor()(obs).detach().requires_grad_()
    made.critic().first(obs, point).sum().backward()
    assert (point.grad.abs().sum(dim=1) > 0).all()


def test_the_shortlist_holds_the_items_of_highest_expectation_that_may_be_shown(config):
    world, obs = played(config, cool_down=3)
    made = nets(world)
    seen = Seen(obs)
    every = torch.arange(len(made.tables.item_vectors)).expand(6, -1)
    expected = made.tables.expected(seen, every)
    for row, blocked in enumerate(world.blocked()):
        expected[row, blocked] = -torch.inf
    assert (made.tables.favourites(seen, 5) == expected.topk(5, dim=1).indices).all()


@pytest.mark.parametrize("shortlist", [0, 3])
def test_the_chooser_shows_the_best_of_the_nearest_and_the_shortlist_by_the_smaller_critic(config, shortlist):
    world, obs = played(config)
    made = nets(world, shortlist=shortlist)
    critic, point = made.critic(), made.actor()(obs).detach()
    nearest = made.tables.nearest(Seen(obs), point, 4)[1]
    if shortlist:
        nearest = torch.cat([nearest, made.tables.favourites(Seen(obs), shortlist)], dim=1)
    values = critic.of_items(obs, nearest).amin(dim=0)
    wanted = nearest.gather(1, values.argmax(dim=1, keepdim=True))[:, 0]
    chosen = made.chooser.choose(obs, point, critic)
    torch.testing.assert_close(chosen, made.tables.item_vectors[wanted])
    torch.testing.assert_close(made.chooser.values(obs, point, critic), critic(obs, chosen))


def test_the_world_shows_what_the_chooser_chose(config):
    world, obs = played(config)
    made = nets(world)
    chosen = made.chooser.choose(obs, made.actor()(obs).detach(), made.critic())
    shown = world.step(chosen.numpy())[4]["item"]
    torch.testing.assert_close(made.tables.item_vectors[torch.from_numpy(shown)], chosen)


def test_items_in_cool_down_are_never_near(config):
    world, obs = played(config, cool_down=3)
    made = nets(world)
    recent = obs["items"][:, 1:4].long()
    for point in made.tables.item_vectors[recent].unbind(1):
        found = made.tables.nearest(Seen(obs), point, 20)[1]
        assert not (found[:, :, None] == recent[:, None]).any()


def test_chunks_do_not_change_the_nearest_items_or_the_guide(config):
    world, obs = played(config)
    made = nets(world)
    point = made.actor()(obs).detach()
    whole, guide = made.tables.nearest(Seen(obs), point, 5)[1], made.tables.towards_the_best(Seen(obs))
    made.tables.chunk = 7
    assert torch.equal(made.tables.nearest(Seen(obs), point, 5)[1], whole)
    torch.testing.assert_close(made.tables.towards_the_best(Seen(obs)), guide)


def test_the_raw_point_is_judged_and_shown_in_the_reference_manner(config):
    world, obs = played(config)
    made = nets(world, critic_on="point", rerank=1, positive_actions=True, guide=False)
    point = made.actor()(obs)
    assert (point >= 0).all()
    assert torch.equal(made.chooser.choose(obs, point.detach(), made.critic()), point.detach())


def test_random_items_replace_rows_one_by_one_and_are_allowed(config):
    world, obs = played(config, rows=6)
    made = nets(world, remap_eps=0.5)
    numpy_obs = tree.map(lambda leaf: np.repeat(leaf.numpy(), 100, axis=0), obs)
    action = np.zeros((600, 8), np.float32)
    explored = made.chooser.explore(numpy_obs, action, np.random.default_rng(0))
    swapped = (explored != 0).any(axis=1)
    assert 0.4 < swapped.mean() < 0.6
    vectors = made.tables.item_vectors.numpy()
    recent = vectors[numpy_obs["items"][:, 1:4]]
    assert not np.isclose(explored[swapped, None], recent[swapped]).all(axis=2).any()


def test_untried_pairs_are_counted(config):
    world, _ = played(config, turns=0, rows=1)
    made = nets(world)
    obs = {name: torch.from_numpy(leaf) for name, leaf in world._obs().items()}
    obs["items"][0, :4] = torch.tensor([1, 2, 3, 1])
    obs["turn"][:] = 4
    features = made.critic().candidates(Seen(obs), torch.tensor([[2, 9]]))
    assert features[0, 0, -1].item() == 0.0  # item 2 was near 1 and 3 before, and near itself
    assert features[0, 1, -1].item() == pytest.approx(4 / 7)  # item 9 is new beside all four
    assert features[0, 0, -4].item() == 1.0
    assert features[0, 0, -3].item() == pytest.approx(3 / 12)  # shown three turns ago


def learner(world, **changes):
    made = nets(world)
    return TD3(TD3Config(**changes), networks=made, observation_space=world.single_observation_space,
               action_space=world.single_action_space, rngs=Generators(0))  # fmt: skip


def batch_of(world, policy, writer, steps=8):
    obs = world.reset(
        seed=list(range(world.num_envs)), options={"reset_mask": np.ones(world.num_envs, bool)}
    )[0]
    from twofold.core.experience import Steps

    items = []
    for _ in range(steps):
        action = policy.random(obs)
        after, reward, terminated, truncated, _ = world.step(action)
        items.append(
            writer.step(Steps(obs, action, reward, after, terminated, truncated, np.ones(len(reward), bool)))
        )
        obs = after
    return tree.concatenate([written.items for written in items if written is not None])


def test_td3_learns_on_the_item_shown_and_its_loss_falls(config):
    world = make(config(quit="none"), rows=8, purpose="train")
    td3 = learner(world, critic_lr=3e-3, gamma=0.5)
    batch = batch_of(world, td3.policy(explore=True, rows=8, rng=np.random.default_rng(0)), td3.writer(8))
    td3.update(batch)
    first = td3.metrics()["critic/loss"]
    for _ in range(60):
        td3.update(batch)
    assert td3.metrics()["critic/loss"] < 0.5 * first
    assert td3.first_bad() is None


def test_learning_rates_fall_to_the_given_share(config):
    world = make(config(quit="none"), rows=8, purpose="train")
    td3 = learner(world, critic_lr=1e-3, actor_lr=2e-3, lr_decay=Schedule(1.0, end=0.1, over=4, per="update"))
    batch = batch_of(world, td3.policy(explore=True, rows=8, rng=np.random.default_rng(0)), td3.writer(8))
    for _ in range(2):
        td3.update(batch)
    assert td3.critic_optimiser.lr == pytest.approx(0.55e-3)
    for _ in range(4):
        td3.update(batch)
    assert td3.actor_optimiser.lr == pytest.approx(0.2e-3)


def from_file(world, seed=5):
    """A learner as a policy file's description makes it: of the right shapes, with no catalogue."""
    seen, acts = (
        spaces.from_json(spaces.to_json(s))
        for s in (world.single_observation_space, world.single_action_space)
    )
    made = ItemNetworks(nets(world).cfg, seen, acts, torch.Generator().manual_seed(seed))
    return TD3(TD3Config(), networks=made, observation_space=seen, action_space=acts, rngs=Generators(1))


def test_a_policy_file_state_makes_the_same_choices_without_the_catalogue(config):
    world, obs = played(config)
    td3, other = learner(world), from_file(world)
    arrays, rest = pack(td3.policy_state())
    other.load_policy_state(unpack(rest, arrays))
    numpy_obs = tree.map(lambda leaf: leaf.numpy(), obs)
    acts = [
        one.policy(explore=False, rows=6, rng=np.random.default_rng(0)).act(numpy_obs) for one in (td3, other)
    ]
    np.testing.assert_array_equal(*acts)
    assert other.networks.tables.labels.items == tuple(map(str, range(24)))
    assert other.networks.tables.catalogue.belief_noise == world.catalogue.belief_noise


def test_a_policy_of_other_ratings_is_refused(config):
    world, _ = played(config)
    arrays, rest = pack(learner(world).policy_state())
    rest["chooser"]["labels"]["digest"] = "00ff00ff00ff"
    with pytest.raises(ConfigError, match="trained on other ratings"):
        learner(world).load_policy_state(unpack(rest, arrays))


def test_networks_for_items_refuse_another_world():
    plain = gym.spaces.Box(-1, 1, (3,), np.float32)
    with pytest.raises(ConfigError, match="need a world of users"):
        ItemNetworks(ItemNetConfig(), plain, plain, torch.Generator())


def test_critics_of_before_policies_were_told_who_stays_are_read_as_they_were(config):
    world = make(config(), rows=4, purpose="NX_10")
    seen = gym.spaces.Dict({n: s for n, s in world.single_observation_space.items() if n != "stays"})
    nets = ItemNetworks(ItemNetConfig(hidden_sizes=(16,)), seen, world.single_action_space, torch.Generator())
    assert nets.critic().prior is None
    nets = ItemNetworks(
        nets.cfg, world.single_observation_space, world.single_action_space, torch.Generator()
    )
    assert nets.critic().prior is not None


def test_who_cannot_leave_is_shown_what_is_expected_to_please_most(config):
    world = make(config(), rows=4, purpose="NX_10")
    seen, acts = world.single_observation_space, world.single_action_space
    nets = ItemNetworks(ItemNetConfig(hidden_sizes=(16,)), seen, acts, torch.Generator().manual_seed(0))
    learner = TD3(TD3Config(), networks=nets, observation_space=seen, action_space=acts, rngs=Generators(0))
    with torch.no_grad():
        for weights in learner.nets.critic.module.parameters():  # as if it had learned something
            weights.add_(torch.ones_like(weights).uniform_(-1, 1, generator=torch.Generator().manual_seed(1)))
    policy = learner.policy(explore=False, rows=4, rng=np.random.default_rng(0))
    shown = play(world, policy, [0, 1, 2, 3])["items"]
    np.testing.assert_array_equal(shown, play(world, Greedy(world, expected_now), [0, 1, 2, 3])["items"])
    other = make(config(), rows=4, purpose="NX_0")
    learned = play(other, policy, [0, 1, 2, 3])["items"]
    assert (learned != play(other, Greedy(other, expected_now), [0, 1, 2, 3])["items"]).any()
