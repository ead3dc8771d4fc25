"""A worker of some rows as an actor of a Ray cluster."""

from __future__ import annotations

import os
from types import ModuleType

from twofold.base.errors import MissingPackage, WorldError
from twofold.rows.envs import EnvRows
from twofold.rows.worker import READY, Lost, Task, answer, last_words

_MESSAGE = 300  # letters of what Ray says


class _Actor:
    """What lives on the cluster; it is never restarted by Ray, which could not bring its episodes back."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._rows: EnvRows | None = None

    def start(self) -> bytes:
        try:
            self._rows = self._task.rows()
            return READY
        except Exception as error:  # an environment may raise anything
            return last_words(error)

    def ask(self, command: bytes, message: bytes) -> bytes:
        assert self._rows is not None
        try:
            return answer(self._rows, command, message)
        except Exception as error:  # an environment may raise anything
            return last_words(error)


class RayWorker:
    """Rows on some machine of the cluster that this process is connected to, or on one started here."""

    def __init__(self, task: Task) -> None:
        self._ray = _connected()
        self._actor = self._ray.remote(num_cpus=1, max_restarts=0)(_Actor).remote(task)
        self._answers = [self._actor.start.remote()]

    def send(self, command: bytes, message: bytes) -> None:
        self._answers.append(self._actor.ask.remote(command, message))

    def receive(self, limit: float) -> bytes:
        try:
            content: bytes = self._ray.get(self._answers.pop(0), timeout=limit)
            return content
        except self._ray.exceptions.GetTimeoutError:
            raise Lost(f"no answer within {limit:g} s") from None
        except self._ray.exceptions.RayError as error:
            said = " ".join(str(error).split())
            raise Lost(f"the actor is gone ({type(error).__name__}: {said[:_MESSAGE]})") from None

    def kill(self) -> None:
        self._ray.kill(self._actor)


def _connected() -> ModuleType:
    """Ray, connected to the cluster of RAY_ADDRESS, else to one of this machine's cores; nothing is phoned home."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray takes 15, and a step waits for the slowest row
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingPackage("ray", "ray", "trainer.engine=ray") from None
    if not ray.is_initialized():
        try:
            ray.init(log_to_driver=False, configure_logging=False, logging_level="ERROR")
        except Exception as error:  # Ray raises what its layers raise
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise WorldError(f"Ray could not be reached or started: {first[:160]}") from None
    module: ModuleType = ray
    return module
