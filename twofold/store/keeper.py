"""What keeps a run: logs, checkpoints, the best policies; resuming from them, and the final test."""

from __future__ import annotations

import logging
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np
from safetensors.numpy import save as encode

from twofold.base import tree
from twofold.base.errors import CheckpointError, NonFiniteError, UserError
from twofold.base.progress import task
from twofold.base.signals import Stopped
from twofold.base.statistics import summaries
from twofold.core import seeding
from twofold.core.evaluate import Interrupted, evaluate
from twofold.core.experience import Item
from twofold.core.protocols import ByEngine, Episodes, Learner, Metrics, State, Summary, World
from twofold.core.trainer import Trainer
from twofold.store import files
from twofold.store.checkpoint import load_replay, pack, unpack
from twofold.store.counted import Counted
from twofold.store.policy_file import load_policy_into, policy_bytes
from twofold.store.run import Run
from twofold.store.selection import Selection, finalist

log = logging.getLogger("twofold")
# What a state of another shape than ours makes Python, numpy and torch say.
_MISFITS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RuntimeError)


class RunKeeper:
    """Keeps a run in its directory."""

    def __init__(self, run: Run) -> None:
        self.run, self.cfg = run, run.resolved.config.trainer
        self.selection = Selection(run.folder, self.cfg.finalists)
        self.metrics: Metrics = {}  # of the newest log line
        self.scores: dict[str, dict[str, Summary]] = {}  # of the newest evaluation, by world
        self._saved: tuple[int, ...] = ()  # the mark of the newest checkpoint
        self._saved_step, self._saved_at = 0, time.monotonic()

    # ---- logs ----

    def log(self, step: int, values: Metrics, speed: Metrics) -> None:
        self.metrics = values
        self.run.log(step, values)
        self.run.log_timing(step, speed)

    def log_evaluation(self, step: int, world: str, result: dict[str, Summary]) -> None:
        self.scores[world] = result
        self.run.log_evaluation(step, world, result)
        score, headline = result["return"], ""
        if self.cfg.headline != "return" and self.cfg.headline in result:
            of = result[self.cfg.headline]
            headline = f"{self.cfg.headline} {of['mean']:.3f} [{of['low']:.3f}, {of['high']:.3f}]  "
        shown = (step, world, headline, score["mean"], score["std"], score["episodes"])
        log.info("step %8d  %s  %sreturn %9.1f ± %.1f  (%d episodes)", *shown)

    def refuse(self, name: str, *, at: str, evidence: Mapping[str, object]) -> NoReturn:
        path = self.run.folder / "bad_batch.safetensors"
        arrays = {key: np.asarray(leaf, order="C") for key, leaf in tree.items(evidence)}
        try:
            files.replace_bytes(path, encode(arrays))
            where = f"the arrays are in {path}"
        except (OSError, CheckpointError) as error:
            where = f"the arrays could not be written ({error})"
        raise NonFiniteError(
            f"{name} is not finite (NaN or infinity) in the world {self.run.resolved.config.env} {at}; {where}. "
            "Nothing bad was saved: fix the world or lower "
            "the learning rate, then run the same command to resume from the last checkpoint."
        )

    # ---- policies ----

    @property
    def best(self) -> float | None:
        return self.selection.best

    def offer(self, trainer: Trainer[Item], score: Summary) -> None:
        about = {"step": trainer.steps, "validation": score}
        self.selection.offer(
            trainer.steps,
            score["mean"],
            lambda: policy_bytes(self.run.resolved.values, trainer.learner, trainer.collector.world, about),
        )

    # ---- checkpoints ----

    def save(self, trainer: Trainer[Item], *, due: bool = False) -> None:
        if not due:
            self._save(trainer)
        elif self._due(trainer.steps):
            try:
                self._save(trainer)
            except files.DiskFull as error:  # a full disk does not end training
                log.error("checkpoint not saved, trying again later: %s", error)
                self._saved_step, self._saved_at = trainer.steps, time.monotonic()

    def _due(self, step: int) -> bool:
        if step == self._saved_step:
            return False
        late = time.monotonic() - self._saved_at >= self.cfg.save_seconds
        return late or step - self._saved_step >= self.cfg.save_every

    def _save(self, trainer: Trainer[Item]) -> None:
        """A checkpoint, unless the newest one already holds everything."""
        if self._saved == _mark(trainer):
            return
        self.run.check_lock()
        try:
            self.selection.write()
            with files.disk_full_explained(self.run.folder, 1_000_000):
                state = trainer.state_dict() | {
                    "kept": self.selection.state_dict(),
                    "logs": self.run.lengths(),
                }
            self.run.checkpoints.save(trainer.steps, state, trainer.replay)
        except files.DiskFull:
            raise
        except (OSError, CheckpointError) as error:
            self.run.check_lock()  # it may have vanished while it was written to
            why = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"cannot save into {self.run.folder}: {why}; training stops") from None
        self._saved = _mark(trainer)
        self._saved_step, self._saved_at = trainer.steps, time.monotonic()

    def resume(self, trainer: Trainer[Item]) -> bool:
        found = self.run.checkpoints.load(self._accept, limit=_largest_file(trainer))
        if found is None:
            if self.run.metrics.held():
                log.warning("no checkpoint in %s: starting again from step 0", self.run.folder)
            self.run.cut({"metrics": 0, "evaluations": 0})
        else:
            self._restore(trainer, *found)
        self._check_space(trainer)
        if isinstance(trainer.learner, ByEngine):
            self.run.keep_engine(trainer.learner.engine_name, trainer.steps)
        self._saved_step, self._saved_at = trainer.steps, time.monotonic()
        return found is not None

    def _restore(self, trainer: Trainer[Item], step: int, state: State, pieces: list[Path]) -> None:
        try:
            trainer.load_state_dict(state)
            self.selection.load_state_dict(state["kept"])
            pack(trainer.learner.state_dict())  # what cannot be saved again was damaged
        except _MISFITS as error:
            why = f"the checkpoint of step {step} does not fit this run: {repr(error)[:200]}"
            raise CheckpointError(why) from None
        load_replay(trainer.replay, pieces)
        self.run.cut(state["logs"])
        self._saved = _mark(trainer)
        log.info("resuming from step %d", step)

    def _accept(self, state: State) -> None:
        try:
            self.run.check_logs(state)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the state of a checkpoint is damaged: {error!r}") from None

    def _check_space(self, trainer: Trainer[Item]) -> None:
        """Refuse to begin what the disk cannot hold: every piece of replay is written twice."""
        replay = trainer.replay
        copies = min(self.cfg.keep_checkpoints, 2)
        states = _state_bytes(trainer.learner) * (self.cfg.keep_checkpoints + 1)
        items = min(replay.capacity, self.cfg.steps)
        needed = replay.nbytes // replay.capacity * items * copies + states + (4 << 20)
        needed -= self.run.checkpoints.bytes_held()
        free = shutil.disk_usage(self.run.folder).free
        if free < needed:
            raise UserError(
                f"disk too full: checkpoints in {self.run.folder} need up to {needed:,} bytes, {free:,} are free; "
                "free some space, give another --run, or lower replay.buffer_size"
            )

    # ---- the end ----

    def choose(self, trainer: Trainer[Item]) -> None:
        """The second validation: the finalist that is best on new seeds becomes the best policy."""
        if len(self.selection.finalists) < 2:
            return
        known, every = self.cfg.eval_episodes, self.cfg.eval_episodes + self.cfg.finalist_episodes
        seeds = seeding.validation_seeds(every)[known:]
        world, found = next(iter(trainer.evaluations.values())), {}
        with trainer.stop, _last_policy_kept(trainer.learner), _stopped_by(trainer):
            for step in sorted(self.selection.finalists):
                try:
                    load_policy_into(trainer.learner, self.run.folder / f"{finalist(step)}.safetensors")
                except CheckpointError as error:  # one of several is lost: the others are there
                    log.error("a finalist is left out: %s", error)
                    continue
                found[step] = summaries(_played(trainer, world, seeds, f"trying step {step}"))["return"]
        if not found:
            return
        chosen = max(found, key=lambda step: found[step]["mean"])
        record = {"chosen": chosen, "seeds": [seeds[0], seeds[-1]], "return": found}
        self.selection.choose(chosen, record)

    def test(self, trainer: Trainer[Item]) -> dict[str, dict[str, Summary]]:
        """The final score: the best policy on test seeds that nothing was chosen on."""
        seeds = seeding.final_seeds(self.cfg.test_episodes)
        with trainer.stop, _last_policy_kept(trainer.learner), _stopped_by(trainer):
            self._load_best(trainer)
            worlds = trainer.evaluations.items()
            found = {name: _played(trainer, world, seeds, f"testing {name}") for name, world in worlds}
        self.run.keep_test(found, seeds, trainer.steps)
        return {name: summaries(values) for name, values in found.items()}

    def _load_best(self, trainer: Trainer[Item]) -> None:
        try:
            load_policy_into(trainer.learner, self.run.best_policy)
        except CheckpointError as error:
            raise CheckpointError(
                f"the best policy of this run is lost ({error}): put it back, or train it again with "
                f"twofold train --from={self.run.folder}"
            ) from None


