"""PyMARL's and EPyMARL's command lines: keys that are no settings here do what they do there, or are refused."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from twofold.base.errors import ConfigError, UserError
from twofold.base.regular import is_there
from twofold.settings.presets import find_config, read_yaml
from twofold.team.worlds.space import Values

log = logging.getLogger("twofold")

# Keys whose meaning is a setting here under another name or unit.
RENAMED = {
    "runner_log_interval": "trainer.log_every",
    "learner_log_interval": "trainer.log_every",
    "save_model_interval": "trainer.save_every",
    "use_tensorboard": "trainer.tensorboard",
    "hidden_dim": "networks.hidden",
}


@dataclass(frozen=True)
class Classes:
    """The classes of PyMARL that a learner of ours stands for."""

    learner: tuple[str, ...]
    am_model: tuple[str, ...] = ("none_am",)
    action_selector: str = "epsilon_greedy"
    agent_output_type: str = "q"


STANDS_FOR = {
    "q": Classes(("q_learner",)),
    "qtran": Classes(("qtran_learner",)),
    "coma": Classes(("coma_learner",), action_selector="multinomial", agent_output_type="pi_logits"),
    "am": Classes(("am_learner", "q_learner_4am"), ("base_am",)),
    "omg": Classes(("omg_learner", "q_learner_4am"), ("omg_am",)),
    "prior": Classes(("omg_learner",), ("omg_am",)),
}
# Who else could have been meant, by what was typed.
PRESETS = {
    "qtran_learner": "qtran",
    "coma_learner": "coma",
    "am_learner": "iql_am",
    "base_am": "iql_am",
    "omg_learner": "iql_omg",
    "omg_am": "iql_omg",
    "none_am": "iql",
    "q_learner": "iql, vdn or qmix",
    "multi_module_mac": "4iql3qmix1iql_omg --multi_algs",
}
# Keys of one value here.
FIXED: dict[str, tuple[str | bool, ...]] = {
    "agent": ("rnn",),
    "use_rnn": (True,),
    "save_model": (True,),
    "test_greedy": (True,),
    "buffer_cpu_only": (True, False),
    "common_reward": (True,),
    "standardise_returns": (False,),
}
# Keys whose meaning is said in another way here.
ELSEWHERE = {
    "name": "--run=DIR names a run",
    "label": "--run=DIR names a run",
    "repeat_id": "seed=N tells runs apart",
    "env_args.seed": "seed=N is the seed of everything",
}


Options = dict[str, str]  # of the command, by name


def translate(options: Options, settings: Values) -> tuple[Options, Values]:
    """Options and settings with PyMARL's own keys made into ours, or explained."""
    mixed = "multi-algs" in options
    for name in ("train-alg", "partners"):
        if name in options and not mixed:
            raise ConfigError(
                f"--{name}={options[name]} belongs to a mixed team: add --multi_algs, or leave it out"
            )
    if not mixed and not _is_team(str(options.get("config", "td3"))):
        return options, settings
    if mixed:
        from twofold.team.commands import mixed_team

        options, settings = mixed_team(options, settings)
    _check_named_otherwise(settings)
    _check_prior(settings)
    options, settings = _gymma(options, settings)
    options = _pre_training(options, settings)
    settings = {RENAMED.get(key, key): value for key, value in settings.items()}
    _check_device(settings)
    _check_fixed(settings)
    config = str(options.get("config", "td3"))
    _check_classes(settings, _kind(config), config)
    _weights(settings)
    _runner(settings, config)
    if "local_results_path" in settings:
        options = options | {"runs": str(settings.pop("local_results_path"))}
    _check_mode(settings)
    _round_test_episodes(settings)
    return options, settings


def _preset(config: str) -> Values:
    learner = read_yaml(find_config("algs", config)).get("learner", {})
    if not isinstance(learner, dict):
        raise ConfigError(
            f"{config}: `learner` must be a group of settings, such as `learner: {{name: td3}}`"
        )
    return learner


def _is_team(config: str) -> bool:
    """Whether a preset's learner is one of the team's."""
    return str(_preset(config).get("name", "")).startswith("team/")


def _kind(config: str) -> str:
    """Which learner a preset is, by the names of `STANDS_FOR`."""
    learner = _preset(config)
    return "qtran" if learner.get("mixer") == "qtran" else str(learner["name"]).removeprefix("team/")


def _check_named_otherwise(settings: Values) -> None:
    """Words of PyMARL that are said in another way here."""
    for key in [key for key in settings if key in ELSEWHERE]:
        raise ConfigError(f"{key}={settings[key]}: {ELSEWHERE[key]} (docs/from-pymarl.md)")


def _check_prior(settings: Values) -> None:
    """A prior that is not there is told before there is a run; what it holds is looked at by the learner."""
    path = str(settings.get("learner.prior", settings.get("prior", "")))
    if path and not is_there(path):
        raise ConfigError(f"learner.prior: there is no {path} (train a prior with --config=omg_prior)")


def _check_fixed(settings: Values) -> None:
    for key in [key for key in settings if key in FIXED]:
        value = settings.pop(key)
        if value not in FIXED[key]:
            known = " or ".join(map(str, FIXED[key]))
            raise ConfigError(f"{key}={value}: only {key}={known} is here (docs/from-pymarl.md)")


