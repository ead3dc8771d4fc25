"""What more than one machine costs and gives: `python benchmarks/scale.py [--short]`.

Rows in this process, on pipes and on Ray actors, for a fast world and for slow ones (milliseconds a step of a row, as
potentials and games have); the cost of a job; the time from the death of a Ray node to the next step of its job. Writes
benchmarks/results/scale.{json,md}. Without Ray its columns are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from twofold.rows.envs import EnvRows
from twofold.rows.workers import WorkerRows
from twofold.rows.world import _ray_worker
from twofold.store.provenance import provenance

RESULTS = Path(__file__).resolve().parent / "results"
WORKERS = 2


class Slow(gym.Env[Any, Any]):
    """A world that computes for some milliseconds a step."""

    observation_space = gym.spaces.Box(-1, 1, (20,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(20, np.float32), {}

    def step(self, action: Any) -> Any:
        until = time.perf_counter() + self.milliseconds / 1e3
        while time.perf_counter() < until:
            pass
        return np.zeros(20, np.float32), 0.0, False, False, {}


def slow(milliseconds: float) -> Any:
    return Slow(milliseconds)


def make_env(milliseconds: float) -> Any:
    if milliseconds == 0:
        return partial(gym.make, "HalfCheetah-v5")
    return partial(_module_slow(), milliseconds)


def _module_slow() -> Any:
    """Importable in workers, whatever this script was started as."""
    sys.path.insert(0, str(Path(__file__).parent))
    import scale

    return scale.slow


def milliseconds_a_step(world: Any, rows: int, steps: int) -> float:
    actions = np.zeros((rows, *world.single_action_space.shape), np.float32)
    world.reset(seed=list(range(rows)), options={"reset_mask": np.ones(rows, bool)})
    world.step(actions)
    taken = []
    for _ in range(steps):
        began = time.perf_counter()
        world.step(actions)
        taken.append(time.perf_counter() - began)
    return 1e3 * float(np.median(taken))


def rows_table(short: bool) -> list[dict[str, Any]]:
    found = []
    for cost in (0, 1, 5, 20):
        for rows in (2, 8) if short else (2, 8, 32):
            line: dict[str, Any] = {"ms_a_row": cost, "rows": rows}
            steps = 20 if short else 60
            for name, make in _engines(cost, rows):
                world = make()
                line[name] = round(milliseconds_a_step(world, rows, steps), 3)
                world.close()
            found.append(line)
            print(line, flush=True)
    return found


def _engines(cost: float, rows: int) -> list[tuple[str, Any]]:
    env = make_env(cost)
    found = [("here", lambda: EnvRows(env, rows)), ("pipes", lambda: WorkerRows(env, rows, WORKERS))]
    if importlib.util.find_spec("ray"):
        found.append(("ray", lambda: WorkerRows(env, rows, WORKERS, spawn=_ray_worker)))
    return found


def job_seconds() -> float:
    """What a job costs beside its steps: a run of one step, as a child process."""
    from twofold.lab.conduct import conduct_seeds
    from twofold.lab.experiment import plan_seeds
    from twofold.lab.watch import Lines

    tiny = {
        "trainer.steps": 1,
        "trainer.eval_episodes": 1,
        "trainer.test_episodes": 0,
        "trainer.tensorboard": False,
    }
    with tempfile.TemporaryDirectory() as folder, Lines() as view:
        plan = plan_seeds("td3", "pendulum", tiny, "1..3", Path(folder))
        began = time.perf_counter()
        conduct_seeds(plan, view, jobs=1)
        return (time.perf_counter() - began) / 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    record = {
        "provenance": provenance("python benchmarks/scale.py"),
        "rows": rows_table(options.short),
        "job_seconds": round(job_seconds(), 2),
    }
    (RESULTS / "scale.json").write_text(json.dumps(record, indent=1))
    (RESULTS / "scale.md").write_text(page(record))
    return 0


def page(record: dict[str, Any]) -> str:
    engines = [name for name in ("here", "pipes", "ray") if name in record["rows"][0]]
    lines = [
        "# Rows and jobs on more than one process or machine",
        "",
        f"Milliseconds for one step of all rows, medians; {WORKERS} workers on two cores. `0 ms` is HalfCheetah-v5.",
        "",
        f"| a row's step | rows | {' | '.join(engines)} |",
        "|---|---|" + "---|" * len(engines),
        *(
            f"| {line['ms_a_row']} ms | {line['rows']} | {' | '.join(f'{line[e]:.2f}' for e in engines)} |"
            for line in record["rows"]
        ),
        "",
        f"A job costs {record['job_seconds']} s beside its steps (process, imports, evaluation at step 0, checkpoint).",
        "",
        f"Command: `{record['provenance']['command']}`; commit {record['provenance']['commit']}; "
        f"{record['provenance']['machine']['cpu']}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
