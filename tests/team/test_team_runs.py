"""Whole team runs: presets resolve, PyMARL's command line works, a stopped run goes on to the same bytes."""

import numpy as np
import pytest

from twofold import api
from twofold.assemble import assemble, run_to_end
from twofold.base.errors import ConfigError, UserError
from twofold.base.progress import Quiet
from twofold.base.signals import Stopped
from twofold.core.seeding import Generators
from twofold.rows.world import make_world
from twofold.settings.config import layers_for, load, resolve
from twofold.settings.presets import parse_value
from twofold.store.policy_file import make_learner
from twofold.store.run import Run
from twofold.team.pymarl import translate

ALGORITHMS = [
    "iql",
    "vdn",
    "qmix",
    "qtran",
    "coma",
    "iql_am",
    "iql_idv",
    "iql_omg",
    "iql_beta",
    "vdn_beta",
    "qmix_beta",
    "omg_prior",
]
TINY = {
    "env_args.map_name": "3m", "networks.hidden": 8, "trainer.rows": 2, "trainer.steps": 240, "trainer.eval_every": 200,
    "trainer.eval_episodes": 2, "trainer.eval_rows": 2, "trainer.test_episodes": 2, "trainer.log_every": 50,
    "trainer.tensorboard": False, "replay.batch_size": 2, "replay.buffer_size": 6, "trainer.updates_per_item": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("config", ALGORITHMS)
def test_preset_makes_a_learner_that_plays_and_learns(config, tmp_path):
    trained = api.train(config, "skirmish", run=tmp_path / "run", **TINY)
    assert np.isfinite(trained.test["eval"]["return"]["mean"])
    assert trained.policy.learner.policy_state().keys()


@pytest.mark.parametrize("config", ["qmix", "coma", "iql_am", "iql_omg", "omg_prior"])
def test_a_run_stopped_in_the_middle_of_episodes_ends_with_the_same_bytes(config, tmp_path):
    whole = api.train(config, "skirmish", run=tmp_path / "whole", **TINY)
    resolved = resolve(layers_for(config, "skirmish", TINY))
    run = Run.create(tmp_path / "cut", resolved, "test")
    run.lock()
    parts = assemble(run)
    stop_at(parts.trainer, 130)
    with pytest.raises(Stopped):
        parts.trainer.train(Quiet())
    parts.close()
    run.close()
    run_to_end(Run.open(tmp_path / "cut"))
    for name in ("best.safetensors", "metrics.jsonl", "evaluations.jsonl", "test.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (whole.folder / name).read_bytes(), name


def stop_at(trainer, step):
    """Ask to stop as a signal would, once this many steps were made."""
    import signal

    collect = trainer._collect

    def stopping():
        collect()
        if trainer.steps >= step:
            trainer.stop.received = signal.SIGTERM

    trainer._collect = stopping


def typed(text):
    """Settings as the command line gives them."""
    return {key: parse_value(value) for key, _, value in (word.partition("=") for word in text.split())}


def test_pymarls_names_reach_our_settings():
    words = (
        "env_args.map_name=8m t_max=123456 batch_size_run=4 test_interval=5000 test_nepisode=16 lr=0.0003 "
    )
    words += "epsilon_start=0.9 epsilon_finish=0.1 epsilon_anneal_time=70000 target_update_interval=150 double_q=False "
    words += (
        "buffer_size=400 batch_size=16 gamma=0.97 rnn_hidden_dim=32 mixing_embed_dim=16 grad_norm_clip=5 "
    )
    words += "runner=parallel mac=basic_mac agent=rnn use_tensorboard=False runner_log_interval=3000 "
    words += "use_cuda=False save_model=True"
    _, settings = translate({"config": "qmix"}, typed(words))
    config = resolve(layers_for("qmix", "skirmish", settings)).config
    trainer, learner = config.trainer, config.learner
    assert (trainer.steps, trainer.rows, trainer.eval_every, trainer.eval_episodes) == (123456, 4, 5000, 16)
    assert (learner.lr, learner.epsilon.start, learner.epsilon.end, learner.epsilon.over) == (
        3e-4,
        0.9,
        0.1,
        70000,
    )
    assert trainer.updates_per_item == 0.25  # one update for four episodes, and a target every 150 of these
    assert (learner.target_update_interval, learner.double_q, learner.gamma, learner.mixing_embed_dim) == (
        38,
        False,
        0.97,
        16,
    )
    assert (config.replay.buffer_size, config.replay.batch_size, config.networks.hidden) == (400, 16, 32)
    assert (trainer.log_every, trainer.tensorboard, learner.grad_norm_clip) == (3000, False, 5)


def test_cuda_that_is_asked_for_is_an_error_not_a_silent_change():
    with pytest.raises(UserError, match="use_cuda=True is device=cuda here"):
        translate({"config": "qmix"}, {"use_cuda": True})


def test_test_episodes_are_rounded_to_rows_with_a_notice(caplog):
    import logging

    logging.getLogger("twofold").propagate = True
    _, settings = translate({"config": "qmix"}, {"test_nepisode": 30, "batch_size_run": 8})
    assert settings["test_nepisode"] == 24 and "24 are played" in caplog.text


def test_pymarls_modes_name_the_command_to_use():
    for mode, command in (
        ("evaluate", "twofold eval"),
        ("save_replay", "twofold play"),
        ("x", "twofold resume"),
    ):
        settings = {"checkpoint_path": "runs/a"} | ({mode: True} if mode != "x" else {})
        with pytest.raises(UserError, match=command):
            translate({"config": "qmix"}, settings)


@pytest.mark.parametrize(
    ("config", "typed", "told"),
    [
        ("iql", {"learner": "omg_learner"}, "--config=iql_omg is that here"),
        ("iql", {"am_model": "base_am"}, "--config=iql_am is that here"),
        ("qmix", {"learner": "coma_learner"}, "--config=coma is that here"),
        ("qmix", {"mac": "multi_module_mac"}, "multi_algs"),
        ("qmix", {"agent_output_type": "pi_logits"}, "agent_output_type=pi_logits"),
        ("qmix", {"agent": "transformer"}, "only agent=rnn"),
        ("qmix", {"use_rnn": False}, "only use_rnn=True"),
        ("qmix", {"policy_model": "mlp"}, "rnn .shared weights. or idv_rnn"),
        ("qmix", {"runner": "episode", "batch_size_run": 8}, "runner=parallel"),
        ("qmix", {"runner": "ray"}, "episode or parallel"),
    ],
)
def test_a_class_of_pymarl_that_the_preset_is_not_is_refused(config, typed, told):
    with pytest.raises(ConfigError, match=told):
        translate({"config": config}, typed)


@pytest.mark.parametrize(
    ("config", "typed"),
    [
        ("iql", {"learner": "q_learner", "am_model": "none_am", "mac": "basic_mac", "runner": "episode"}),
        ("iql_omg", {"learner": "omg_learner", "am_model": "omg_am"}),
        ("iql_am", {"learner": "am_learner", "am_model": "base_am"}),
        ("coma", {"learner": "coma_learner", "action_selector": "multinomial"}),
        ("qtran", {"learner": "qtran_learner", "agent_output_type": "q"}),
    ],
)
def test_the_classes_that_a_preset_is_are_accepted_and_change_nothing(config, typed):
    assert translate({"config": config}, typed)[1] == {}


def test_weights_of_each_agents_own_are_what_idv_rnn_asks_for():
    assert translate({"config": "iql"}, {"policy_model": "idv_rnn"})[1] == {"networks.shared": False}


def test_the_parallel_runner_updates_as_pymarls_does():
    _, settings = translate({"config": "qmix"}, {"runner": "parallel", "batch_size_run": 8})
    config = resolve(layers_for("qmix", "skirmish", settings)).config
    beta = load("qmix_beta", "skirmish").config
    assert (config.trainer.rows, config.trainer.updates_per_item) == (8, 0.125)
    assert config.learner == beta.learner and config.trainer == beta.trainer


@pytest.mark.parametrize(
    ("key", "env", "id"),
    [
        ("lbforaging:Foraging-8x8-2p-3f-v3", "lbf", "lbforaging:Foraging-8x8-2p-3f-v3"),
        ("rware:rware-tiny-2ag-v2", "rware", "rware:rware-tiny-2ag-v2"),
        ("pz-mpe-simple-spread-v3", "mpe_spread", "simple_spread_v3"),
        ("pz-mpe-simple-tag-v3", "mpe_tag", "simple_tag_v3"),
        ("pz-mpe-simple-speaker-listener-v4", "mpe_speaker_listener", "simple_speaker_listener_v4"),
    ],
)
def test_epymarls_gymma_is_the_world_of_its_key(key, env, id):
    options, settings = translate(
        {"config": "qmix", "env-config": "gymma"}, {"env_args.key": key, "env_args.time_limit": 25}
    )
    assert options["env-config"] == env
    config = resolve(layers_for("qmix", env, settings)).config
    assert (config.env_args.id, config.env_args.time_limit) == (id, 25)


@pytest.mark.parametrize("key", ["vmas-balance", "pz-mpe-simple-adversary-v3"])
def test_a_key_of_gymma_that_is_not_here_names_what_is(key):
    with pytest.raises(ConfigError, match="--env-config=lbf and rware, pz-mpe-simple-spread"):
        translate({"config": "qmix", "env-config": "gymma"}, {"env_args.key": key})


@pytest.mark.parametrize("name", ["smaclite", "sc2v2"])
def test_other_names_of_battles_name_the_worlds_that_are_here(name):
    with pytest.raises(ConfigError, match=f"--env-config={name} is not here: --env-config=skirmish"):
        translate({"config": "qmix", "env-config": name}, {"env_args.map_name": "MMM"})


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"name": "mine"}, "--run=DIR names a run"),
        ({"env_args.seed": 3}, "seed=N is the seed of everything"),
        ({"learner.prior": "nosuch"}, "there is no nosuch"),
        ({"prior": "nosuch"}, "there is no nosuch"),
    ],
)
def test_what_pymarl_says_in_another_way_is_told_at_once(typed, told):
    with pytest.raises(ConfigError, match=told):
        translate({"config": "iql_omg", "env-config": "skirmish"}, typed)