def _check_classes(settings: Values, kind: str, config: str) -> None:
    """Classes of PyMARL that are typed must be those that the preset stands for."""
    ours = STANDS_FOR.get(kind, STANDS_FOR["q"])
    wanted = {
        "learner": ours.learner,
        "am_model": ours.am_model,
        "action_selector": (ours.action_selector,),
        "agent_output_type": (ours.agent_output_type,),
        "mac": ("basic_mac",),
    }
    for key in [key for key in wanted if key in settings]:
        value = settings.pop(key)
        if value not in wanted[key]:
            hint = f"; --config={PRESETS[value]} is that here" if value in PRESETS else ""
            raise ConfigError(
                f"{key}={value}: --config={config} is {' or '.join(wanted[key])}{hint} (docs/from-pymarl.md)"
            )


def _weights(settings: Values) -> None:
    """policy_model=idv_rnn gives every agent weights of its own."""
    if "policy_model" not in settings:
        return
    value = settings.pop("policy_model")
    if value not in ("rnn", "idv_rnn"):
        raise ConfigError(f"policy_model={value}: rnn (shared weights) or idv_rnn (each its own) are here")
    settings["networks.shared"] = value == "rnn"


def _runner(settings: Values, config: str) -> None:
    """PyMARL's parallel runner: one update for `batch_size_run` episodes, targets counted in episodes."""
    runner, rows = settings.pop("runner", None), settings.get("batch_size_run", 1)
    if runner not in (None, "episode", "parallel"):
        raise ConfigError(f"runner={runner}: episode or parallel are here")
    if not isinstance(rows, int) or rows < 1:
        return  # said better where the setting is checked
    if runner == "episode" and rows > 1:
        raise ConfigError(
            f"runner=episode plays one row: leave out batch_size_run={rows}, or runner=parallel"
        )
    if rows == 1:
        return
    settings.setdefault("trainer.updates_per_item", 1 / rows)
    if _kind(config) in ("coma", "prior"):
        return  # COMA's interval counts steps of its critic, in PyMARL as here
    episodes = settings.pop("target_update_interval", 200)
    if isinstance(episodes, (int, float)) and episodes >= 1:
        episodes = float(math.ceil(episodes / rows))
    settings["learner.target_update_interval"] = episodes


# EPyMARL's one world for everything Gymnasium knows: by the beginning of its key.
_GYMMA = {
    "lbforaging": "lbf",
    "rware": "rware",
    "pz-mpe-simple-spread": "mpe_spread",
    "pz-mpe-simple-tag": "mpe_tag",
    "pz-mpe-simple-speaker-listener": "mpe_speaker_listener",
}

_BATTLES = ("smaclite", "sc2v2", "sc2wrapped", "smac")  # other names of StarCraft-like battles


def _gymma(options: Options, settings: Values) -> tuple[Options, Values]:
    """--env-config=gymma with env_args.key=lbforaging:... as the world that it is here."""
    if (name := options.get("env-config")) in _BATTLES:
        raise ConfigError(
            f"--env-config={name} is not here: --env-config=skirmish env_args.map_name=... has SMAC's 23 maps without "
            "the game, --env-config=sc2 is StarCraft II itself"
        )
    if name != "gymma":
        return options, settings
    key = str(settings.get("env_args.key", ""))
    found = next((name for start, name in _GYMMA.items() if key.startswith(start)), None)
    if found is None:
        raise ConfigError(
            f"--env-config=gymma env_args.key={key}: lbforaging:... and rware:... are here as --env-config=lbf "
            "and rware, pz-mpe-simple-spread, -tag and -speaker-listener as mpe_spread, mpe_tag and "
            "mpe_speaker_listener; others as --env-config=pettingzoo env_args.id=..."
        )
    if found.startswith("mpe_"):
        key = key.removeprefix("pz-mpe-").replace("-", "_")
    return options | {"env-config": found}, settings | {"env_args.key": key}


def _pre_training(options: Options, settings: Values) -> Options:
    """OMG's first line, --config=iql ... --obs_is_state=True, trains the prior."""
    if "obs_is_state" not in settings or _kind(str(options.get("config"))) != "q":
        return options
    log.info("obs_is_state with --config=%s is OMG's first stage: --config=omg_prior", options["config"])
    return options | {"config": "omg_prior"}


def _check_device(settings: Values) -> None:
    """CUDA that is asked for and absent is an error, never a silent change."""
    if settings.pop("use_cuda", False):
        raise UserError(
            "use_cuda=True is device=cuda here (device=auto: a GPU if there is one); without either the CPU computes"
        )


def _check_mode(settings: Values) -> None:
    """Loading, evaluating and saving replays are commands of their own."""
    path = settings.pop("checkpoint_path", "")
    settings.pop("load_step", None)
    if settings.pop("evaluate", False):
        raise UserError(f"evaluate=True: twofold eval {path or 'RUN'} --episodes=32")
    if settings.pop("save_replay", False):
        raise UserError(f"save_replay=True: twofold play {path or 'RUN'} --out=battle.mp4")
    if path:
        raise UserError(f"checkpoint_path={path}: twofold resume {path} resumes a run")


def _round_test_episodes(settings: Values) -> None:
    """Test episodes come in whole batches of rows, as PyMARL has it."""
    episodes, rows = settings.get("test_nepisode"), settings.get("batch_size_run")
    if not isinstance(episodes, int) or not isinstance(rows, int) or rows < 1 or episodes % rows == 0:
        return
    settings["test_nepisode"] = max(episodes // rows, 1) * rows
    log.warning(
        "test_nepisode=%d is not a multiple of batch_size_run=%d: %d are played",
        episodes,
        rows,
        settings["test_nepisode"],
    )
