"""What more than one machine costs and gives: `python benchmarks/scale.py [--short] [--only=rows,jobs,nodes,recovery]`.

rows      ms for a step of all rows in this process, on pipes and on Ray actors: HalfCheetah, worlds that compute or
          wait for milliseconds, and crystals under CHGNet where it is installed. The engines take turns, step by step,
          so that whatever else the machine does falls on all of them alike.
jobs      what a job costs beside its steps, here and on Ray: seconds, and processor seconds of it
nodes     jobs that wait, on 1 to 8 Ray nodes of this machine, against the cost model of docs/scale.md
recovery  from the death of a Ray node to the next step of its job on another one

Writes benchmarks/results/lab/scale.{json,md}; what was not asked for is kept from the file. Without Ray its columns are
left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from twofold.jobs.launchers import Launcher, Processes
from twofold.jobs.running import run_jobs
from twofold.jobs.watch import Lines
from twofold.rows.envs import EnvRows
from twofold.rows.workers import WorkerRows
from twofold.rows.world import _ray_worker
from twofold.store.provenance import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "lab"
PARTS = ("rows", "jobs", "nodes", "recovery")
CHGNET = ("NaCl:rocksalt", "MgO:rocksalt", "GaAs:zincblende", "CsCl:cesiumchloride")
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # Ray takes 15


# ---- rows -----------------------------------------------------------------------------------------------------------


class Slow(gym.Env[Any, Any]):
    """A world whose step takes some milliseconds, which it computes or waits for."""

    observation_space = gym.spaces.Box(-1, 1, (20,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, milliseconds: float, waits: bool) -> None:
        self.seconds, self.waits = milliseconds / 1e3, waits

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(20, np.float32), {}

    def step(self, action: Any) -> Any:
        if self.waits:
            time.sleep(self.seconds)
        else:
            until = time.thread_time() + self.seconds  # of the processor: a busy machine makes it no cheaper
            while time.thread_time() < until:
                pass
        return np.zeros(20, np.float32), 0.0, False, False, {}


def slow(milliseconds: float, waits: bool) -> Any:
    return Slow(milliseconds, waits)


def crystal(name: str) -> Any:
    """One relaxation under CHGNet that does not end while it is timed."""
    from twofold.crystal.library import StructureSet
    from twofold.crystal.world import RelaxConfig, SpringEnv

    start = StructureSet(structures=(f"{name}*2x2x1",), calculator="chgnet", rattle=(0.05, 0.1))
    return SpringEnv(RelaxConfig(sets={"one": start}, eps=1e-5, max_steps=100_000), "train")


@dataclass(frozen=True)
class World:
    """A kind of row, and how many of it are stepped together by how many workers."""

    name: str
    make: Callable[[], Any]
    rows: tuple[int, ...]
    workers: int = 2


def timed_worlds(short: bool) -> list[World]:
    made = _importable()
    rows = (2, 8) if short else (2, 8, 32)
    worlds = [World("HalfCheetah-v5", partial(gym.make, "HalfCheetah-v5"), rows)]
    worlds += [World(f"computes {ms} ms", partial(made.slow, ms, False), rows) for ms in (1, 5, 20)]
    worlds += [World(f"waits {ms} ms", partial(made.slow, ms, True), rows) for ms in (5, 20)]
    worlds += [World("waits 20 ms", partial(made.slow, 20, True), (8,), workers=8)]
    if importlib.util.find_spec("chgnet"):
        for name in CHGNET[:1] if short else CHGNET[:2]:
            worlds.append(World(f"CHGNet {name}, 32 atoms", partial(made.crystal, name), (2, 4)))
    return worlds


def _importable() -> Any:
    """This module by its name, as workers import it, whatever it was started as."""
    sys.path.insert(0, str(Path(__file__).parent))
    import scale

    return scale


def rows_table(short: bool) -> list[dict[str, Any]]:
    found = []
    for world in timed_worlds(short):
        for rows in world.rows:
            line: dict[str, Any] = {"world": world.name, "rows": rows, "workers": world.workers}
            found.append(line | _in_turns(world, rows, 15 if short else 40))
            print(found[-1], flush=True)
    _shut_down_ray()
    return found


def _in_turns(world: World, rows: int, steps: int) -> dict[str, float]:
    """Milliseconds of a step of all rows by engine: medians of steps taken in turns."""
    made = {name: make() for name, make in _engines(world, rows).items()}
    seconds: dict[str, list[float]] = {name: [] for name in made}
    actions = {}
    for name, one in made.items():
        actions[name] = np.zeros((rows, *one.single_action_space.shape), np.float32)
        one.reset(seed=list(range(rows)), options={"reset_mask": np.ones(rows, bool)})
        one.step(actions[name])
    for _ in range(steps):
        for name, one in made.items():
            began = time.perf_counter()
            one.step(actions[name])
            seconds[name].append(time.perf_counter() - began)
    for one in made.values():
        one.close()
    return {name: round(1e3 * float(np.median(taken)), 3) for name, taken in seconds.items()}


def _engines(world: World, rows: int) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {
        "here": lambda: EnvRows(world.make, rows),
        "pipes": lambda: WorkerRows(world.make, rows, world.workers, hang_limit=600),
    }
    if importlib.util.find_spec("ray"):
        _local_ray()
        found["ray"] = lambda: WorkerRows(world.make, rows, world.workers, hang_limit=600, spawn=_ray_worker)
    return found


def _local_ray() -> None:
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=8, log_to_driver=False, logging_level="ERROR", include_dashboard=False)


def _shut_down_ray() -> None:
    if importlib.util.find_spec("ray"):
        import ray

        ray.shutdown()


# ---- jobs -----------------------------------------------------------------------------------------------------------

_WAITING = """
import json, pathlib, sys, time
folder, steps, pause = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
log = folder / "steps"
done = log.read_text().count("\\n") if log.exists() else 0
for step in range(done, steps):
    time.sleep(pause)
    with open(log, "a") as file:
        file.write(f"{time.time()}\\n")
