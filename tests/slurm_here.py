"""A real SLURM on this machine, without systemd: munged, slurmctld and slurmd of Debian's packages, in one folder.

python tests/slurm_here.py COMMAND...    runs a command inside of such a cluster; needs root, slurm-wlm and munge.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol")
CONFIG = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1,requeue_delay=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
ReturnToService=2
JobRequeue=1
KillWait=30
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """The reason why SLURM cannot be run here, or nothing."""
    lacking = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if lacking:
        return f"no {lacking[0]} here: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "slurmctld and slurmd are started as root here"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _free_ports() -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def slurm(cpus: int = 2) -> Iterator[dict[str, str]]:
    """A cluster of one node; the environment in which its commands find it."""
    folder = Path(tempfile.mkdtemp(prefix="slurm_"))
    folder.chmod(0o755)
    for name in ("state", "spool", "log"):
        (folder / name).mkdir()
    host = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(
        CONFIG.format(host=host, folder=folder, ports=_free_ports(), cpus=cpus)
    )
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_started(["munged", "--foreground", "--force", f"--socket={folder}/munge.socket",
            f"--key-file={folder}/munge.key", f"--pid-file={folder}/munged.pid", f"--log-file={folder}/log/munged",
            f"--seed-file={folder}/munge.seed"], environment, folder))  # fmt: skip
        _until(lambda: (folder / "munge.socket").exists(), "munged", folder)
        started.append(_started(["slurmctld", "-D", "-i"], environment, folder))
        started.append(_started(["slurmd", "-D", "-N", host], environment, folder))
        _until(lambda: "idle" in _said(["sinfo", "-h", "-o", "%t"], environment), "slurmd", folder)
        yield environment
    finally:
        _said(["scancel", "--full", f"--user={os.environ.get('USER', 'root')}"], environment)
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _started(command: list[str], environment: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    log = open(folder / "log" / f"{command[0]}.txt", "wb")
    return subprocess.Popen([program, *command[1:]], env=environment, stdout=log, stderr=log)


def _said(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout


def _until(claim: object, what: str, folder: Path, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not claim():  # type: ignore[operator]
        if time.monotonic() > until:
            logs = "\n".join(p.read_text(errors="replace")[-2_000:] for p in (folder / "log").iterdir())
            raise TimeoutError(f"{what} did not come up:\n{logs}")
        time.sleep(0.1)


if __name__ == "__main__":
    if problem := why_not():
        raise SystemExit(problem)
    with slurm() as found:
        raise SystemExit(subprocess.run(sys.argv[1:], env=found, check=False).returncode)
