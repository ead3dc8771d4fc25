"""Rows in worker processes that are restarted when they die, raise or hang; training goes on."""

from __future__ import annotations

import collections
import logging
import multiprocessing
import signal
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from . import tree
from .errors import WorldError
from .experience import Array, Obs, blank_like
from .imports import import_user_code
from .protocols import State
from .rows import EnvRows, EpisodeLog, MakeEnv, rows_spaces

log = logging.getLogger("twofold")


def serve(pipe: Connection, make_env: MakeEnv, rows: int, fresh: bool, imports: tuple[str, ...]) -> None:
    """The worker: answers reset, step and restore until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what a signal means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        import_user_code(imports)
        world = EnvRows(make_env, rows, fresh=fresh)
        while True:
            command, message = pipe.recv_bytes(), decode(pipe.recv_bytes())
            pipe.send_bytes(encode(_answer(world, command, message)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception:
        pipe.send_bytes(b"!" + traceback.format_exc().encode())


def _answer(world: EnvRows, command: bytes, message: dict[str, Array]) -> dict[str, Array]:
    """Carry out one command on the rows of this worker."""
    if command == b"step":
        obs, reward, terminated, truncated, info = world.step(message["actions"])
        answer = {"reward": reward, "terminated": terminated, "truncated": truncated}
        answer |= {f"episode/{k}": v for k, v in info.get("episode", {}).items()}
    elif command == b"reset":
        seeds = [int(seed) for seed in message["seeds"]]
        obs, _ = world.reset(seed=seeds, options={"reset_mask": message["mask"]})
        answer = {}
    else:
        played = {k.removeprefix("actions/"): v for k, v in message.items() if k.startswith("actions/")}
        world.restore({"seeds": message["seeds"], "actions": played})
        obs, answer = world._obs, {}
    return answer | {f"obs/{path}": np.ascontiguousarray(leaf) for path, leaf in tree.items(obs)}


class WorkerRows(VectorEnv):
    """Rows spread over worker processes. A broken worker's rows come back truncated with info["broken"] set."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(
        self,
        make_env: MakeEnv,
        rows: int,
        workers: int,
        *,
        fresh: bool = False,
        imports: tuple[str, ...] = (),
        hang_limit: float = 30.0,
        max_restarts: int = 10,
        window: float = 600.0,
    ) -> None:
        self._arguments = (make_env, fresh, imports)
        self.hang_limit, self.max_restarts, self.window = hang_limit, max_restarts, window
        example = make_env()
        rows_spaces(self, rows, example)
        example.close()
        self.log = EpisodeLog(rows)
        self._slices = [slice(int(p[0]), int(p[-1]) + 1) for p in np.array_split(np.arange(rows), workers)]
        self._context = multiprocessing.get_context("spawn")
        self._failures: collections.deque[float] = collections.deque()
        self._obs = blank_like(self.single_observation_space, rows)
        self._workers = [self._spawn(part) for part in self._slices]

    def _spawn(self, part: slice) -> tuple[Any, Connection]:
        make_env, fresh, imports = self._arguments
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=serve, args=(theirs, make_env, part.stop - part.start, fresh, imports), daemon=True
        )
        process.start()
        theirs.close()
        return process, ours

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        seeds = np.array([-1 if s is None else s for s in seed], np.int64)
        for row in np.flatnonzero(mask).tolist():
            self.log.start(row, int(seeds[row]))
        self._obs = tree.copy(self._obs)
        asked = [i for i, part in enumerate(self._slices) if mask[part].any()]
        for i in asked:
            self._send(i, b"reset", {"seeds": seeds[self._slices[i]], "mask": mask[self._slices[i]]})
        for i in asked:
            while self._receive(i) is None:  # a worker that dies in reset is asked again
                part = self._slices[i]
                self._send(i, b"reset", {"seeds": seeds[part], "mask": np.ones(part.stop - part.start, bool)})
        return tree.copy(self._obs), {}

    def step(self, actions: Array) -> tuple[Obs, Array, Array, Array, dict[str, Any]]:
        rows = self.num_envs
        self._obs = tree.copy(self._obs)
        reward, terminated, truncated = np.zeros(rows), np.zeros(rows, bool), np.zeros(rows, bool)
        broken, episode = np.zeros(rows, bool), dict[str, Array]()
        for i, part in enumerate(self._slices):
            self._send(i, b"step", {"actions": np.ascontiguousarray(actions[part])})
        for i, part in enumerate(self._slices):
            answer = self._receive(i)
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
        info: dict[str, Any] = {"episode": episode} if episode else {}
        return self._obs, reward, terminated, truncated, info | ({"broken": broken} if broken.any() else {})

    def _send(self, i: int, command: bytes, message: dict[str, Array]) -> None:
        try:
            self._workers[i][1].send_bytes(command)
            self._workers[i][1].send_bytes(encode(message))
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass  # the answer will be missing, and _receive restarts the worker

    def _receive(self, i: int) -> dict[str, Array] | None:
        """The worker's answer, its observations already put in place; None after a restart."""
        process, pipe = self._workers[i]
        try:
            if not pipe.poll(self.hang_limit):
                self._restart(i, f"no answer within {self.hang_limit:g} s")
                return None
            content = pipe.recv_bytes()
        except (EOFError, ConnectionResetError, OSError):
            self._restart(i, f"the process died (exit code {process.exitcode})")
            return None
        if content[:1] == b"!":
            self._restart(i, content[1:].decode(errors="replace").strip().splitlines()[-1])
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

    def _stop(self, i: int) -> None:
        process, pipe = self._workers[i]
        pipe.close()
        process.kill()
        process.join()
        process.close()

    def snapshot(self) -> State:
        return self.log.snapshot()

    def restore(self, snapshot: State) -> None:
        self.log.load(snapshot)
        for i, part in enumerate(self._slices):
            own = {
                f"actions/{r - part.start}": a
                for r in range(part.start, part.stop)
                if (a := self._played(r)) is not None
            }
            self._send(i, b"restore", {"seeds": np.array(self.log.seeds[part], np.int64), **own})
        for i in range(len(self._slices)):
            if self._receive(i) is None:
                raise WorldError(
                    "an environment worker failed while its episode was played again; try once more"
                )

    def _played(self, row: int) -> Array | None:
        return np.stack(self.log.actions[row]) if self.log.actions[row] else None

    def close_extras(self, **kwargs: Any) -> None:
        for i in range(len(self._workers)):
            self._stop(i)
        self._workers = []