"""


@dataclass(frozen=True)
class Waiting:
    """A job that waits so many times and notes each; a step is a wait."""

    folder: Path
    steps: int
    pause: float

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def argv(self) -> tuple[str, ...]:
        return (sys.executable, "-c", _WAITING, str(self.folder), str(self.steps), str(self.pause))

    def moments(self) -> list[float]:
        log = self.folder / "steps"
        return [float(line) for line in log.read_text().split()] if log.exists() else []

    def reached(self) -> int:
        return len(self.moments())

    def finished(self) -> bool:
        return self.reached() >= self.steps


def waiting_jobs(folder: Path, count: int, steps: int, pause: float) -> list[Waiting]:
    return [Waiting(folder / f"job_{number}", steps, pause) for number in range(count)]


def job_costs(short: bool) -> dict[str, Any]:
    """Seconds beside the steps: of a training of one step, and of a command that does nothing, here and on Ray."""
    found: dict[str, Any] = {"training": _training_cost()}
    print(found, flush=True)
    count = 4 if short else 10
    with tempfile.TemporaryDirectory() as folder:
        found["empty here"] = _empty(Path(folder), count, Processes())
    if importlib.util.find_spec("ray"):
        from twofold.jobs.on_ray import RayCluster

        with tempfile.TemporaryDirectory() as folder, nodes(1) as cluster:
            found["empty on Ray"] = _empty(Path(folder), count, RayCluster(cluster.address, Path(folder)))
    print(found, flush=True)
    return found


def _empty(folder: Path, count: int, launcher: Launcher) -> dict[str, float]:
    """Seconds of a job without steps, one after the other; what connecting costs is told apart."""
    began = time.perf_counter()
    with launcher as entered:
        connected = time.perf_counter() - began
        (folder / "logs").mkdir()
        began = time.perf_counter()
        for job in waiting_jobs(folder, count, 0, 0.0):
            handle = entered.start(job, folder / "logs" / f"{job.name}.txt")
            while handle.code() is None:
                time.sleep(0.005)
        each = (time.perf_counter() - began) / count
    return {"seconds": round(each, 3), "connecting": round(connected, 2)}


def _training_cost() -> dict[str, float]:
    from twofold.lab.conduct import conduct_seeds
    from twofold.lab.experiment import plan_seeds

    tiny = {
        "trainer.steps": 1,
        "trainer.eval_episodes": 1,
        "trainer.test_episodes": 0,
        "trainer.tensorboard": False,
    }
    with tempfile.TemporaryDirectory() as folder, Lines() as view:
        plan = plan_seeds("td3", "pendulum", tiny, "1..3", Path(folder))
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        conduct_seeds(plan, view, jobs=1)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"seconds": round(wall / 3, 2), "processor seconds": round(processor / 3, 2)}


# ---- several nodes --------------------------------------------------------------------------------------------------


@contextmanager
def nodes(count: int) -> Iterator[Any]:
    """A Ray cluster on this machine: a head without processors, and nodes with one each."""
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        made.nodes = [made.add_node(num_cpus=1) for _ in range(count)]
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def nodes_table(short: bool) -> list[dict[str, Any]]:
    """The time of jobs that wait, on more and more nodes; they need no processor, so that one machine can show it."""
    from twofold.jobs.on_ray import RayCluster

    jobs, seconds = (4, 2.0) if short else (16, 8.0)
    found = []
    for count in (1, 2) if short else (1, 2, 4, 8):
        with nodes(count) as cluster, tempfile.TemporaryDirectory() as folder:
            launcher = RayCluster(cluster.address, Path(folder))
            plan = waiting_jobs(Path(folder), jobs, 4, seconds / 4)
            began = time.perf_counter()
            assert run_jobs(plan, Path(folder), Lines(), limit=count, tick=0.05, launcher=launcher).done
            wall = time.perf_counter() - began
            stamps = [moment for job in plan for moment in job.moments()]
            busy = max(stamps) - min(stamps) + seconds / 4
        least = math.ceil(jobs / count) * seconds
        found.append({"nodes": count, "jobs": jobs, "seconds_a_job": seconds, "wall": round(wall, 1),
            "from_first_to_last": round(busy, 1), "least": least})  # fmt: skip
        print(found[-1], flush=True)
    return found


def recovery_times(short: bool) -> list[dict[str, float]]:
    """Seconds from the death of a node to the next step of its job on another, and of them those that Ray needs."""
    from twofold.jobs.on_ray import RayCluster

    found = []
    for _ in range(1 if short else 3):
        with nodes(1) as cluster, tempfile.TemporaryDirectory() as folder:
            job = Waiting(Path(folder) / "job", 200, 0.1)
            with RayCluster(cluster.address, Path(folder)) as entered:
                (Path(folder) / "logs").mkdir()
                handle = entered.start(job, Path(folder) / "logs" / "job.txt")
                while job.reached() < 20:
                    time.sleep(0.01)
                cluster.add_node(num_cpus=1)
                killed = time.time()
                cluster.remove_node(cluster.nodes[0], allow_graceful=False)
                while handle.code() is None:
                    time.sleep(0.05)
                assert handle.code() == 0
            later = [moment for moment in job.moments() if moment > killed]
            gap = max(b - a for a, b in zip([killed, *later], later, strict=False))
        found.append({"seconds": round(gap, 1)})
        print(found[-1], flush=True)
    return found


# ---- telling --------------------------------------------------------------------------------------------------------


def main() -> int:
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args()
    asked = options.only.split(",")
    if unknown := [name for name in asked if name not in PARTS]:
        parser.error(f"--only={unknown[0]}: there are {', '.join(PARTS)}")
    if not importlib.util.find_spec("ray"):
        asked = [name for name in asked if name not in ("nodes", "recovery")]
    measure = {"rows": rows_table, "jobs": job_costs, "nodes": nodes_table, "recovery": recovery_times}
    command = " ".join(["python", "benchmarks/scale.py", *sys.argv[1:]])
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "scale.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in asked:
        load = os.getloadavg()[0]
        found = measure[name](options.short)
        loads = [round(load, 2), round(os.getloadavg()[0], 2)]
        record[name] = {"found": found, "load": loads, "niceness": os.nice(0), "command": command}
    record["provenance"] = provenance(command)
    path.write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "scale.md").write_text(page(record))
    return 0


def page(record: dict[str, Any]) -> str:
    made = provenance_line(record["provenance"])
    parts = {"rows": rows_lines, "jobs": jobs_lines, "nodes": nodes_lines, "recovery": recovery_lines}
    lines = ["# Rows and jobs on more than one process or machine", ""]
    for name, tell in parts.items():
        if name in record:
            about = record[name]
            lines += [
                *tell(about["found"]),
                "",
                f"`{about['command']}`; load of the machine before and after: {about['load'][0]}, {about['load'][1]}; "
                f"niceness {about['niceness']}.",
                "",
            ]
    return "\n".join([*lines, made, ""])


def rows_lines(found: list[dict[str, Any]]) -> list[str]:
    engines = [name for name in ("here", "pipes", "ray") if name in found[0]]
    lines = [
        "## Rows",
        "",
        "Milliseconds for one step of all rows; medians, the engines step by step in turns. A world that waits",
        "needs no processor, as a game in another process; one that computes needs processor time, of two cores.",
        "",
        f"| a row's step | rows | workers | {' | '.join(engines)} | {' | '.join(f'here / {e}' for e in engines[1:])} |",
        "|---|---|---|" + "---|" * (2 * len(engines) - 1),
    ]
    for line in found:
        times = " | ".join(f"{line[e]:.2f}" for e in engines)
        ratios = " | ".join(f"{line['here'] / line[e]:.2f}" for e in engines[1:])
        lines.append(f"| {line['world']} | {line['rows']} | {line['workers']} | {times} | {ratios} |")
    return lines


def jobs_lines(found: dict[str, Any]) -> list[str]:
    training = found["training"]
    lines = [
        "## Jobs",
        "",
        f"A training of one step costs {training['seconds']} s ({training['processor seconds']} s of a processor): "
        "process, imports, evaluation at step 0, checkpoint.",
        "",
        "| an empty job | seconds each | connecting, once |",
        "|---|---|---|",
    ]
    empty = {name: one for name, one in found.items() if name != "training"}
    return [*lines, *(f"| {n[6:]} | {one['seconds']} | {one['connecting']} |" for n, one in empty.items())]


def nodes_lines(found: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Nodes",
        "",
        f"{found[0]['jobs']} jobs that wait {found[0]['seconds_a_job']:g} s each, on Ray nodes of this machine. The "
        "least is ceil(jobs / nodes) x seconds; a job costs what the time from the first step to the last is above",
        "it, by rounds. Before the first step every node is asked for its versions and for the folder.",
        "",
        "| nodes | least s | first step to last s | cost of a job s | before the first step s |",
        "|---|---|---|---|---|",
    ]
    for line in found:
        rounds = math.ceil(line["jobs"] / line["nodes"])
        cost = (line["from_first_to_last"] - line["least"]) / rounds
        before = line["wall"] - line["from_first_to_last"]
        lines.append(
            f"| {line['nodes']} | {line['least']:g} | {line['from_first_to_last']} | {cost:.2f} | {before:.1f} |"
        )
    return lines


def recovery_lines(found: list[dict[str, float]]) -> list[str]:
    each = ", ".join(f"{one['seconds']:.1f}" for one in found)
    return ["## Recovery", "", f"From the death of a node to the next step of its job on another: {each} s."]


def provenance_line(made: dict[str, Any]) -> str:
    return f"Commit {made['commit']}; {made['machine']['cpu']}, {made['machine'].get('cores', 2)} cores."


if __name__ == "__main__":
    raise SystemExit(main())
