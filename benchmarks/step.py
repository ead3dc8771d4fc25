"""Where the time of one training step goes: `python benchmarks/step.py [--engine native] [--threads 1] [--steps 2000]`.

TD3 on HalfCheetah-v5 as bench.py runs it: one update for each step, 256-256, batch 256. Every part of a step is timed
without the parts inside it, with one thread by its processor time, else by the wall clock. Two steps make a sample,
because the policy is updated in every second one, and the table has medians over samples, so that what a busy neighbour
takes shows little. Every timer adds about a microsecond. Writes step.json and step.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_report import table
from updates import machine_seconds

RESULTS = Path(__file__).resolve().parent / "results" / "core"
WARMUP, SETTLED = 1_000, 200  # random steps, and learning steps before the first sample


class Stopwatch:
    """Time of named parts, each without the parts inside it, for every sample of two steps."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.samples: list[dict[str, float]] = []
        self._now: dict[str, float] = defaultdict(float)
        self._inside: list[float] = [0.0]  # time of the parts within the open ones
        self._steps, self._began = 0, clock()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed under a name."""
        inside, clock = self._inside, self._clock

        def call(*arguments: Any, **more: Any) -> Any:
            inside.append(0.0)
            start = clock()
            try:
                return function(*arguments, **more)
            finally:
                taken = clock() - start
                self._now[name] += taken - inside.pop()
                inside[-1] += taken

        return call

    def step(self) -> None:
        """A step begins."""
        self._steps += 1
        if self._steps % 2:
            return
        end = self._clock()
        rest = end - self._began - self._inside[0]
        self.samples.append({**self._now, "loop": rest})
        self._now, self._inside[0], self._began = defaultdict(float), 0.0, end

    def medians(self, skip: int) -> dict[str, float]:
        """Microseconds of one step for each part."""
        counted = self.samples[skip:]
        names = dict.fromkeys(name for sample in counted for name in sample)
        return {n: statistics.median(s.get(n, 0.0) for s in counted) / 2 * 1e6 for n in names}


MEANING = {
    "physics": "the environment's own step (Gymnasium and MuJoCo)",
    "world": "rows around the environment: log of actions, arrays, scaling",
    "act": "the policy: actor by numpy, exploration noise",
    "check": "shapes, types, NaN and infinity of what comes from policy and world",
    "write": "the writer: a transition from a step",
    "add": "replay: the transition into the ring",
    "collect": "the collector around them",
    "draw": "replay: random indices",
    "take": "replay: gathering the batch",
    "noise": "smoothing noise for the target actions",
    "target": "target networks at the next observations",
    "critic": "both critics forward and backward",
    "actor": "actor and first critic forward and backward (every second update)",
    "descend": "Adam, and in every second update also the actor's",
    "track": "slow copies of the networks (every second update)",
    "update": "the learner around them",
    "first_bad": "a look for what is not finite in losses and gradients",
    "keep": "the run: is a checkpoint due?",
    "loop": "the trainer's loop",
}


def instrumented(trainer: Any, watch: Stopwatch) -> None:
    """Put a timer around every part of a step."""
    from twofold.base import finite

    collector, learner, replay = trainer.collector, trainer.learner, trainer.replay
    world, engine = collector.world, learner.engine
    for env in world.envs:
        env.step = watch.timed("physics", env.step)
    parts = [
        (world, "step", "world"),
        (collector.policy, "act", "act"),
        (finite, "first_bad_row", "check"),
        (collector.arrivals, "of_step", "check"),
        (collector.writer, "step", "write"),
        (replay, "add", "add"),
        (collector, "step", "collect"),
        (replay, "_draw", "draw"),
        (replay, "take", "take"),
        (learner, "_smoothing", "noise"),
        (engine, "target", "target"),
        (engine, "critic_gradients", "critic"),
        (engine, "actor_gradients", "actor"),
        (engine, "descend", "descend"),
        (engine, "track", "track"),
        (learner, "update", "update"),
        (learner, "first_bad", "first_bad"),
        (trainer.keeper, "save", "keep"),
    ]
    for owner, method, name in parts:
        setattr(owner, method, watch.timed(name, getattr(owner, method)))
    collect = trainer._collect

    def counted() -> None:
        watch.step()
        collect()

    trainer._collect = counted


def measured(engine: str, threads: int, steps: int) -> dict[str, float]:
    """Microseconds of each part of a step of a run made for this."""
    from twofold.assemble import assemble, torch_as
    from twofold.settings.config import load
    from twofold.store.run import Run

    forever = 100_000_000
    resolved = load(
        "td3",
        "halfcheetah",
        threads=threads,
        learner={"engine": engine},
        trainer={
            "steps": WARMUP + SETTLED + steps,
            "warmup": WARMUP,
            "eval_every": forever,
            "eval_episodes": 1,
        },
    )
    watch = Stopwatch(time.thread_time if threads == 1 else time.perf_counter)
    with tempfile.TemporaryDirectory() as folder, torch_as(threads):
        parts = assemble(Run.create(Path(folder) / "run", resolved, "step.py"))
        instrumented(parts.trainer, watch)
        parts.trainer.train()
        parts.close()
    return watch.medians((WARMUP + SETTLED) // 2)


def text_of(record: dict[str, Any]) -> str:
    """The record for people."""
    found: dict[str, dict[str, float]] = record["microseconds"]
    head = ["part of a step", *(f"{name}, us" for name in found), "what it is"]
    rows = [
        [name, *(f"{of.get(name, 0.0):.1f}" for of in found.values()), meaning]
        for name, meaning in MEANING.items()
    ]
    totals = ["**all**", *(f"{sum(of.values()):.0f}" for of in found.values()), ""]
    parts = [
        "# A step, microsecond by microsecond",
        f"`{record['command']}`, commit {record['commit']}, {record['started']}. {record['machine']['cpu']}, "
        f"{record['machine']['cores']} cores; other processes used {record['others_cores']:.2f} cores meanwhile.",
        table(head, [*rows, totals]),
        (__doc__ or "").split("\n\n")[1].replace("Writes step.json and step.md.", "").strip(),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, write, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", nargs="+", default=["native", "fused"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    from twofold.store.provenance import provenance

    record: dict[str, Any] = dict(provenance(shlex.join([Path(sys.executable).name, *sys.argv])))
    record["machine"] |= {"cores": os.cpu_count()}
    busy, own, start = machine_seconds(), time.process_time(), time.perf_counter()
    record["microseconds"] = {e: measured(e, given.threads, given.steps) for e in given.engine}
    others = machine_seconds() - busy - (time.process_time() - own)
    record["others_cores"] = others / (time.perf_counter() - start)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "step.json").write_text(json.dumps(record, indent=1) + "\n")
    (given.out / "step.md").write_text(text_of(record))
    print(text_of(record))


if __name__ == "__main__":
    main()
