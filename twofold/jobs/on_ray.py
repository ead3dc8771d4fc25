"""Jobs as tasks of a Ray cluster: a task is the command, so a task that Ray runs again on another node continues it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import ModuleType

from twofold.base.errors import UserError
from twofold.base.ray_cluster import connected
from twofold.base.regular import is_folder, read_regular
from twofold.jobs import elsewhere
from twofold.jobs.elsewhere import Facts, Order
from twofold.jobs.job import Job
from twofold.store import files

_RETRIES = 20  # nodes that may vanish under one job
_PATIENCE = 60.0  # seconds for a node to answer
_LOOK, _MISSES = (
    10.0,
    4,
)  # seconds between looks at the nodes, and how often a dead one is seen; Ray mostly is faster


class RayCluster:
    """Every node is asked for its versions and for the shared folder before anything starts."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder

    def __enter__(self) -> RayCluster:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")  # its warnings would come between our lines
        self._ray = connected(self.address, f"--on=ray:{self.address}")
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
            ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                token, os.getcwd()
            )
            for node in nodes
        ]
        try:
            return list(self._ray.get(asked, timeout=_PATIENCE))
        except Exception as error:  # a node without twofold fails in whatever way its Python does
            raise UserError(f"a node of the Ray cluster cannot run twofold: {_first_line(error)}") from None

    def start(self, job: Job, log: Path) -> RayTask:
        log.touch()
        node_file(log).unlink(missing_ok=True)
        order = Order.of(job, log, self._here)
        task = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(carry_out)
        return RayTask(self._ray, task.remote(order), log)


def node_file(log: Path) -> Path:
    """What lies beside the log of a job and says on which node it runs."""
    return log.with_name(f"{log.name}.node")


def carry_out(order: Order) -> int:
    """The errand, which first says where it is."""
    import ray

    place = node_file(Path(order.log))
    if is_folder(place.parent):
        files.replace_bytes(place, ray.get_runtime_context().get_node_id().encode())
    return elsewhere.carry_out(order)


class RayTask:
    """One job on the cluster."""

    def __init__(self, ray: ModuleType, reference: object, log: Path) -> None:
        self._ray, self._reference, self._log = ray, reference, log
        self._looked, self._missed = time.monotonic(), 0

    def code(self) -> int | None:
        done, _ = self._ray.wait([self._reference], timeout=0)
        if not done:
            return -signal.SIGKILL if self._cut_off() else None
        try:
            return int(self._ray.get(self._reference))
        except self._ray.exceptions.TaskCancelledError:
            return 128 + signal.SIGTERM
        except self._ray.exceptions.RayError:
            return -signal.SIGKILL  # its machine is gone more often than Ray repeats: the coordinator goes on

    def _cut_off(self) -> bool:
        """True if its node is dead for long and Ray still waits for an answer: a machine without network sends none."""
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            dead = {node["NodeID"] for node in self._ray.nodes() if not node["Alive"]}
            self._missed = self._missed + 1 if self._node() in dead else 0
        if self._missed < _MISSES:
            return False
        self._ray.cancel(self._reference, force=True)  # or it would come back when the network does
        return True

    def _node(self) -> str:
        try:
            return read_regular(node_file(self._log), 1_000).decode(errors="replace")
        except UserError:
            return ""  # it waits for a node

    def stop(self) -> None:
        self._ray.cancel(self._reference, force=False)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else type(error).__name__
