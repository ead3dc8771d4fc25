"""What reliability costs: checks for NaN, saving, restarting, refusing. Writes results/core/faults.{json,md}.

python benchmarks/faults.py
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twofold.assemble import assemble
from twofold.base import finite
from twofold.base.errors import UserError
from twofold.control.worlds import GymConfig, make_env
from twofold.core.trainer import Trainer
from twofold.rows.workers import WorkerRows
from twofold.settings import config
from twofold.store.checkpoint import Checkpoints, load_replay
from twofold.store.provenance import cpu_name, versions
from twofold.store.run import Run

RESULTS = Path(__file__).resolve().parent / "results" / "core"
SAVE_SECONDS = 60


def seconds(work: Callable[[], Any]) -> float:
    """Wall time."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor(work: Callable[[], Any]) -> float:
    """Processor time: what a busy machine does not change much."""
    start = time.process_time()
    work()
    return time.process_time() - start


def halfcheetah(folder: Path, capacity: int) -> Trainer:
    """TD3 as its paper has it: 256-256, batch 256."""
    resolved = config.load(
        "td3", "halfcheetah", replay={"buffer_size": capacity}, trainer={"tensorboard": False}
    )
    return assemble(Run.create(folder, resolved, "benchmark")).trainer


def cost_of_checks(folder: Path, rounds: int = 600) -> dict[str, float]:
    """Processor time of a step and an update, and of the checks in them, taken in turns; medians."""
    trainer = halfcheetah(folder, 10_000)
    trainer.collector.warmup = 0
    trainer.collector.start()
    for _ in range(300):
        trainer.collector.step()
    found: dict[str, list[float]] = {"step": [], "update": [], "step checks": [], "update checks": []}
    for _ in range(rounds):
        obs, reward, action = trainer.collector.obs, np.ones(1), np.ones((1, 6), np.float32)
        batch = trainer.replay.sample(256)
        found["step"].append(processor(trainer.collector.step))
        found["update"].append(processor(partial(trainer.learner.update, batch)))
        found["step checks"].append(processor(partial(check_step, action, reward, obs)))
        found["update checks"].append(processor(trainer.learner.first_bad))
    trainer.keeper.run.close()
    medians = {name: statistics.median(values) * 1e6 for name, values in found.items()}
    # A step and an update already hold their checks, so the sum is the whole of a training step.
    whole = medians["step"] + medians["update"] + medians["update checks"]
    share = (medians["step checks"] + medians["update checks"]) / whole
    return {**medians, "share of training time, %": 100 * share, "steps per second": 1e6 / whole}


def cost_of_shapes(folder: Path, env: str, rounds: int = 1_000, steps: int = 20) -> dict[str, float]:
    """Processor time of a world's step with and without the checks of what it gives, taken in turns; medians."""
    resolved = config.load("td3", env, replay={"buffer_size": 10_000}, trainer={"tensorboard": False})
    trainer = assemble(Run.create(folder, resolved, "benchmark")).trainer
    collector, world = trainer.collector, trainer.collector.world
    collector.warmup = 0
    collector.start()
    whole = [processor(collector.step) for _ in range(rounds)]
    ways = {
        "checked": (world._stepped, world._put),
        "unchecked": (partial(_stepped, world), partial(_put, world)),
    }
    found: dict[str, list[float]] = {"checked": [], "unchecked": []}
    action = np.zeros((1, *world.single_action_space.shape), np.float32)
    for turn in range(rounds):  # each in an episode of its own: none ends in the middle
        world.reset(seed=[turn], options={"reset_mask": np.ones(1, bool)})
        for way in sorted(ways, reverse=bool(turn % 2)):
            world._stepped, world._put = ways[way]
            found[way].append(processor(lambda: [world.step(action) for _ in range(steps)]) / steps)
    trainer.keeper.run.close()
    checked, unchecked = (statistics.median(found[way]) * 1e6 for way in ("checked", "unchecked"))
    step = statistics.median(whole) * 1e6
    return {
        f"{env}: step of the collector": step,
        f"{env}: step of the world in it": checked,
        f"{env}: checks of shapes and kinds in that": checked - unchecked,
        f"{env}: share of a step of the collector, %": 100 * (checked - unchecked) / step,
    }


def _stepped(world: Any, row: int, action: Any) -> Any:
    world.log.step(row, action)
    return world.envs[row].step(action)


def _put(world: Any, row: int, obs: Any) -> None:
    world._obs[row] = obs


def check_step(action: Any, reward: Any, obs: Any) -> None:
    finite.first_bad(action=action)
    finite.first_bad(reward=reward, obs=obs)


