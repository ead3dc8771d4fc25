"""Rows in worker processes. One that dies, raises or hangs is restarted, and its step made again: same bytes."""

from __future__ import annotations

import collections
import logging
import time
from collections.abc import Callable, Sequence

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from twofold.base import tree
from twofold.base.errors import WorldError
from twofold.base.foreign import Info
from twofold.core.experience import Array, Obs, blank_like
from twofold.core.protocols import State
from twofold.rows.envs import EpisodeLog, MakeEnv, Seeds, rows_spaces, seconds_of_a_step
from twofold.rows.worker import BROKE_CONTRACT, FAILED, READY, Lost, PipeWorker, Task, Worker

_START_LIMIT = 120.0  # seconds for a new process to import everything and make its environments
log = logging.getLogger("twofold")


class WorkerRows(VectorEnv):
    """Rows spread over worker processes; the rows of one that fails twice at one step are cut, info["broken"] set."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}
    gives_checked = True  # by the rows of its workers

    def __init__(
        self,
        make_env: MakeEnv,
        rows: int,
        workers: int,
        *,
        fresh: bool = False,
        bounds: tuple[Array, Array] | None = None,
        imports: tuple[str, ...] = (),
        hang_limit: float = 30.0,
        max_restarts: int = 10,
        window: float = 600.0,
        spawn: Callable[[Task], Worker] = PipeWorker,
    ) -> None:
        self._new, self._arguments = spawn, (make_env, fresh, imports)
        self.hang_limit, self.max_restarts, self.window = hang_limit, max_restarts, window
        example = make_env()
        rows_spaces(self, rows, example)
        self.step_seconds = seconds_of_a_step(example)
        example.close()
        if bounds is not None:
            self.action_bounds = bounds
        self.log = EpisodeLog(rows)
        self._slices = [slice(int(p[0]), int(p[-1]) + 1) for p in np.array_split(np.arange(rows), workers)]
        self._failures: collections.deque[float] = collections.deque()
        self._obs = blank_like(self.single_observation_space, rows)
        self._starting = set(range(len(self._slices)))
        self._workers: list[Worker | None] = [self._spawn(part) for part in self._slices]

    def _spawn(self, part: slice) -> Worker:
        make_env, fresh, imports = self._arguments
        return self._new(Task(make_env, (part.start, part.stop), fresh, imports))

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[Obs, Info]:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        if not isinstance(seed, Sequence):
            raise TypeError("worker rows take a seed for each row")
        seeds = np.array([-1 if s is None else s for s in seed], np.int64)
        for row in np.flatnonzero(mask).tolist():
            self.log.start(row, int(seeds[row]))
        self._obs = tree.copy(self._obs)
        asked = [i for i, part in enumerate(self._slices) if mask[part].any()]
        for i in asked:
            self._send(i, b"reset", {"seeds": seeds[self._slices[i]], "mask": mask[self._slices[i]]})
        for i in asked:
            part = self._slices[i]
            while self._receive(i) is None:  # a worker that dies in reset is asked again
                if not self._play_again(i, ~mask[part]):
                    raise WorldError(
                        f"environment worker {i} was restarted, but its environments are no function of seed and "
                        "actions: their episodes cannot be resumed. Run the same command to resume from the last "
                        "checkpoint"
                    )
                self._send(i, b"reset", {"seeds": seeds[part], "mask": mask[part]})
        return tree.copy(self._obs), {}

    def _play_again(self, i: int, rows: Array) -> bool:
        """Bring these rows of a new worker back into their episodes; False if they come out otherwise than before."""
        part = self._slices[i]
        seeds = np.where(rows, np.array(self.log.seeds[part], np.int64), -1)
        if (seeds == -1).all():
            return True
        before = tree.copy(tree.index(self._obs, part))
        played = {
            f"actions/{r}": self.log.played(part.start + r) for r in np.flatnonzero(seeds != -1).tolist()
        }
        while True:
            self._send(i, b"restore", {"seeds": seeds, **{k: a for k, a in played.items() if len(a)}})
            if self._receive(i) is not None:
                break
        return tree.equal(tree.index(before, rows), tree.index(tree.index(self._obs, part), rows))

    def step(self, actions: Array) -> tuple[Obs, Array, Array, Array, Info]:
        rows = self.num_envs
        self._obs = tree.copy(self._obs)
        reward, terminated, truncated = np.zeros(rows), np.zeros(rows, bool), np.zeros(rows, bool)
        broken, episode = np.zeros(rows, bool), dict[str, Array]()
        for i, part in enumerate(self._slices):
            self._send(i, b"step", {"actions": np.ascontiguousarray(actions[part])})
        for i, part in enumerate(self._slices):
            answer = self._receive(i) or self._step_again(i, actions[part])
            if answer is None:
                broken[part] = truncated[part] = True
                continue
            reward[part], terminated[part] = answer["reward"], answer["terminated"]
            truncated[part] = answer["truncated"]
            for name in [k for k in answer if k.startswith("episode/")]:
                values = episode.setdefault(name.removeprefix("episode/"), np.full(rows, np.nan))
                values[part] = answer[name]
        for row in np.flatnonzero(~broken).tolist():
            self.log.step(row, actions[row])
        info: Info = {"episode": episode} if episode else {}
        return self._obs, reward, terminated, truncated, info | ({"broken": broken} if broken.any() else {})

    def _step_again(self, i: int, actions: Array) -> dict[str, Array] | None:
        """The step of a worker that was just restarted; None if this step breaks its world, or it is never the same."""
        everything = np.ones(len(actions), bool)
        before = tree.copy(tree.index(self._obs, self._slices[i]))
        if self._play_again(i, everything):
            self._send(i, b"step", {"actions": np.ascontiguousarray(actions)})
            if (answer := self._receive(i)) is not None:
                return answer
        for leaf, old in zip(tree.leaves(self._obs), tree.leaves(before), strict=True):
            leaf[self._slices[i]] = old  # the last that was real
        return None

    def _worker(self, i: int) -> Worker:
        worker = self._workers[i]
        if worker is None:
            raise WorldError("the environment workers are stopped")
        return worker

    def _send(self, i: int, command: bytes, message: dict[str, Array]) -> None:
        self._wait_for_start(i)
        self._worker(i).send(command, encode(message))

    def _wait_for_start(self, i: int) -> None:
        """A process needs seconds to begin, which must not be taken for a hang."""
        while i in self._starting:
            self._starting.discard(i)
            content = self._content(i, _START_LIMIT)
            if content is not None and content != READY:
                self._restart(i, f"unexpected answer {content[:40]!r}")

    def _content(self, i: int, limit: float) -> bytes | None:
        """The bytes that the worker sent; None after it was restarted."""
        cause, content = "", None
        try:
            content = self._worker(i).receive(limit)
        except Lost as lost:
            cause = str(lost)
        if content is not None and content[:1] == BROKE_CONTRACT:  # a new process would do the same again
            self.close_extras()
            raise WorldError(content[1:].decode(errors="replace"))
        if content is not None and content[:1] == FAILED:
            cause = content[1:].decode(errors="replace")
            content = None
        if content is None:
            self._restart(i, cause)
        return content

    def _receive(self, i: int) -> dict[str, Array] | None:
        """The worker's answer, its observations already put in place; None after a restart."""
        content = self._content(i, self.hang_limit)
        if content is None:
            return None
        answer = decode(content)
        for path, leaf in tree.items(self._obs):
            leaf[self._slices[i]] = answer.pop(f"obs/{path}")
        return answer

    def _restart(self, i: int, cause: str) -> None:
        """A new process in place of a broken one, unless that happens too often."""
        now = time.monotonic()
        self._failures.append(now)
        while now - self._failures[0] > self.window:
            self._failures.popleft()
        part = self._slices[i]
        self._stop(i)
        if len(self._failures) > self.max_restarts:
            raise WorldError(
                f"environment workers failed {len(self._failures)} times within {self.window:g} s, "
                f"more than trainer.max_restarts={self.max_restarts}; the last cause: {cause}"
            )
        log.warning("environment worker %d (rows %d-%d) restarted: %s", i, part.start, part.stop - 1, cause)
        self._workers[i] = self._spawn(part)
        self._starting.add(i)

    def _stop(self, i: int) -> None:
        worker, self._workers[i] = self._workers[i], None
        if worker is not None:
            worker.kill()

    def snapshot(self) -> State:
        return self.log.snapshot()

    def restore(self, snapshot: State) -> None:
        self.log.load(snapshot)
        for i, part in enumerate(self._slices):
            rows = range(part.start, part.stop)
            own = {f"actions/{r - part.start}": a for r in rows if len(a := self.log.played(r))}
            self._send(i, b"restore", {"seeds": np.array(self.log.seeds[part], np.int64), **own})
        for i in range(len(self._slices)):
            if self._receive(i) is None:
                raise WorldError(
                    "an environment worker failed while its episode was played again; try once more"
                )

    def close_extras(self, **kwargs: object) -> None:
        for i in range(len(self._workers)):
            self._stop(i)
