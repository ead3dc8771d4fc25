"""Making worlds from a config; where their rows live."""

from __future__ import annotations

from dataclasses import dataclass

from twofold.base.errors import WorldError
from twofold.core.experience import Array
from twofold.core.protocols import World
from twofold.core.trainer import TrainerConfig
from twofold.rows.envs import EnvRows, MakeEnv
from twofold.rows.worker import PipeWorker, Task, Worker
from twofold.rows.workers import WorkerRows
from twofold.settings.config import Config
from twofold.settings.registry import worlds


@dataclass(frozen=True)
class Where:
    """In which processes the rows of a world live, and how broken ones are treated."""

    workers: int = 0
    engine: str = "process"  # or ray
    imports: tuple[str, ...] = ()
    hang_limit: float = 30.0
    max_restarts: int = 10
    window: float = 600.0

    @staticmethod
    def of(cfg: TrainerConfig, imports: tuple[str, ...]) -> Where:
        return Where(cfg.workers, cfg.engine, imports, cfg.hang_limit, cfg.max_restarts, cfg.restart_window)


def make_rows(
    make_env: MakeEnv,
    rows: int,
    *,
    fresh: bool = False,
    bounds: tuple[Array, Array] | None = None,
    where: Where | None = None,
) -> EnvRows | WorkerRows:
    """Single environments as a world: in this process, or in worker processes; `bounds` are of its actions."""
    if where is None or where.workers == 0:
        return EnvRows(make_env, rows, fresh=fresh, bounds=bounds)
    if where.engine == "ray":
        from twofold.rows.ray_worker import refuse_a_small_cluster

        refuse_a_small_cluster(where.workers)
    return WorkerRows(
        make_env,
        rows,
        where.workers,
        fresh=fresh,
        bounds=bounds,
        imports=where.imports,
        hang_limit=where.hang_limit,
        max_restarts=where.max_restarts,
        window=where.window,
        spawn=_ray_worker if where.engine == "ray" else PipeWorker,
    )


def _ray_worker(task: Task) -> Worker:
    from twofold.rows.ray_worker import RayWorker

    return RayWorker(task)


def make_world(config: Config, *, purpose: str, rows: int, imports: tuple[str, ...] = ()) -> World:
    """The world of a config for training or for one of its evaluations."""
    entry = worlds.get(config.env)
    how: dict[str, Where] = {}
    if config.trainer.engine == "ray" and not config.trainer.workers:
        raise WorldError("trainer.engine=ray steps rows in workers: say how many with trainer.workers=N")
    if purpose == "train" and config.trainer.workers:
        if not entry.workers:
            raise WorldError(f"the world '{config.env}' steps all rows in one call: set trainer.workers=0")
        how = {"where": Where.of(config.trainer, imports)}
    return entry.make(config.env_args, rows=rows, purpose=purpose, **how)


def evaluation_names(config: Config) -> tuple[str, ...]:
    """The evaluation worlds of a config; the first one chooses the best policy."""
    names = worlds.get(config.env).evaluations
    return names(config.env_args) if callable(names) else names