def cost_of_saving(folder: Path, steps_per_second: float, rounds: int = 6) -> dict[str, float]:
    """A full replay of a million transitions, saved every 60 s of training."""
    trainer = halfcheetah(folder, 1_000_000)
    trainer.collector.start()
    trainer.collector.step()
    fill(trainer, 1_000_000)
    first = [save_next(trainer, 1)[0] for _ in range(2)]
    new = int(steps_per_second * SAVE_SECONDS)
    usual, work = zip(*[save_next(trainer, new) for _ in range(rounds)], strict=True)
    held = trainer.keeper.run.checkpoints.bytes_held()
    trainer.keeper.run.close()
    again = halfcheetah(folder, 1_000_000)
    load = seconds(lambda: again.keeper.resume(again))
    after = save_next(again, new)[0]
    again.keeper.run.close()
    return {
        "bytes of replay": trainer.replay.nbytes,
        "bytes on disk, two checkpoints": held,
        "new transitions between saves": new,
        "first two saves, s": max(first),
        "save every 60 s, s (median)": statistics.median(usual),
        "save every 60 s, s (largest)": max(usual),
        "save every 60 s, s of processor time (median)": statistics.median(work),
        "share of training time, %": 100 * statistics.median(usual) / SAVE_SECONDS,
        "verify, load and replay the episode, s": load,
        "first save after a restart, s": after,
    }


def fill(trainer: Trainer, items: int) -> None:
    """Copies of one transition with noise: only their number of bytes matters here."""
    rng = np.random.default_rng(0)
    for block in trainer.replay._blocks.values():
        block[:] = rng.standard_normal(block.shape, dtype=np.float32)
    trainer.replay.added = items


def save_next(trainer: Trainer, new: int) -> tuple[float, float]:
    """(wall, processor) seconds of a checkpoint after `new` more transitions."""
    trainer.replay.added += new
    trainer.collector.steps += new
    start = time.process_time()
    wall = seconds(lambda: trainer.keeper.save(trainer))
    return wall, time.process_time() - start


def cost_of_a_lost_worker(trials: int = 5) -> dict[str, float]:
    """From the death of a worker to the next step that all rows made."""
    world = WorkerRows(partial(make_env, GymConfig("HalfCheetah-v5"), "train"), 2, 2)
    everyone, action, found = np.ones(2, bool), np.zeros((2, 6), np.float32), []
    world.reset(seed=[1, 2], options={"reset_mask": everyone})
    for _ in range(trials):
        world.step(action)
        process = world._workers[0]._process
        os.kill(process.pid, signal.SIGKILL)
        process.join()

        found.append(seconds(lambda: world.step(action)))  # a new one plays the episode again and steps
    world.close()
    return {
        "worker killed until all rows step again, s (median)": statistics.median(found),
        "largest": max(found),
    }


def cost_of_refusing(folder: Path) -> dict[str, float]:
    """A second process on a run directory."""
    resolved = config.load("td3", "pendulum")
    first = Run.create(folder, resolved, "benchmark")
    first.lock()

    def second() -> None:
        try:
            Run.open(folder).lock()
        except UserError:
            return
        raise SystemExit("the second process was not refused")

    refused = statistics.median(seconds(second) for _ in range(20))
    first.close()
    return {"second process refused, ms": 1000 * refused}


def verify_alone(folder: Path) -> dict[str, float]:
    """Reading a checkpoint of a million transitions back, by part."""
    store = Checkpoints(folder / "checkpoints")
    step = store.steps()[0]
    verified = seconds(lambda: store.read(step))
    trainer = halfcheetah(folder, 1_000_000)
    filled = seconds(lambda: load_replay(trainer.replay, store.read(step)[1])) - verified
    trainer.keeper.run.close()
    return {"verify every byte, s": verified, "fill replay, s": filled}


def report(found: dict[str, dict[str, float]], about: dict[str, Any]) -> str:
    lines = [
        "# What reliability costs",
        "",
        f"`{about['command']}` on {about['cpu']}, {about['cores']} cores; {about['when']}.",
    ]
    lines += ["Other programs may have run on the machine: shares compare times taken in turns, medians.", ""]
    for title, values in found.items():
        lines += [f"## {title}", "", "| | |", "|---|---:|"]
        lines += [
            f"| {name} | {value:,.3f} |" if value < 1000 else f"| {name} | {value:,.0f} |"
            for name, value in values.items()
        ]
        lines.append("")
    lines.append(
        "Versions: " + ", ".join(f"{name} {version}" for name, version in about["versions"].items()) + "."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    torch.set_num_threads(1)
    scratch = Path(tempfile.mkdtemp(prefix="twofold-faults-"))
    try:
        checks = cost_of_checks(scratch / "checks")
        saving = cost_of_saving(scratch / "saving", checks["steps per second"])
        found = {
            "Checks for NaN and infinity (HalfCheetah-v5, 256-256, batch 256; microseconds of processor time)": checks,
            "Checks of what a world gives (microseconds of processor time)": cost_of_shapes(
                scratch / "pendulum", "pendulum"
            )
            | cost_of_shapes(scratch / "halfcheetah", "halfcheetah"),
            "Saving a run of a million transitions every 60 s": saving,
            "Reading it back": verify_alone(scratch / "saving"),
            "A killed environment worker": cost_of_a_lost_worker(),
            "Refusing": cost_of_refusing(scratch / "refusing"),
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    about = {
        "command": "python benchmarks/faults.py",
        "when": time.strftime("%Y-%m-%d"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "versions": versions(),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "faults.json").write_text(json.dumps({**about, "results": found}, indent=1) + "\n")
    (RESULTS / "faults.md").write_text(report(found, about))
    print(report(found, about))


if __name__ == "__main__":
    main()
