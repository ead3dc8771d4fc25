"""Jobs as tasks of a Ray cluster: a task is the command, so a task that Ray runs again on another node continues it."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from types import ModuleType

from twofold.base.errors import MissingPackage, UserError
from twofold.jobs import elsewhere
from twofold.jobs.elsewhere import Facts, Order
from twofold.jobs.job import Job

_RETRIES = 20  # nodes that may vanish under one job
_PATIENCE = 60.0  # seconds for a node to answer


def connected(address: str) -> ModuleType:
    """Ray, connected to a cluster; nothing is sent to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")  # its warnings would come between our lines
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingPackage("ray", "ray", f"--on=ray:{address}") from None
    if not ray.is_initialized():
        _refuse_silence(address)
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False, logging_level="ERROR")
        except Exception as error:  # Ray raises what its layers raise
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if "AuthenticationError" in f"{error!r} {error.__cause__}":
                raise UserError(
                    f"the Ray cluster at '{address}' wants its token: copy ~/.ray/auth_token of its first machine "
                    "here, or set RAY_AUTH_TOKEN"
                ) from None
            raise UserError(
                f"no Ray cluster at '{address}' ({first[:160]}): start one with `ray start --head`"
            ) from None
    module: ModuleType = ray
    return module


def _refuse_silence(address: str) -> None:
    """Ray itself asks for minutes where nobody answers."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError as error:
            raise UserError(
                f"no Ray cluster at '{address}' ({error.strerror or error}): start one with `ray start --head`"
            ) from None


class RayCluster:
    """Every node is asked for its versions and for the shared folder before anything starts."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder

    def __enter__(self) -> RayCluster:
        self._ray = connected(self.address)
        self._here = elsewhere.write_token(self.folder)
        for there in self._nodes():
            if problem := elsewhere.difference(self._here, there):
                self.__exit__()
                raise UserError(problem)
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def _nodes(self) -> list[Facts]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ask = self._ray.remote(num_cpus=0)(elsewhere.facts)
        token = str((self.folder / elsewhere.TOKEN).resolve())
        nodes = [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]
        asked = [
            ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(token)
            for node in nodes
        ]
        try:
            return list(self._ray.get(asked, timeout=_PATIENCE))
        except Exception as error:  # a node without twofold fails in whatever way its Python does
            raise UserError(f"a node of the Ray cluster cannot run twofold: {_first_line(error)}") from None

    def start(self, job: Job, log: Path) -> RayTask:
        log.touch()
        order = Order(job.argv, str(job.folder.resolve()), str(log.resolve()), os.getcwd(), self._here)
        task = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(elsewhere.carry_out)
        return RayTask(self._ray, task.remote(order))


class RayTask:
    """One job on the cluster."""

    def __init__(self, ray: ModuleType, reference: object) -> None:
        self._ray, self._reference = ray, reference

    def code(self) -> int | None:
        done, _ = self._ray.wait([self._reference], timeout=0)
        if not done:
            return None
        try:
            return int(self._ray.get(self._reference))
        except self._ray.exceptions.TaskCancelledError:
            return 128 + signal.SIGTERM
        except self._ray.exceptions.RayError:
            return -signal.SIGKILL  # its machine is gone more often than Ray repeats: the coordinator goes on

    def stop(self) -> None:
        self._ray.cancel(self._reference, force=False)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else type(error).__name__
