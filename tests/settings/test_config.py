from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from twofold.base.errors import ConfigError
from twofold.settings.config import agent_of, from_values, layers_for, load, plain, resolve
from twofold.settings.presets import config_names, parse_value, read_yaml
from twofold.settings.registry import networks


def test_layers_win_in_the_order_default_env_alg_command_line() -> None:
    resolved = load("td3_parl", "pendulum", trainer={"eval_episodes": 7})
    assert resolved.config.trainer.warmup == 10_000  # the env config says 1_000, the alg config is above it
    assert resolved.config.trainer.log_every == 500
    assert resolved.config.trainer.eval_episodes == 7
    assert resolved.origin["trainer.warmup"] == "algs/td3_parl.yaml"
    assert resolved.origin["trainer.log_every"] == "envs/pendulum.yaml"
    assert resolved.origin["trainer.eval_episodes"] == "command line"
    assert resolved.origin["trainer.save_every"] == "built in"


@pytest.mark.parametrize("alg", ["td3", "td3_paper", "td3_parl", "td3_hardcore", "ddpg"])
@pytest.mark.parametrize("env", ["pendulum", "bipedal_hardcore"])
def test_control_presets_resolve(alg: str, env: str) -> None:
    assert load(alg, env).config.learner_name == "td3"


def test_presets_hold_the_published_settings() -> None:
    paper, td3, ddpg = (load(name, "pendulum").config for name in ("td3_paper", "td3", "ddpg"))
    assert paper.networks.actor_hidden == (400, 300) and paper.replay.batch_size == 100
    assert paper.learner.actor_lr == paper.learner.critic_lr == 1e-3
    assert load("td3_paper", "hopper").config.trainer.warmup == 1_000
    assert td3.networks.critic_hidden == (256, 256) and td3.replay.batch_size == 256
    assert (td3.learner.actor_lr, td3.learner.tau, td3.learner.policy_delay) == (3e-4, 0.005, 2)
    assert load("td3", "halfcheetah").config.trainer.warmup == 25_000
    assert (ddpg.learner.twin, ddpg.learner.policy_delay, ddpg.learner.policy_noise) == (False, 1, 0.0)


def test_a_misspelt_setting_is_refused_with_the_right_name() -> None:
    with pytest.raises(
        ConfigError, match=r"command line: unknown setting 'learner.gama'; did you mean 'learner.gamma'"
    ):
        load("td3", "pendulum", learner={"gama": 0.9})


def test_a_bare_name_finds_its_section_and_hyphens_count_as_underscores() -> None:
    resolved = resolve(layers_for("td3", "pendulum", {"batch-size": 64, "actor-lr": 1e-4, "t_max": 5000}))
    assert resolved.config.replay.batch_size == 64
    assert resolved.config.learner.actor_lr == 1e-4
    assert resolved.config.trainer.steps == 5000


def test_other_codes_names_are_aliases() -> None:
    values = {"update_actor_freq": 3, "start_timesteps": "25e3", "policy-freq": 4, "discount": 0.9}
    resolved = resolve(layers_for("td3", "pendulum", {k: parse_value(str(v)) for k, v in values.items()}))
    assert resolved.config.learner.policy_delay == 4
    assert resolved.config.trainer.warmup == 25_000
    assert resolved.config.learner.gamma == 0.9


def test_scientific_notation_is_a_number_in_yaml_and_on_the_command_line(tmp_path: Path) -> None:
    assert parse_value("1e-3") == 1e-3
    (tmp_path / "x.yaml").write_text("a: 1e-3\nb: [2E5, text]\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": 1e-3, "b": [2e5, "text"]}


def test_values_are_parsed_by_yaml_rules() -> None:
    assert parse_value("true") is True and parse_value("null") is None
    assert parse_value("256,256") == [256, 256] == parse_value("[256, 256]")
    assert parse_value("Ant-v5") == "Ant-v5"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"learner.gamma": "high"}, "learner.gamma must be a finite number"),
        ({"learner.gamma": float("nan")}, "learner.gamma must be a finite number"),
        ({"learner.twin": 1}, "learner.twin must be true or false"),
        ({"trainer.rows": 0}, "trainer.rows must be above 0"),
        ({"learner.engine": "fusd"}, "did you mean 'fused'"),
        ({"learner.name": "td4"}, "no learner named 'td4'; did you mean 'td3'"),
        ({"env": "control/gim"}, "no world named 'control/gim'; did you mean 'control/gym'"),
    ],
)
def test_bad_values_are_named(value: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(layers_for("td3", "pendulum", value))


def test_an_unknown_preset_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no --env-config named 'pendulm'; did you mean 'pendulum'"):
        load("td3", "pendulm")


def test_free_form_dicts_take_any_key_below_them() -> None:
    config = load("td3", "gym", env_args={"id": "Hopper-v5", "kwargs": {"ctrl_cost_weight": 0.1}}).config
    assert config.env_args.kwargs == {"ctrl_cost_weight": 0.1}


def test_a_config_survives_the_run_directory() -> None:
    resolved = load("td3_hardcore", "bipedal_hardcore", seed=5)
    again = from_values(plain(resolved.values), "config.json")
    assert again.config == resolved.config


def test_settings_of_a_part_that_a_layer_above_replaced_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        networks, "_entries", dict(networks._entries)
    )  # what is registered here is not there later

    @dataclass(frozen=True)
    class Own:
        width: int = 4

    networks.register("mine/own", config=Own)(lambda *_: None)
    config = load("td3", "pendulum", networks={"name": "mine/own", "width": 8}).config
    assert config.networks == Own(8)
    with pytest.raises(ConfigError, match=r"unknown setting 'networks\.actor_hidden'"):
        load("td3", "pendulum", networks={"name": "mine/own", "actor_hidden": [8]})


def test_yaml_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text("a: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(ConfigError, match="not a valid config"):
        read_yaml(tmp_path / "evil.yaml")


def test_there_is_a_config_for_every_named_environment() -> None:
    wanted = {"pendulum", "halfcheetah", "hopper", "walker2d", "ant", "humanoid", "bipedal"}
    wanted |= {"bipedal_hardcore", "lunarlander", "gym"}
    assert wanted <= set(config_names("envs"))


def test_what_acting_needs_is_resolved_without_the_world() -> None:
    resolved = load("td3_hardcore", "bipedal_hardcore")
    values = plain(resolved.values) | {"env": "nobody/knows", "env_args.anything": 1}
    agent = agent_of(values)
    assert (agent.learner, agent.networks) == (resolved.config.learner, resolved.config.networks)


def test_every_preset_says_what_it_is_in_one_whole_line() -> None:
    from twofold.settings.presets import presets

    for preset in [*presets("algs"), *presets("envs")]:
        first, second, *_ = [*preset.path.read_text().splitlines(), ""]
        goes_on = second.startswith("# ") and (second[2:3].islower() or first.rstrip()[-1] in ",;:(")
        assert preset.about and not goes_on, preset.path
