"""Agents that read like units by the same weights: order says nothing, gradients equal autograd's, refusals."""

import pytest
import torch
from team_parts import as_arrays, episodes

from twofold.base.errors import ConfigError
from twofold.core.seeding import Generators
from twofold.nets import Flat
from twofold.store.spaces import from_json, to_json
from twofold.team.agents import AgentsConfig, TeamNetworks
from twofold.team.learner import QConfig, QLearner
from twofold.team.units import UnitAgent
from twofold.team.worlds.skirmish import Skirmish, SkirmishConfig
from twofold.team.worlds.space import TeamShape, Units, shape_of, team_space

# Two enemies of two columns, one ally of one column, two plain actions and one for each enemy.
SHAPE = TeamShape(
    agents=2, obs=6, state=7, actions=4, limit=6, units=(Units(1, 2, 2, action=2), Units(5, 1, 1))
)


def networks(shape=SHAPE, **settings):
    cfg = AgentsConfig(**{"hidden": 8, "unit_features": 3} | settings)
    return TeamNetworks(cfg, team_space(shape), team_space(shape), torch.Generator().manual_seed(0))


def swapped(x, pairs):
    order = list(range(x.shape[-1]))
    for one, other in pairs:
        order[one], order[other] = order[other], order[one]
    return x[..., order]


def test_an_attack_is_worth_what_its_unit_says():
    agent = networks(obs_last_action=False, obs_agent_id=False).agent()
    assert isinstance(agent, UnitAgent) and agent.columns == 6
    with torch.no_grad():
        agent.readers[0].copy_(torch.tensor([[1.0, 0, -1], [0, 1, -1], [0.5, 0, 9]]))
    x = torch.tensor([[7.0, 2, 3, 0, 0, 4]])
    inner, features = agent.read(x)
    assert features[0].tolist() == [
        [2.5, 3.0, 4.0],
        [0.0, 0.0, 0.0],
    ]  # the second is not seen: no bias either
    assert inner[0, :4].tolist() == [7.0, 2.5, 3.0, 4.0]
    out = torch.tensor([[10.0, 20.0, 5.0, 1.0, 2.0, 0.5]])
    wanted = [10.0, 20.0, 5.0 + (2.5 + 6.0 + 2.0) / 3**0.5, 5.0]
    assert agent.values(out, features)[0].tolist() == pytest.approx(wanted)


def test_the_order_of_enemies_is_the_order_of_attacks_and_nothing_else():
    nets = networks()
    agent, x = nets.agent(), torch.randn(1, 5, nets.columns, generator=torch.Generator().manual_seed(1))
    hidden = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(2))
    values, after = agent(x, hidden)
    # The enemies' columns are 1 to 4; the last action's begin at 6, its attacks at 8.
    other, other_after = agent(swapped(x, [(1, 3), (2, 4), (8, 9)]), hidden)
    assert torch.allclose(other, swapped(values, [(2, 3)]), atol=1e-6)
    assert torch.allclose(other_after, after, atol=1e-6)


@pytest.mark.parametrize("torch_only", [False, True])
def test_gradients_over_whole_episodes_equal_autograd(torch_only, monkeypatch):
    if torch_only:
        monkeypatch.setattr("twofold.nets.recurrent.sequences", lambda like: None)
    nets = networks()
    agent = nets.agent()
    flat, room, draw = Flat(agent), agent.room(6, 4), torch.Generator().manual_seed(3)
    room.live[:] = [4, 4, 2, 2, 2, 0]
    room.x.copy_(torch.randn(room.x.shape, generator=draw) * (torch.rand(room.x.shape, generator=draw) < 0.7))
    q, hidden, wanted = room.forward(agent, 5), agent.start(4), []
    slopes = torch.randn(q.shape, generator=draw)
    for t in range(5):
        slopes[:, t, room.live[t] :] = 0
        values, hidden = agent(room.x[:, t], hidden)
        wanted.append(values)
        assert torch.allclose(q[:, t, : room.live[t]], values[:, : room.live[t]], atol=1e-6)
    flat.zero_grad()
    (torch.stack(wanted, 1) * slopes).sum().backward()
    autograd = flat.grads.clone()
    flat.zero_grad()
    room.backward(agent, slopes)
    assert torch.allclose(flat.grads, autograd, atol=1e-5)


def learner(mixer):
    space, nets = team_space(SHAPE), networks()
    cfg = QConfig(mixer=mixer, lr=3e-3, target_update_interval=1e6)
    return QLearner(cfg, networks=nets, observation_space=space, action_space=space, rngs=Generators(0))


@pytest.mark.parametrize("mixer", ["none", "vdn", "qmix", "qtran"])
def test_every_mixer_learns_a_fixed_batch_and_goes_on_from_its_state_exactly(mixer):
    team, batch = learner(mixer), episodes(shape=SHAPE)
    for _ in range(10):
        team.update(batch)
    kept, again = as_arrays(team.state_dict()), learner(mixer)
    again.load_state_dict(kept)
    for one in (team, again):
        for _ in range(120):
            one.update(batch)
    assert torch.equal(team.online.flat.values, again.online.flat.values)
    assert team.metrics()["learner/loss"] < 0.5 * kept["metrics"]["loss"]


def test_a_skirmish_says_where_its_units_are_listed_and_a_policy_file_keeps_it():
    world = Skirmish(SkirmishConfig(map_name="5m_vs_6m"), rows=1, purpose="eval")
    wanted = Units(first=4, count=6, columns=5, action=6), Units(first=34, count=4, columns=5)
    space = world.single_observation_space
    assert shape_of(space).units == shape_of(from_json(to_json(space))).units == wanted


@pytest.mark.parametrize("settings", [{"shared": False}, {"extra": 2}])
def test_it_goes_with_one_network_for_all_and_nothing_beside_the_inputs(settings):
    extra = settings.pop("extra", 0)
    with pytest.raises(ConfigError, match="unit_features goes with"):
        networks(**settings).agent(extra=extra)


def test_a_world_without_units_or_with_healers_is_refused():
    healers = Skirmish(SkirmishConfig(map_name="MMM"), rows=1, purpose="eval")
    plain = TeamShape(agents=2, obs=6, state=7, actions=4, limit=6)
    for shape in (plain, shape_of(healers.single_observation_space)):
        with pytest.raises(ConfigError, match="unit_features needs a world that lists"):
            networks(shape).agent()
