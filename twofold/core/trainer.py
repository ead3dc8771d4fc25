"""The loop: collect, update, evaluate, save. Every moment of it can be stopped and gone on with, bit for bit."""

from __future__ import annotations

import logging
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twofold.core import finite, seeding, tree
from twofold.core.collect import Collector
from twofold.core.errors import CheckpointError, ConfigError, UserError
from twofold.core.evaluate import Interrupted, evaluate, summaries
from twofold.core.protocols import Learner, Metrics, World
from twofold.core.replay import PrioritisedRing, make_replay
from twofold.core.signals import Signals, Stopped
from twofold.show.console import Progress, Quiet
from twofold.store import files
from twofold.store.checkpoint import load_replay, pack
from twofold.store.selection import Selection, finalist

if TYPE_CHECKING:
    from twofold.store.run import Run

log = logging.getLogger("twofold")


@dataclass(frozen=True)
class TrainerConfig:
    steps: int = field(
        default=1_000_000, metadata={"aliases": ("t_max", "max_timesteps", "train_total_steps")}
    )
    rows: int = field(default=1, metadata={"aliases": ("num_envs", "batch_size_run", "training_num")})
    workers: int = 0  # worker processes for the rows; 0: all in this process
    hang_limit: float = 30.0  # seconds after which a silent worker is restarted
    max_restarts: int = 10  # more worker failures than this within `restart_window` seconds stop the run
    restart_window: float = 600.0
    warmup: int = field(
        default=25_000, metadata={"aliases": ("start_timesteps", "learning_starts", "start_steps")}
    )
    updates_per_item: float = field(
        default=1.0, metadata={"aliases": ("updates_per_step", "update_per_step", "utd")}
    )
    eval_every: int = field(
        default=5_000, metadata={"aliases": ("test_interval", "eval_freq", "test_every_steps")}
    )
    eval_episodes: int = field(default=10, metadata={"aliases": ("test_nepisode", "test_num")})
    eval_rows: int = 1  # rows of the evaluation worlds; more only where the world steps them in one call
    best_by: Literal["mean", "min"] = (
        "mean"  # of the validation returns; min is TD7's rule: the worst episode counts
    )
    finalists: int = 1  # of several, the best by validation, a second validation chooses at the end, ...
    finalist_episodes: int = 400  # ... on so many other seeds: the best of many flatters itself
    stop_at: float | None = None  # end before `steps` once a validation return is this good
    test_episodes: int = 100  # on disjoint seeds, once at the end, with the best policy
    log_every: int = field(default=1_000, metadata={"aliases": ("log_interval",)})
    save_every: int = 10_000  # steps between checkpoints, or ...
    save_seconds: float = 60.0  # ... seconds, whichever comes first
    keep_checkpoints: int = 2
    tensorboard: bool = True

    def __post_init__(self) -> None:
        positive = ("steps", "rows", "eval_every", "eval_episodes", "eval_rows", "log_every", "save_every")
        counts = ("finalists", "finalist_episodes", "keep_checkpoints")
        for name in (*positive, *counts, "save_seconds", "hang_limit", "restart_window"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"trainer.{name} must be above 0, got {getattr(self, name)}")
        for name in ("workers", "warmup", "updates_per_item", "test_episodes", "max_restarts"):
            if getattr(self, name) < 0:
                raise ConfigError(f"trainer.{name} must not be negative, got {getattr(self, name)}")
        for name in ("rows", "eval_rows", "eval_episodes", "test_episodes", "finalist_episodes"):
            if getattr(self, name) > 1_000_000:
                raise ConfigError(f"trainer.{name} must be at most 1,000,000, got {getattr(self, name)}")
        if self.workers > self.rows:
            raise ConfigError(f"trainer.workers={self.workers} is more than trainer.rows={self.rows}")