def _played(trainer: Trainer[Item], world: World, seeds: list[int], what: str) -> Episodes:
    """Episodes of the learner's policy as it is now, counted where somebody looks."""
    with task(what, len(seeds)) as tell:
        return evaluate(world, Counted(trainer.greedy(world), tell), seeds, trainer.stop)


def _mark(trainer: Trainer[Item]) -> tuple[int, ...]:
    """What changes whenever there is something new to save."""
    return trainer.steps, trainer.learner.updates, trainer.evaluated, trainer.logged


def _largest_file(trainer: Trainer[Item]) -> int:
    """No file that this run could have written is larger."""
    row = trainer.replay.nbytes // trainer.replay.capacity
    return max(_state_bytes(trainer.learner) * 2 + (256 << 20), row * 4)


def _state_bytes(learner: Learner[Item]) -> int:
    arrays, _ = pack(learner.state_dict())
    return sum(array.nbytes for array in arrays.values())


@contextmanager
def _stopped_by(trainer: Trainer[Item]) -> Iterator[None]:
    """A signal in the middle of an evaluation stops the run; what was evaluated is made again by a resume."""
    try:
        yield
    except Interrupted:
        raise Stopped(trainer.stop.received or signal.SIGTERM) from None


@contextmanager
def _last_policy_kept(learner: Learner[Item]) -> Iterator[None]:
    """The learner gets its own policy back, whatever was loaded for an evaluation."""
    arrays, rest = pack(learner.policy_state())
    last = unpack(rest, {name: array.copy() for name, array in arrays.items()})
    try:
        yield
    finally:
        learner.load_policy_state(last)
