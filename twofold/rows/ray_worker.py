"""A worker of some rows as an actor of a Ray cluster."""

from __future__ import annotations

import os
from contextlib import suppress
from types import ModuleType

from twofold.base.errors import UserError, WorldError
from twofold.base.ray_cluster import connected
from twofold.rows.envs import EnvRows
from twofold.rows.worker import BROKE_CONTRACT, READY, Lost, Task, answer, last_words
from twofold.store.alike import Software, software, unlike

_MESSAGE = 300  # letters of what Ray says


class _Actor:
    """What lives on the cluster; it is never restarted by Ray, which could not bring its episodes back."""

    def __init__(self, task: Task, sender: Software, cwd: str) -> None:
        self._task, self._sender, self._cwd = task, sender, cwd
        self._rows: EnvRows | None = None

    def start(self) -> bytes:
        """Make the rows, on a machine that would step them as the sender's would."""
        here = software()
        if problem := unlike(self._sender, here):
            return BROKE_CONTRACT + problem.encode()
        with suppress(OSError):  # files may be named from there; most rows need none
            os.chdir(self._cwd)
        try:
            self._rows = self._task.rows()
            return READY
        except UserError as error:  # another actor would say the same
            return BROKE_CONTRACT + f"{here.host}: {error}".encode(errors="replace")
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
        actor = self._ray.remote(num_cpus=1, max_restarts=0)(_Actor)
        self._actor = actor.remote(task, software(), os.getcwd())
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
            if (
                "ModuleNotFoundError" in said
            ):  # of twofold or of what the rows need: no other actor would find it
                line = next(part for part in str(error).splitlines() if "ModuleNotFoundError" in part)
                return BROKE_CONTRACT + f"a node of the Ray cluster cannot step rows: {line.strip()}".encode()
            raise Lost(f"the actor is gone ({type(error).__name__}: {said[:_MESSAGE]})") from None

    def kill(self) -> None:
        self._ray.kill(self._actor)


def _connected() -> ModuleType:
    # Ray takes 15, and a step waits for the slowest row.
    os.environ.setdefault("RAY_worker_niceness", "0")
    return connected(None, "trainer.engine=ray")


def refuse_a_small_cluster(workers: int) -> None:
    """Actors that no processor is there for would be waited for without end."""
    found = int(_connected().cluster_resources().get("CPU", 0))
    if found < workers:
        raise WorldError(
            f"trainer.workers={workers} wants {workers} processors of the Ray cluster, it has {found}"
        )