def test_qmix_of_pymarl_runs_as_typed(tmp_path):
    from twofold.cli import main

    small = "env_args.map_name=3m t_max=60 networks.hidden=8 test_interval=50 test_nepisode=2 "
    small += "trainer.test_episodes=1 use_tensorboard=False"
    argv = [
        "train",
        "--config=qmix",
        "--env-config=skirmish",
        f"--run={tmp_path / 'run'}",
        "with",
        *small.split(),
    ]
    assert main(argv) == 0


def test_a_battle_becomes_a_video(tmp_path):
    from twofold.cli import main

    api.train("iql", "skirmish", run=tmp_path / "run", **(TINY | {"trainer.steps": 40}))
    assert main(["play", str(tmp_path / "run"), f"--out={tmp_path / 'battle.mp4'}"]) == 0
    assert (tmp_path / "battle.mp4").stat().st_size > 1000


def test_matd3_is_td3_with_the_teams_networks():
    pytest.importorskip("mpe2")
    config = load("matd3", "mpe_spread").config
    world = make_world(config, purpose="train", rows=2)
    learner = make_learner(config, world.single_observation_space, world.single_action_space, Generators(0))
    assert type(learner).__name__ == "TD3"
    obs, _ = world.reset(seed=[0, 1])
    policy = learner.policy(explore=False, rows=2, rng=np.random.default_rng(0))
    policy.reset(np.ones(2, bool))
    action = policy.act(obs)
    assert action.shape == (2, 15) and np.abs(action).max() <= 1
    swapped = {key: leaf.copy() for key, leaf in obs.items()}
    swapped["obs"][:, 2] += 1.0  # what agent 2 sees moves only agent 2
    moved = policy.act(swapped)
    assert np.allclose(moved[:, :10], action[:, :10]) and not np.allclose(moved[:, 10:], action[:, 10:])


def test_matd3_on_choices_says_what_to_add():
    with pytest.raises(ConfigError, match="continuous=true"):
        config = load("matd3", "mpe_spread", env_args={"continuous": False}).config
        world = make_world(config, purpose="train", rows=1)
        make_learner(config, world.single_observation_space, world.single_action_space, Generators(0))


def test_omgs_pre_training_line_trains_the_prior():
    options, settings = translate({"config": "iql", "env-config": "skirmish"}, {"obs_is_state": True})
    config = resolve(layers_for(options["config"], "skirmish", settings)).config
    assert config.learner_name == "team/prior" and config.learner.obs_is_state is True


def test_the_win_rate_leads_the_log_with_its_interval(tmp_path, caplog):
    import logging

    logging.getLogger("twofold").propagate = True
    with caplog.at_level("INFO", "twofold"):
        api.train("iql", "skirmish", run=tmp_path / "run", **(TINY | {"trainer.steps": 40}))
    assert "eval  battle_won 0.000 [0.000, 0.658]  return" in caplog.text