class Trainer:
    """All parts of a run, and the loop over them."""

    def __init__(self, run: Run, learner: Learner, world: World, evaluations: dict[str, World]) -> None:
        self.run, self.learner, self.evaluations = run, learner, evaluations
        self.cfg, self.config = run.resolved.config.trainer, run.resolved.config
        seed = self.config.seed
        self.rngs = seeding.Generators(seed)
        writer = learner.writer(world.num_envs)
        self.replay = make_replay(self.config.replay, writer.blank(), self.rngs["replay"])
        explorer = learner.policy(explore=True, rows=world.num_envs, rng=self.rngs["explore"])
        self.collector = Collector(
            world, explorer, writer, self.replay, seed=seed, warmup=self.cfg.warmup, folder=run.folder
        )
        self.owed = 0.0  # updates that the items collected so far still have to get
        self.evaluated = self.logged = -1  # the step of the last evaluation and of the last log line
        self.selection = Selection(run.folder, self.cfg.finalists)
        self.last_return = float("nan")
        self._saved: tuple[int, ...] = ()  # the mark of the newest checkpoint
        self.stop = Signals()
        self.progress: Progress = Quiet()

    @property
    def steps(self) -> int:
        return self.collector.steps

    # ---- the loop ----

    def train(self, progress: Progress | None = None) -> None:
        """Train to the end; raises Stopped after a signal, when everything is saved."""
        self.progress = progress or Quiet()
        with self.stop:
            if not self._resume():
                self.collector.start()
            self._check_space()
            self._saved_step, self._saved_at = self.steps, time.monotonic()
            self._clock = (time.monotonic(), self.steps, self.learner.updates)
            self.progress.start(self.steps, self.cfg.steps)
            try:
                self._loop()
            finally:
                self.progress.finish()
            self.save()
            if len(self.selection.finalists) > 1 and not self.stop():
                self._choose()
            if self.stop.received is not None:
                raise Stopped(self.stop.received)

    def _loop(self) -> None:
        while True:
            self._update()
            if self._due(self.evaluated, self.cfg.eval_every):
                self._evaluate()
            if self._due(self.logged, self.cfg.log_every):
                self._log()
            if self.stop.received is not None:
                self.save()
                raise Stopped(self.stop.received)
            if self.steps >= self.cfg.steps or self._good_enough():
                return
            if self._save_due():
                self._try_to_save()
            self._collect()

    def _good_enough(self) -> bool:
        wanted, best = self.cfg.stop_at, self.selection.best
        return wanted is not None and best is not None and best >= wanted

    def _collect(self) -> None:
        new = self.collector.step()
        if self.steps >= self.cfg.warmup and len(self.replay) >= self.config.replay.batch_size:
            self.owed += new * self.cfg.updates_per_item

    def _update(self) -> None:
        """Pay the updates that are owed, unless asked to stop: then the debt is saved."""
        while self.owed >= 1 and not self.stop():
            batch = self.replay.sample(self.config.replay.batch_size)
            self.learner.update(batch)
            if bad := self.learner.first_bad():
                where = f"in update {self.learner.updates} at step {self.steps}"
                finite.stop(bad, at=where, evidence={"batch": batch}, folder=self.run.folder)
            if isinstance(self.replay, PrioritisedRing):
                self.replay.reprioritise(self.learner.td_error())  # type: ignore[attr-defined]
            self.owed -= 1

    def _due(self, last: int, every: int) -> bool:
        """True at step 0, whenever a multiple of `every` was passed since `last`, and at the end."""
        if self.stop() or last == self.steps:
            return False
        return last < 0 or self.steps // every > last // every or self.steps >= self.cfg.steps

    # ---- evaluating and logging ----

    def _evaluate(self) -> None:
        """K episodes in each evaluation world; the first world's return chooses the best policy."""
        seeds = seeding.validation_seeds(self.cfg.eval_episodes)
        results = {}
        for name, world in self.evaluations.items():
            try:
                found = evaluate(world, self._greedy(world), seeds, self.stop)
            except Interrupted:
                return  # the evaluation is due again when the run goes on
            if bad := finite.first_bad(**{"return": found["return"]}):
                where = f"in the evaluation '{name}' at step {self.steps}"
                finite.stop(bad, at=where, evidence=found, folder=self.run.folder)
            results[name] = summaries(found)
        for name, result in results.items():
            self.run.log_evaluation(self.steps, name, result)
        first = next(iter(results.values()))["return"]
        self.evaluated, self.last_return = self.steps, first["mean"]
        self.selection.offer(self.steps, first[self.cfg.best_by], lambda: self._policy_bytes(first))
        log.info(
            "step %8d  return %9.1f ± %.1f  (%d episodes)",
            self.steps,
            first["mean"],
            first["std"],
            first["episodes"],
        )

    def _greedy(self, world: World) -> Any:
        return self.learner.policy(explore=False, rows=world.num_envs, rng=seeding.generator(0, "evaluation"))

    def _policy_bytes(self, score: dict[str, float]) -> bytes:
        from twofold.store.policy_file import policy_bytes

        about = {"step": self.steps, "validation": score}
        return policy_bytes(self.run, self.learner, self.collector.world, about)

    def _choose(self) -> None:
        """The second validation: the finalist that is best on new seeds becomes the best policy."""
        known, all_seeds = self.cfg.eval_episodes, self.cfg.eval_episodes + self.cfg.finalist_episodes
        seeds = seeding.validation_seeds(all_seeds)[known:]
        world, found = next(iter(self.evaluations.values())), {}
        with self._last_policy_kept():
            for step in sorted(self.selection.finalists):
                self._load(finalist(step))
                try:
                    values = evaluate(world, self._greedy(world), seeds, self.stop)
                except Interrupted:
                    return  # it is made again when the run goes on
                found[step] = summaries(values)["return"]
        chosen = max(found, key=lambda step: found[step][self.cfg.best_by])
        record = {"chosen": chosen, "seeds": [seeds[0], seeds[-1]], "return": found}
        self.selection.choose(chosen, record)

    def _log(self) -> None:
        values: Metrics = {"updates": self.learner.updates, "replay/items": len(self.replay)}
        values |= self.collector.drain()
        if self.learner.updates:
            values |= self.learner.metrics()
        self.run.log(self.steps, values)
        speed = self._speed()
        self.run.log_timing(self.steps, speed)
        self.logged = self.steps
        self.progress.update(self.steps, speed["steps_per_second"], self.last_return)

    def _speed(self) -> dict[str, float]:
        then, steps, updates = self._clock
        now = time.monotonic()
        self._clock = (now, self.steps, self.learner.updates)
        elapsed = max(now - then, 1e-9)
        done = self.learner.updates - updates
        return {"steps_per_second": (self.steps - steps) / elapsed, "updates_per_second": done / elapsed}

    # ---- saving and going on ----

    def _save_due(self) -> bool:
        if self.steps == self._saved_step:
            return False
        late = time.monotonic() - self._saved_at >= self.cfg.save_seconds
        return late or self.steps - self._saved_step >= self.cfg.save_every

    def _try_to_save(self) -> None:
        """A full disk does not end training: say so, and try again at the next interval."""
        try:
            self.save()
        except files.DiskFull as error:
            log.error("checkpoint not saved, trying again later: %s", error)
            self._saved_step, self._saved_at = self.steps, time.monotonic()

    def _mark(self) -> tuple[int, ...]:
        """What changes whenever there is something new to save."""
        return self.steps, self.learner.updates, self.evaluated, self.logged

    def save(self) -> None:
        """A checkpoint of everything, now, unless the newest one already holds it."""
        if self._saved == self._mark():
            return
        self.run.check_lock()
        try:
            self.selection.write()
            with files.disk_full_explained(self.run.folder, 1_000_000):
                state = self.state_dict()
            self.run.checkpoints.save(self.steps, state, self.replay)
        except OSError as error:
            self.run.check_lock()  # it may have vanished while it was written to
            raise UserError(f"cannot save into {self.run.folder}: {error.strerror}; training stops") from None
        self._saved = self._mark()
        self._saved_step, self._saved_at = self.steps, time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """All that the future of the run depends on, except what replay holds."""
        return {
            "collector": self.collector.state_dict(),
            "learner": self.learner.state_dict(),
            "replay": self.replay.state_dict(),
            "generators": self.rngs.state_dict(),
            "trainer": {
                "owed": self.owed,
                "evaluated": self.evaluated,
                "logged": self.logged,
                "last_return": self.last_return,
                **self.selection.state_dict(),
            },
            "logs": self.run.lengths(),
        }

    def _resume(self) -> bool:
        """Go on from the newest good checkpoint; False if there is none."""
        found = self.run.checkpoints.load(self._accept, limit=self._largest_file())
        if found is None:
            if self.run.metrics.read():
                log.warning("no checkpoint in %s: starting again from step 0", self.run.folder)
            self.run.cut({"metrics": 0, "evaluations": 0})
            return False
        step, state, pieces = found
        try:
            self.restore(state)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise CheckpointError(f"the checkpoint of step {step} does not fit this run: {error!r}") from None
        load_replay(self.replay, pieces)
        self.run.cut(state["logs"])
        self._saved = self._mark()
        log.info("going on from step %d", step)
        return True

    def _accept(self, state: Any) -> None:
        try:
            self.run.check_logs(state)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the state of a checkpoint is damaged: {error!r}") from None

    def _largest_file(self) -> int:
        """No file that this run could have written is larger."""
        return max(self._state_bytes() * 2 + (256 << 20), self.replay.nbytes // self.replay.capacity * 4)

    def _state_bytes(self) -> int:
        arrays, _ = pack(self.learner.state_dict())
        return sum(array.nbytes for array in arrays.values())

    def restore(self, state: Any) -> None:
        self.collector.load_state_dict(state["collector"])
        self.learner.load_state_dict(state["learner"])
        self.replay.load_state_dict(state["replay"])
        self.rngs.load_state_dict(state["generators"])
        own = state["trainer"]
        self.owed, self.last_return = own["owed"], own["last_return"]
        self.evaluated, self.logged = own["evaluated"], own["logged"]
        self.selection.load_state_dict({"finalists": {}, **own})  # checkpoints of before know of none

    def _check_space(self) -> None:
        """Refuse to begin what the disk cannot hold: every piece of replay is written twice."""
        row = self.replay.nbytes // self.replay.capacity
        copies = min(self.cfg.keep_checkpoints, 2)
        states = self._state_bytes() * (self.cfg.keep_checkpoints + 1)
        needed = row * min(self.replay.capacity, self.cfg.steps) * copies + states + (4 << 20)
        needed -= self.run.checkpoints.bytes_held()
        free = shutil.disk_usage(self.run.folder).free
        if free < needed:
            raise UserError(
                f"disk too full: checkpoints in {self.run.folder} need up to {needed:,} bytes, {free:,} are free; "
                "free some space, give another --run, or lower replay.buffer_size"
            )

    # ---- the end ----

    def test(self) -> dict[str, dict[str, dict[str, float]]]:
        """The final score: the best policy on test seeds that nothing was chosen on."""
        seeds = seeding.final_seeds(self.cfg.test_episodes)
        with self.stop, self._last_policy_kept():
            self._load("best")
            try:
                found = {
                    n: evaluate(w, self._greedy(w), seeds, self.stop) for n, w in self.evaluations.items()
                }
            except Interrupted:
                raise Stopped(self.stop.received or signal.SIGTERM) from None
        results = {name: summaries(values) for name, values in found.items()}
        content = files.to_json({"seeds": [seeds[0], seeds[-1]], **results})
        with files.disk_full_explained(self.run.folder, len(content)):
            files.replace_bytes(self.run.folder / "test.json", content)
        return results

    def _load(self, name: str) -> None:
        from twofold.store.policy_file import load_policy_into

        load_policy_into(self.learner, self.run.folder / f"{name}.safetensors")

    @contextmanager
    def _last_policy_kept(self) -> Iterator[None]:
        """The learner gets its own policy back, whatever was loaded for an evaluation."""
        last = self.learner.policy_state()
        last = tree.map(lambda leaf: np.array(leaf.detach()) if hasattr(leaf, "detach") else leaf, last)
        try:
            yield
        finally:
            self.learner.load_policy_state(last)
