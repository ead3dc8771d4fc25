"""OMG and agent modelling: selectors by hand, the same subgoal at the next state, priors that refuse a mismatch."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from team_parts import SHAPE, as_arrays, episodes

from twofold.base.errors import CheckpointError, ConfigError, UserError
from twofold.core.seeding import Generators
from twofold.team.agents import AgentsConfig, TeamNetworks
from twofold.team.am import AgentModelling, AMConfig
from twofold.team.conditioned import rows_of
from twofold.team.hits import exists, first_ahead
from twofold.team.models import divergence
from twofold.team.omg import OMG, OMGConfig
from twofold.team.prior import PriorConfig, PriorLearner, load_prior
from twofold.team.worlds.space import TeamShape, team_space

SMALL = {"history": 6}
OMG_SMALL = {"subgoal_dim": 4, "model_hidden": 8, **SMALL}


def parts(shape=SHAPE, shared=True):
    space, actions = team_space(shape), gym.spaces.MultiDiscrete([shape.actions] * shape.agents)
    nets = TeamNetworks(
        AgentsConfig(hidden=8, shared=shared), space, actions, torch.Generator().manual_seed(0)
    )
    return {"networks": nets, "observation_space": space, "action_space": actions, "rngs": Generators(0)}


def omg(**settings):
    return OMG(OMGConfig(**OMG_SMALL, **settings), **parts())


def am(**settings):
    return AgentModelling(AMConfig(embedding=4, **SMALL, **settings), **parts())


def prepared(learner, batch, steps=SHAPE.limit):
    """The learner with a batch taken, and what `update` would work on."""
    data = rows_of(batch, steps)
    learner.q.take(batch, steps)
    return data, torch.zeros(steps + 1, data.mask.shape[1], learner.q.agent.inputs - learner.nets.columns)


@pytest.mark.parametrize("make", [omg, am])
def test_updates_lower_the_losses_on_a_fixed_batch(make):
    learner, batch, losses = make(lr=3e-3, model_lr=3e-3, target_update_interval=1e6), episodes(), []
    for _ in range(200):
        learner.update(batch)
        found = learner.metrics()
        losses.append(
            [found["learner/loss"], found.get("learner/model_loss", found.get("learner/reconstruction"))]
        )
    first, last = np.mean(losses[:5], 0), np.mean(losses[-5:], 0)
    assert (last < 0.8 * first).all() and learner.first_bad() is None


def test_divergence_is_zero_for_equals_and_by_hand_otherwise():
    one = torch.zeros(1, 2)
    assert divergence(one, one, one, one).item() == 0
    # KL(N(1, 1) || N(0, 4)) per dimension = ln 2 + (1 + 1) / 8 - 1 / 2
    found = divergence(
        torch.ones(1, 1), torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), np.log(4.0))
    )
    assert found.item() == pytest.approx(np.log(2) + 0.25 - 0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("selector", "wanted"), [("optimistic", torch.argmax), ("conservative", torch.argmin)]
)
def test_the_selector_takes_the_best_or_worst_of_the_next_states(selector, wanted, monkeypatch):
    learner, batch = omg(selector=selector, horizon=3), episodes()
    data, zero = prepared(learner, batch)
    worth = torch.randn(3, SHAPE.limit, data.mask.shape[1], generator=torch.Generator().manual_seed(1))
    calls = iter(worth)
    monkeypatch.setattr(learner.q, "peek", lambda *_: next(calls).unsqueeze(-1).expand(-1, -1, SHAPE.actions))
    step = learner._select(zero, data.obs, data)
    length = data.mask.sum(0).long()
    for t in range(SHAPE.limit):
        for row in range(data.mask.shape[1]):
            ahead = int(min(3, length[row] - t))
            if t < length[row]:
                assert step[t, row] == 1 + int(wanted(worth[:ahead, t, row]))


def test_selected_subgoals_are_the_priors_embeddings_of_the_chosen_states():
    learner, batch = omg(horizon=2), episodes()
    data, zero = prepared(learner, batch)
    step = learner._select(zero, data.obs, data)
    mean, _ = learner._ahead(data.obs, step)
    embedded = learner.prior.encode(data.obs)[0]
    t, row = 1, 3
    assert torch.allclose(mean[t, row], embedded[t + int(step[t, row]), row])


def test_a_subgoal_can_be_the_first_state_in_which_something_is_there():
    there = torch.tensor([[1, 0], [0, 0], [1, 0], [1, 1], [0, 0]]) > 0
    assert first_ahead(there, 9).t().tolist() == [[2, 1, 1, 0], [3, 2, 1, 0]]
    assert first_ahead(there, 1).t().tolist() == [[0, 1, 1, 0], [0, 0, 1, 0]]
    learner, batch = (
        omg(selector="first", standardise_states=True, subgoal_columns=(1,), horizon=6),
        episodes(),
    )
    data = rows_of(batch, SHAPE.limit)
    step = learner._select(data.obs, learner._improve_prior(data.obs, data), data)
    wanted = first_ahead((data.obs[..., 1] >= 0) & (exists(data.mask) > 0), 6)
    assert torch.equal(step, wanted) and (step > 0).any() and (step == 0).any()


def test_the_next_state_is_valued_with_the_same_subgoal():
    learner, batch = omg(model_columns="uniform"), episodes()
    data, _ = prepared(learner, batch)
    g = torch.randn(SHAPE.limit + 1, data.mask.shape[1], 4, generator=torch.Generator().manual_seed(0))
    q, memory = learner.q.run(learner.q.agent, g)
    ahead = learner.q._ahead(learner.q.agent, g, memory, q, held=4)
    t = 2  # by hand: the memory before step 3, its inputs, but the subgoal of step 2
    x = learner.q._unroll.x[:, t + 1].clone()
    x[..., learner.nets.columns :] = g[t]
    by_hand, _ = learner.q.agent(x, memory[t + 1].unsqueeze(0))
    assert torch.allclose(ahead[t], by_hand[0], atol=1e-6)
    assert not torch.allclose(ahead[t], q[t + 1], atol=1e-4)


@pytest.mark.parametrize("held", [0, 4])
@pytest.mark.parametrize("td_lambda", [0.0, 0.6])
def test_targets_are_lambda_returns(held, td_lambda):
    learner, batch = omg(td_lambda=td_lambda, gamma=0.9, double_q=False), episodes()
    data, _ = prepared(learner, batch)
    g = torch.randn(SHAPE.limit + 1, data.mask.shape[1], 4, generator=torch.Generator().manual_seed(0))
    q, memory = learner.q.run(learner.q.agent, g)  # the target network is still equal to it
    ahead = learner.q._ahead(learner.q.agent, g, memory, q, held)
    value = ahead.masked_fill(~data.avail[1:], -torch.inf).max(-1).values
    chosen = q[:-1].gather(-1, data.action.unsqueeze(-1)).squeeze(-1).clone()
    errors = []
    for row in range(data.mask.shape[1]):
        later = None
        for t in reversed(range(int(data.mask[:, row].sum()))):  # by hand, from the end of each episode
            mixed = value[t, row] if later is None else (1 - td_lambda) * value[t, row] + td_lambda * later
            later = data.reward[t, row] + 0.9 * (1 - data.terminated[t, row]) * mixed
            errors.append((chosen[t, row] - later) ** 2)
    assert learner.q.improve(data, g, held=held)["loss"].item() == pytest.approx(np.mean(errors), rel=1e-4)


def test_the_mix_goes_from_selected_to_inferred_subgoals():
    learner = omg(mix_start=1.0, mix_finish=0.0, mix_updates=10.0)
    assert (learner.mix(0), learner.mix(5), learner.mix(20)) == (1.0, 0.5, 0.0)


def test_the_hit_ratio_counts_subgoals_reached_within_the_horizon():
    learner = omg(horizon=2)
    mask = torch.ones(4, 1)
    embedded = torch.arange(5.0).view(5, 1, 1).expand(5, 1, 4)
    inferred = (
        (torch.tensor([1.0, 3.0, 2.0, 0.0, 0.0])).view(5, 1, 1).expand(5, 1, 4)
    )  # ahead 1, ahead 2, now, past
    learner.hits.see(inferred, embedded, mask, torch.ones(5, 1))
    assert learner.hits.ratio() == 0.5
    assert learner.hits.chance() == pytest.approx(
        (2 + 2 + 2 + 1) / 4 / 5
    )  # of five states, those within two ahead
    may = torch.tensor([0, 0, 1, 0, 1]).view(
        5, 1
    )  # nearest of these: 2, 2 (as near as 4), 2, 2 for steps 0 to 3
    learner.hits.see(inferred, embedded, mask, may)
    assert learner.hits.ratio() == 0.5
    assert learner.hits.chance() == pytest.approx((1 + 1 + 1 + 1) / 4 / 2)
    again = (
        torch.tensor([0.0, 3.0, 3.0, 0.0, 3.0]).view(5, 1, 1).expand(5, 1, 4)
    )  # step 4 is step 1 once more
    learner.hits.see(again, again, mask, torch.ones(5, 1))
    assert learner.hits.ratio() == 0.5  # of steps 0 and 3 nothing comes again within two steps
    assert learner.hits.chance() == pytest.approx((3 + 5 + 5 + 3) / 4 / 5)


def test_metrics_tell_which_future_step_was_chosen():
    learner = omg(horizon=3)
    learner.update(episodes())
    shares = [learner.metrics()[f"learner/chosen_step/{k}"] for k in (1, 2, 3)]
    assert sum(shares) == pytest.approx(1.0)
    assert {"learner/kl", "learner/reconstruction", "learner/subgoal_hit_ratio"} <= learner.metrics().keys()


@pytest.mark.parametrize("make", [omg, am])
def test_a_learner_goes_on_exactly_from_its_state(make):
    one, other = make(), make()
    one.update(episodes(seed=1))
    other.load_state_dict(as_arrays(one.state_dict()))
    if hasattr(one, "rng"):  # the trainer keeps the generators
        other.rng.bit_generator.state = one.rng.bit_generator.state
    assert one.metrics() == other.metrics()
    for learner in (one, other):
        learner.update(episodes(seed=2))
    assert one.metrics() == other.metrics()
    assert torch.equal(one.q.online.flat.values, other.q.online.flat.values)


@pytest.mark.parametrize("make", [omg, am])
def test_a_policy_acts_the_same_after_its_state_is_loaded_in_the_middle_of_an_episode(make):
    learner, batch = make(), episodes()
    one, other = (learner.policy(explore=False, rows=4, rng=np.random.default_rng(0)) for _ in range(2))

    def seen(t):
        return {key: leaf[:, t] for key, leaf in batch.obs.items()}

    for t in range(3):
        one.act(seen(t))
    other.load_state_dict(as_arrays(one.state_dict()))
    assert (one.act(seen(3)) == other.act(seen(3))).all()


@pytest.mark.parametrize("obs_is_state", [True, False])
def test_subgoals_are_about_observations_or_about_the_state(obs_is_state):
    learner = omg(obs_is_state=obs_is_state)
    assert learner.prior.decode.outputs == (SHAPE.obs if obs_is_state else SHAPE.state)
    learner.update(episodes())
    assert learner.first_bad() is None


def prior_run(folder, **settings):
    """A finished prior stage: a checkpoint of its learner."""
    from twofold.store.checkpoint import Checkpoints

    learner = PriorLearner(PriorConfig(subgoal_dim=4, model_hidden=8, **settings), **parts())
    for _ in range(3):
        learner.update(episodes())
    folder.mkdir(exist_ok=True)
    Checkpoints(folder / "checkpoints").save(1, {"learner": as_arrays(learner.state_dict())}, None)
    return learner


def test_a_prior_of_its_own_run_is_used_and_stays_frozen(tmp_path):
    stage = prior_run(tmp_path)
    learner = omg(prior=str(tmp_path))
    learner.policy(explore=True, rows=4, rng=np.random.default_rng(0))
    before = learner.prior_weights.flat.values.clone()
    assert torch.equal(before, torch.cat([p.reshape(-1) for p in stage.prior.parameters()]))
    learner.update(episodes())
    assert torch.equal(learner.prior_weights.flat.values, before)


def test_a_prior_of_the_other_kind_of_state_is_refused(tmp_path):
    prior_run(tmp_path, obs_is_state=False)
    with pytest.raises(CheckpointError, match="obs_is_state=False, this run has obs_is_state=True"):
        omg(prior=str(tmp_path)).update(episodes())


def test_a_policy_that_only_acts_looks_at_no_path(tmp_path):
    prior_run(tmp_path, obs_is_state=False)  # would be refused
    omg(prior=str(tmp_path)).policy(explore=False, rows=4, rng=np.random.default_rng(0))


def test_a_prior_of_other_sizes_is_refused_with_both_shapes(tmp_path):
    prior_run(tmp_path)
    space = team_space(TeamShape(3, 9, 7, 4, 6))
    other = PriorLearner(
        PriorConfig(subgoal_dim=4, model_hidden=8),
        **(parts(TeamShape(3, 9, 7, 4, 6)) | {"observation_space": space}),
    )
    with pytest.raises(CheckpointError, match=r"shape \(5,\).*need \(9,\)"):
        load_prior(other.prior, tmp_path, obs_is_state=True)


def test_an_absent_prior_is_told_before_the_first_step_of_a_training_not_when_a_policy_is_loaded(tmp_path):
    learner, batch = omg(prior=str(tmp_path / "gone")), episodes()
    seen = {key: leaf[:, 0] for key, leaf in batch.obs.items()}
    learner.policy(explore=False, rows=4, rng=np.random.default_rng(0)).act(seen)
    for act in ("act", "random"):
        policy = learner.policy(explore=True, rows=4, rng=np.random.default_rng(0))
        with pytest.raises(CheckpointError, match="no trained prior"):
            getattr(policy, act)(seen)
    with pytest.raises(CheckpointError, match="no trained prior"):
        learner.update(batch)


def test_without_a_prior_run_the_prior_learns_first_and_is_then_frozen():
    learner = omg(prior_updates=2)
    for _ in range(2):
        learner.update(episodes())
    before = learner.prior_weights.flat.values.clone()
    learner.update(episodes())
    assert torch.equal(learner.prior_weights.flat.values, before)


def test_a_lone_agent_has_nobody_to_model():
    alone = TeamShape(1, 5, 7, 4, 6)
    with pytest.raises(ConfigError, match="other agents to model"):
        AgentModelling(AMConfig(), **parts(alone))


def test_models_of_others_need_shared_weights():
    with pytest.raises(ConfigError, match="shared=true"):
        OMG(OMGConfig(), **parts(shared=False))


def test_the_others_of_an_agent_are_its_mates():
    batch = episodes()
    data = rows_of(batch, SHAPE.limit)
    row = 1 * 4 + 2  # agent 1 of episode 2
    assert data.others[0, row].tolist() == [batch.action[2, 0, 0], batch.action[2, 0, 2]]


@pytest.mark.parametrize("make", [omg, am])
def test_q_begins_as_without_a_model_and_its_own_columns_as_large(make):
    learner, plain = make(), TeamNetworks.agent(parts()["networks"])
    columns = learner.nets.columns
    enter = learner.q.agent.enter.detach()
    assert (enter[:, columns:-1] == 0).all()
    assert enter[:, :columns].abs().max() == pytest.approx(plain.enter.abs().max().item(), rel=0.1)
    uniform = make(model_columns="uniform").q.agent.enter.detach()
    assert uniform[:, columns:-1].abs().max() > 0


def test_states_are_standardised_while_the_prior_learns_and_then_no_more():
    learner, batch = omg(standardise_states=True, prior_updates=3), episodes()
    batch.obs["obs"][:] = batch.obs["obs"] * 5 + 3
    for _ in range(3):
        learner.update(batch)
    data = rows_of(batch, SHAPE.limit)
    seen = learner.prior.standardised(data.obs)[exists(data.mask) > 0]
    assert seen.mean(0).abs().max() < 1e-4 and (seen.std(0) - 1).abs().max() < 0.02
    before = learner.prior.centre.clone()
    learner.update(episodes(seed=5))
    assert torch.equal(learner.prior.centre, before)


def test_a_prior_that_explains_too_little_is_refused():
    learner = omg(prior_updates=1, prior_explains=0.95)
    learner.update(episodes())
    with pytest.raises(UserError, match=r"explains -?\d.*prior_explains=0.95 is asked for"):
        learner.update(episodes())
    lenient = omg(prior_updates=1)
    for _ in range(2):
        lenient.update(episodes())


@pytest.mark.parametrize("before", [False, True])
def test_what_is_inferred_while_learning_is_inferred_while_acting(before):
    learner, batch = omg(history_before=before), episodes()
    data = rows_of(batch, SHAPE.limit)
    with torch.no_grad():
        mean, _, _ = learner._infer(data, data.obs)
    policy = learner.policy(explore=False, rows=4, rng=np.random.default_rng(0))
    for t in range(3):
        seen = torch.from_numpy(batch.obs["obs"][:, t]).transpose(0, 1)
        with torch.no_grad():
            acted, memory = policy.condition(seen, {})
        policy.memory = memory.view_as(policy.memory)
        learnt = mean[t].unflatten(0, (4, SHAPE.agents)).transpose(0, 1).flatten(0, 1)
        assert torch.allclose(acted, learnt, atol=1e-5)


def test_the_history_before_does_not_know_this_step():
    learner, batch, other = omg(history_before=True), episodes(), episodes()
    other.obs["obs"][:, 2] += 1.0
    with torch.no_grad():
        one, two = (
            learner._infer(rows_of(b, SHAPE.limit), rows_of(batch, SHAPE.limit).obs)[2]
            for b in (batch, other)
        )
    assert torch.equal(one[2], two[2]) and not torch.equal(one[3], two[3])


def test_without_noise_the_selector_chooses_the_same_twice():
    learner, batch = omg(noise=False, model_columns="uniform"), episodes()
    data, zero = prepared(learner, batch)
    first, second = (learner._select(zero, data.obs, data) for _ in range(2))
    assert torch.equal(first, second) and learner._metrics["selector_spread"] > 0


def test_a_kl_that_is_averaged_weighs_less_by_the_columns():
    assert OMGConfig(kl_weight=0.1, subgoal_dim=4, kl_mean=True).kl_share == pytest.approx(0.025)
    assert OMGConfig(kl_weight=0.1, subgoal_dim=4).kl_share == pytest.approx(0.1)


def test_a_model_that_takes_more_steps_is_nearer_to_the_selected_subgoal():
    batch, apart = episodes(), {}
    for steps in (1, 4):
        learner = omg(
            model_updates=steps,
            kl_weight=1.0,
            selector="conservative",
            noise=False,
            model_lr=3e-3,
            prior_updates=1,
        )
        for _ in range(30):
            learner.update(batch)
        apart[steps] = learner.metrics()["learner/kl"]
    assert apart[4] < apart[1]


@pytest.mark.parametrize("make", [omg, am])
def test_a_models_memory_learns_through_time(make):
    learner, batch = make(), episodes()
    data = rows_of(batch, SHAPE.limit)
    history = learner._history
    (history(data, SHAPE.limit + 1)[3].square().sum()).backward()
    learner.model_weights.zero_grad()
    history.backward()
    net, memory = learner.model.history, torch.zeros(1, data.obs.shape[1], 6)
    for t in range(4):  # by autograd, step by step
        said, memory = net(data.obs[t].unsqueeze(0), memory)
    wanted = torch.autograd.grad((said[0] * (data.mask[2:3].t() > 0)).square().sum(), [net.enter, net.recur])
    for found, by_hand in zip((net.enter.grad, net.recur.grad), wanted, strict=True):
        torch.testing.assert_close(found, by_hand, atol=1e-5, rtol=1e-4)


def test_a_policy_needs_no_state_even_if_subgoals_are_about_it():
    learner, batch = omg(obs_is_state=False, subgoal_columns=(0, 2)), episodes()
    learner.update(batch)
    policy = learner.policy(explore=False, rows=4, rng=np.random.default_rng(0))
    obs = {key: value[:, 0] for key, value in batch.obs.items() if key != "state"}
    assert policy.act(obs).shape == (4, SHAPE.agents)


def test_metrics_tell_how_much_of_a_subgoal_is_noise_and_what_the_prior_explains():
    learner = omg()
    learner.update(episodes())
    found = learner.metrics()
    assert found["learner/signal_to_noise"] > 0
    assert found["learner/prior_explains"] < 1 and 0 <= found["learner/prior_active"] <= 4
    assert 0 < found["learner/subgoal_hit_chance"] < 1


def test_subgoals_learn_to_predict_the_others_actions_when_asked_to():
    learner, batch = omg(action_weight=1.0, model_lr=3e-3, kl_weight=0.0), episodes()
    plain = omg(model_lr=3e-3)
    losses = []
    for _ in range(120):
        learner.update(batch)
        losses.append(learner.metrics()["learner/model_loss"])
    assert losses[-1] < 0.9 * losses[0]
    plain.update(batch)
    assert "learner/model_loss" not in plain.metrics()
    with pytest.raises(ConfigError, match="other agents to model"):
        OMG(OMGConfig(action_weight=1.0), **parts(TeamShape(1, 5, 7, 4, 6)))


def test_the_history_can_foretell_actions_and_q_then_sees_it_beside_the_subgoal():
    learner = omg(action_weight=1.0, action_from="history", model_lr=3e-3, model_columns="uniform")
    batch, losses = episodes(), []
    assert learner.q.agent.inputs == learner.nets.columns + OMG_SMALL["subgoal_dim"] + SMALL["history"]
    for _ in range(120):
        learner.update(batch)
        losses.append(learner.metrics()["learner/model_loss"])
    assert losses[-1] < 0.9 * losses[0]
    data, _ = prepared(learner, batch)
    extra = torch.randn(
        SHAPE.limit + 1, data.mask.shape[1], 4 + 6, generator=torch.Generator().manual_seed(0)
    )
    q, memory = learner.q.run(learner.q.agent, extra)
    ahead = learner.q._ahead(learner.q.agent, extra, memory, q, held=4)
    t = 2  # the next state is valued with this step's subgoal and its own history
    x = learner.q._unroll.x[:, t + 1].clone()
    x[..., learner.nets.columns : learner.nets.columns + 4] = extra[t, :, :4]
    by_hand, _ = learner.q.agent(x, memory[t + 1].unsqueeze(0))
    assert torch.allclose(ahead[t], by_hand[0], atol=1e-6)
    assert (
        omg(action_from="history").q.agent.inputs == learner.nets.columns + 4
    )  # without a loss nothing is added


def test_a_prior_learns_only_from_states_that_may_be_subgoals():
    learner, batch = omg(selector="first", standardise_states=True, subgoal_columns=(1,)), episodes()
    data = rows_of(batch, SHAPE.limit)
    learner._improve_prior(data.obs, data)
    seen = data.obs[..., 1][exists(data.mask) > 0]
    torch.testing.assert_close(learner.prior.centre[0], seen[seen > -1e-3].mean())
    batch.obs["obs"][:] = -1.0  # nothing is ever there: nothing is learnt, and nothing breaks
    before = learner.prior.centre.clone()
    learner.update(batch)
    assert torch.equal(learner.prior.centre, before) and learner.first_bad() is None


def test_subgoals_can_be_about_some_columns_alone():
    learner, batch = omg(subgoal_columns=(1, 3), prior_updates=1), episodes()
    for _ in range(2):
        learner.update(batch)  # the prior is frozen after the first
    assert learner.prior.encode.net(torch.zeros(1, 2)).shape == (1, 2 * OMG_SMALL["subgoal_dim"])
    data = rows_of(batch, SHAPE.limit)
    other = data.obs.clone()
    other[..., [0, 2]] += 1.0  # what subgoals are not about
    same, moved = (learner._embed(learner._improve_prior(obs, data)) for obs in (data.obs, other))
    torch.testing.assert_close(same, moved)
    with pytest.raises(ConfigError, match="subgoal_columns: the state has the columns 0 to"):
        omg(subgoal_columns=(SHAPE.obs,))


def test_a_prior_of_other_columns_is_refused(tmp_path):
    prior_run(tmp_path, subgoal_columns=(0, 1))
    with pytest.raises(CheckpointError, match=r"subgoal_columns=\[0, 1\], this run has \[1, 2\]"):
        omg(prior=str(tmp_path), subgoal_columns=(1, 2)).update(episodes())


def test_q_is_iql_until_the_prior_is_frozen_when_the_prior_comes_first():
    learner = omg(prior_first=True, prior_updates=3)
    columns = learner.q.agent.enter[:, learner.nets.columns : -1]  # the weights of the subgoal
    for _ in range(3):
        learner.update(episodes())
        assert (columns == 0).all()
    learner.update(episodes())
    assert (columns != 0).any()
    with pytest.raises(ConfigError, match=r"prior_first=true needs learner\.model_columns=zero"):
        omg(prior_first=True, model_columns="uniform")
