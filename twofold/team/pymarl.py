"""PyMARL's command line: its keys that are no settings here, and its sanity checks of arguments."""

from __future__ import annotations

import logging

from twofold.base.errors import ConfigError, UserError
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
# Keys that choose a class of PyMARL; the preset does that here, so the usual values are accepted and change nothing.
IMPLIED: dict[str, set[str | bool]] = {
    "runner": {"episode", "parallel"},
    "mac": {"basic_mac", "multi_module_mac"},
    "agent": {"rnn"},
    "learner": {"q_learner", "coma_learner", "qtran_learner", "am_learner", "omg_learner", "q_learner_4am"},
    "action_selector": {"epsilon_greedy", "multinomial"},
    "agent_output_type": {"q", "pi_logits"},
    "policy_model": {"rnn", "idv_rnn"},
    "am_model": {"none_am", "base_am", "omg_am"},
    "save_model": {True},
    "test_greedy": {True},
    "buffer_cpu_only": {True, False},
}


def translate(options: Values, settings: Values) -> tuple[Values, Values]:
    """Options and settings with PyMARL's own keys made into ours, or explained."""
    if "multi-algs" not in options and not _is_team(str(options.get("config", "td3"))):
        return options, settings
    if "multi-algs" in options:
        from twofold.team.commands import mixed_team

        options, settings = mixed_team(options, settings)
    settings = {RENAMED.get(key, key): value for key, value in settings.items()}
    _check_device(settings)
    for key in [k for k in settings if k in IMPLIED]:
        value = settings.pop(key)
        if value not in IMPLIED[key]:
            raise ConfigError(
                f"{key}={value}: the preset of --config chooses this here (docs/from-pymarl.md)"
            )
    if "local_results_path" in settings:
        options = options | {"runs": str(settings.pop("local_results_path"))}
    _check_mode(settings)
    _round_test_episodes(settings)
    return options, settings


def _is_team(config: str) -> bool:
    """Whether a preset's learner is one of the team's."""
    return str(read_yaml(find_config("algs", config)).get("learner", {}).get("name", "")).startswith("team/")


def _check_device(settings: Values) -> None:
    """CUDA that is asked for and absent is an error, never a silent change."""
    if settings.pop("use_cuda", False):
        raise UserError("use_cuda=True: twofold computes on the CPU; leave it out, or say use_cuda=False")


def _check_mode(settings: Values) -> None:
    """Loading, evaluating and saving replays are commands of their own."""
    path = settings.pop("checkpoint_path", "")
    settings.pop("load_step", None)
    if settings.pop("evaluate", False):
        raise UserError(f"evaluate=True: twofold eval {path or 'RUN'} --episodes=32")
    if settings.pop("save_replay", False):
        raise UserError(f"save_replay=True: twofold play {path or 'RUN'} --out=battle.mp4")
    if path:
        raise UserError(f"checkpoint_path={path}: twofold resume {path} goes on with a run")


def _round_test_episodes(settings: Values) -> None:
    """Test episodes come in whole batches of rows, as PyMARL has it."""
    episodes, rows = settings.get("test_nepisode"), settings.get("batch_size_run")
    if not isinstance(episodes, int) or not isinstance(rows, int) or rows < 1 or episodes % rows == 0:
        return
    settings["test_nepisode"] = max(episodes // rows, 1) * rows
    log.warning(
        "test_nepisode=%d is no multiple of batch_size_run=%d: %d are played",
        episodes,
        rows,
        settings["test_nepisode"],
    )
