"""The real StarCraft II through oxwhirl's smac, imported only when asked for."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
from gymnasium import spaces

from twofold.base.errors import UserError
from twofold.base.regular import is_file, is_folder
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.rows.envs import EnvRows
from twofold.settings.registry import worlds
from twofold.team.worlds.battlefield import map_names
from twofold.team.worlds.single import Action, TeamEnv, rows_of
from twofold.team.worlds.space import Foreign, Frames, Space

log = logging.getLogger("twofold")


@settings
class StarCraftConfig:
    """Settings of smac's StarCraft2Env under its own names."""

    map_name: str = setting("a map of smac", default="8m")
    difficulty: str = setting("of the game's own AI, 1 to A", default="7")
    step_mul: int = setting("game loops of one step", default=8, ge=1)
    move_amount: float = setting("how far a move asks for", default=2.0, gt=0, unit="cells")
    continuing_episode: bool = setting(
        "a time-out is a truncation, values bootstrap through it", default=False
    )
    game_version: str | None = setting("of the game; null: the newest installed", default=None)
    obs_all_health: bool = setting("a unit sees the health of those in sight", default=True)
    obs_instead_of_state: bool = setting("the state is all observations, joined", default=False)
    obs_last_action: bool = setting("a unit sees the last actions of visible allies", default=False)
    obs_own_health: bool = setting("a unit sees its own health", default=True)
    obs_pathing_grid: bool = setting("a unit sees where the ground around it can be walked", default=False)
    obs_terrain_height: bool = setting("a unit sees the height of the ground around it", default=False)
    obs_timestep_number: bool = setting("a unit sees the share of the limit that is over", default=False)
    state_last_action: bool = setting("the state holds the last actions", default=True)
    state_timestep_number: bool = setting(
        "the state holds the share of the limit that is over", default=False
    )
    reward_sparse: bool = setting("1 for a win, -1 for a defeat, nothing before", default=False)
    reward_only_positive: bool = setting("own losses cost nothing", default=True)
    reward_death_value: float = setting("for each unit that dies", default=10.0)
    reward_win: float = setting("for a battle won", default=200.0)
    reward_defeat: float = setting("for a battle lost", default=0.0)
    reward_negative_scale: float = setting("weight of own losses, where they cost", default=0.5)
    reward_scale: bool = setting(
        "scale rewards so that a perfect battle pays `reward_scale_rate`", default=True
    )
    reward_scale_rate: float = setting("the return of a perfect battle", default=20.0, gt=0)
    replay_dir: str = setting("where the game saves replays", default="")
    replay_prefix: str = setting("how their names begin", default="")
    heuristic_ai: bool = setting("units follow smac's own script whatever is asked of them", default=False)
    debug: bool = setting("smac prints what happens", default=False)


class StarCraft:
    """One game of smac as `TeamEnv` needs it."""

    def __init__(self, env: Foreign) -> None:
        self.env = env
        about = env.get_env_info()
        agents = int(about["n_agents"])
        self.limit = int(about["episode_limit"])
        self.observations: list[Space] = [
            spaces.Box(-np.inf, np.inf, (int(about["obs_shape"]),), np.float32)
        ] * agents
        self.actions: list[Space] = [spaces.Discrete(int(about["n_actions"]))] * agents
        self.metrics: dict[str, float] = {}

    def reset(self, seed: int | None) -> list[Array]:
        # The game takes its seed when it is launched; a reset continues its own random numbers.
        self.env.reset()
        self.metrics = {"battle_won": 0.0}
        return list(self.env.get_obs())

    def step(self, actions: list[Action]) -> tuple[list[Array], list[float], bool, bool]:
        reward, terminated, info = self.env.step(actions)
        cut = bool(info.get("episode_limit", False))
        for name in ("battle_won", "dead_allies", "dead_enemies"):
            if name in info:
                self.metrics[name] = float(info[name])
        agents = len(self.actions)
        return list(self.env.get_obs()), [float(reward) / agents] * agents, bool(terminated) and not cut, cut

    def state(self) -> Array | None:
        return np.asarray(self.env.get_state(), np.float32)

    def avail(self) -> Array | None:
        return np.asarray(self.env.get_avail_actions(), np.uint8)

    def render(self) -> Frames:
        raise UserError(
            "StarCraft II shows itself in its own window; smac saves replays with env_args.replay_dir"
        )

    def close(self) -> None:
        self.env.close()


def instead(map_name: str) -> str:
    """What to type to play the same map without the game."""
    name = map_name if map_name in map_names() else "8m"
    return f"without the game: --env-config=skirmish env_args.map_name={name}"


def smac_package(map_name: str) -> Foreign:
    """oxwhirl's smac, or an error that says what is missing."""
    # s2clientprotocol's generated code is older than the C++ protobuf of today.
    os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
    if importlib.util.find_spec("smac") is None:
        raise UserError(
            "StarCraft II needs the game and the package smac of github.com/oxwhirl/smac (not on the package index); "
            + instead(map_name)
        )
    try:
        return importlib.import_module("smac.env.starcraft2.starcraft2")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("smac"):
            raise UserError(f"smac needs the package '{error.name}'; {instead(map_name)}") from None
        raise UserError(
            "the installed package 'smac' is SMAC3, a hyper-parameter optimiser of the same name; uninstall it and "
            f"install that of github.com/oxwhirl/smac; {instead(map_name)}"
        ) from None


def game_folder(map_name: str) -> Path:
    """Where StarCraft II is, with the maps of smac in it."""
    folder = Path(os.environ.get("SC2PATH", "~/StarCraftII")).expanduser()
    if not is_folder(folder):
        raise UserError(f"StarCraft II is not at {folder}: set SC2PATH; {instead(map_name)}")
    maps = folder / "Maps" / "SMAC_Maps"
    if not is_file(maps / f"{map_name}.SC2Map"):
        raise UserError(
            f"no map {maps / map_name}.SC2Map: unpack smac's SMAC_Maps there; {instead(map_name)}"
        )
    return folder


def game_version(folder: Path) -> str:
    """The newest installed version: win rates differ between versions, so it belongs to every result."""
    found = sorted(path.name for path in (folder / "Versions").glob("Base*"))
    return found[-1] if found else "unknown"


@worlds.register("team/sc2", config=StarCraftConfig)
def sc2(cfg: StarCraftConfig, *, rows: int, purpose: str) -> EnvRows:
    """The real StarCraft II through smac; every row is a game of its own."""
    module = smac_package(cfg.map_name)
    version = game_version(game_folder(cfg.map_name))
    log.info("StarCraft II %s; its battles are no function of a seed, so resumed runs are not exact", version)
    world = rows_of(lambda: TeamEnv(StarCraft(module.StarCraft2Env(**asdict(cfg)))), rows)
    world.metadata = world.metadata | {"game_version": version, "exact": False}
    return world
