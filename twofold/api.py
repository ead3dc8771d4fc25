"""What Python users call: train, evaluate, load, check."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from twofold.assemble import Trained, new_folder, run_to_end
from twofold.base.progress import Progress
from twofold.check import check_learner, check_networks
from twofold.rows.check import check_world
from twofold.rows.world import make_world
from twofold.settings.config import layers_for, resolve
from twofold.settings.imports import import_user_code
from twofold.settings.presets import flatten
from twofold.store.run import Run

__all__ = ["Trained", "check", "check_env", "check_learner", "check_networks", "check_world", "train"]


def train(
    config: str | None = "td3",
    env_config: str | None = "pendulum",
    *,
    run: str | Path | None = None,
    runs: str | Path = "runs",
    imports: tuple[str, ...] = (),
    progress: Progress | None = None,
    on_folder: Callable[[Path], None] | None = None,
    **overrides: object,
) -> Trained:
    """Train to the end, or resume a run of the same settings, perhaps for more steps.

    `overrides` are settings such as seed=1.
    """
    return train_with(
        config,
        env_config,
        overrides,
        run=run,
        runs=runs,
        imports=imports,
        progress=progress,
        on_folder=on_folder,
    )


def train_with(
    config: str | None,
    env_config: str | None,
    overrides: Mapping[str, object],
    *,
    run: str | Path | None = None,
    runs: str | Path = "runs",
    imports: tuple[str, ...] = (),
    progress: Progress | None = None,
    on_folder: Callable[[Path], None] | None = None,
) -> Trained:
    """`train` with the settings as one dictionary, in which any name may stand."""
    import_user_code(imports)
    resolved = resolve(layers_for(config, env_config, flatten(overrides)))
    folder = Path(run) if run else new_folder(resolved, Path(runs), config, env_config)
    return run_to_end(
        Run.create(folder, resolved, shlex.join(sys.argv), imports), imports, progress, on_folder
    )


def check(
    config: str | None,
    env_config: str | None,
    *,
    rows: int = 2,
    imports: tuple[str, ...] = (),
    **overrides: object,
) -> list[str]:
    """What is wrong with a world and, where a config is named, with its learner and networks, in words."""
    return check_with(config, env_config, overrides, rows=rows, imports=imports)


def check_with(
    config: str | None,
    env_config: str | None,
    overrides: Mapping[str, object],
    *,
    rows: int = 2,
    imports: tuple[str, ...] = (),
) -> list[str]:
    """`check` with the settings as one dictionary, in which any name may stand."""
    import_user_code(imports)
    resolved = resolve(layers_for(config, env_config, flatten(overrides)))
    world = make_world(resolved.config, purpose="train", rows=rows)
    try:
        problems = check_world(world)
        if config is None or problems:
            return problems
        return check_networks(resolved.config, world) + check_learner(resolved.config, world)
    finally:
        world.close()


def check_env(
    env_config: str = "gym", *, rows: int = 2, imports: tuple[str, ...] = (), **overrides: object
) -> list[str]:
    """What is wrong with a world, in words; an empty list if it keeps the contract."""
    return check_with(None, env_config, overrides, rows=rows, imports=imports)
