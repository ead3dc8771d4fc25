"""One worker of some rows: what it answers, and how it is reached: a process on a pipe."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import signal
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

import numpy as np
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from twofold.base import tree
from twofold.base.errors import WorldError
from twofold.core.experience import Array
from twofold.rows.envs import EnvRows, MakeEnv
from twofold.settings.imports import import_user_code

READY = b"ready"
FAILED, BROKE_CONTRACT = b"!", b"?"  # how a worker's last words begin
_MESSAGE = 1_000  # letters of an environment's message that are told


@dataclass(frozen=True)
class Task:
    """Which rows a worker has, and how to make them."""

    make_env: MakeEnv
    part: tuple[int, int]
    fresh: bool
    imports: tuple[str, ...]

    def rows(self) -> EnvRows:
        import_user_code(self.imports)
        first, end = self.part
        return EnvRows(self.make_env, end - first, fresh=self.fresh, first=first)


class Lost(Exception):
    """A worker that will not answer any more; the cause in words."""


class Worker(Protocol):
    """Where the rows of a task live."""

    def send(self, command: bytes, message: bytes) -> None:
        """Ask for an answer; a worker that is gone is found out when it is waited for."""

    def receive(self, limit: float) -> bytes:
        """The next answer, READY being the first; raises Lost after `limit` seconds, or when it is gone."""
        ...

    def kill(self) -> None:
        """End it, whatever it does."""


def serve(pipe: Connection, task: Task) -> None:
    """The worker: answers reset, step and restore of its part of the rows until the parent is gone."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Sent to the whole group: the parent decides what a signal means.
        signal.signal(signum, signal.SIG_IGN)
    _die_with_parent()
    try:
        world = task.rows()
        pipe.send_bytes(READY)
        while True:
            command, message = pipe.recv_bytes(), pipe.recv_bytes()
            pipe.send_bytes(answer(world, command, message))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        pipe.send_bytes(last_words(error))


def last_words(error: Exception) -> bytes:
    """What a worker says of the error that ends it."""
    if isinstance(error, WorldError):
        return BROKE_CONTRACT + _told(str(error))
    return FAILED + _told(_cause(error))


def _cause(error: Exception) -> str:
    """What an environment raised, and where."""
    words = " ".join("".join(traceback.format_exception_only(error)).split())
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{words[:_MESSAGE]} (at {last.filename}:{last.lineno})"


def _told(message: str) -> bytes:
    """A message of bounded length that can be sent, whatever letters are in it."""
    return message[: 2 * _MESSAGE].encode(errors="backslashreplace")


def _die_with_parent() -> None:
    """On Linux, even a hung worker ends when its parent is killed; elsewhere it ends at its next message."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def answer(world: EnvRows, command: bytes, content: bytes) -> bytes:
    """Carry out one command on the rows of a worker."""
    return encode(_carried_out(world, command, decode(content)))


def _carried_out(world: EnvRows, command: bytes, message: dict[str, Array]) -> dict[str, Array]:
    if command == b"step":
        obs, reward, terminated, truncated, info = world.step(message["actions"])
        found = {"reward": reward, "terminated": terminated, "truncated": truncated}
        found |= {f"episode/{k}": v for k, v in info.get("episode", {}).items()}
    elif command == b"reset":
        seeds = [int(seed) for seed in message["seeds"]]
        obs, _ = world.reset(seed=seeds, options={"reset_mask": message["mask"]})
        found = {}
    else:
        played = {k.removeprefix("actions/"): v for k, v in message.items() if k.startswith("actions/")}
        world.restore({"seeds": message["seeds"], "actions": played})
        obs, found = world._obs, {}
    return found | {f"obs/{path}": np.ascontiguousarray(leaf) for path, leaf in tree.items(obs)}


class PipeWorker:
    """A process of this machine on a pipe."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, task), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, command: bytes, message: bytes) -> None:
        with contextlib.suppress(OSError):  # the answer will be missing
            self._pipe.send_bytes(command)
            self._pipe.send_bytes(message)

    def receive(self, limit: float) -> bytes:
        try:
            if self._pipe.poll(limit):
                return self._pipe.recv_bytes()
        except (EOFError, OSError):
            self._process.join(1.0)
            raise Lost(f"the process died (exit code {self._process.exitcode})") from None
        raise Lost(f"no answer within {limit:g} s")

    def kill(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()
