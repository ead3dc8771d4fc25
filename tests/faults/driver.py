"""Runs `twofold` commands in forked children with faults put in, so that no child pays for importing again.

One JSON request per line on stdin: {"argv", "hooks", "log", "progress", "folder", "rlimit"} starts a child, in which
changes below `folder` are events, and answers its pid;
{"wait": pid, "seconds"} answers with its exit status (negative: killed by that signal), or null if it still runs.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any


class Fault:
    """Sends a signal to this very process at the n-th event of a kind, once an earlier fault (if named) has struck."""

    def __init__(self, event: str, at: int, signum: int, after: int | None = None) -> None:
        self.event, self.left, self.signum, self.after, self.struck = event, at, signum, after, False


class Faults:
    def __init__(self, hooks: list[dict[str, Any]]) -> None:
        self.all = [Fault(h["event"], h["at"], h["signal"], h.get("after")) for h in hooks]
        self.changes = 0  # on the disk, so far

    def __call__(self, event: str) -> None:
        self.changes += event == "disk"
        for fault in self.all:
            waits = fault.after is not None and not self.all[fault.after].struck
            if fault.event != event or fault.struck or waits:
                continue
            fault.left -= 1
            if fault.left == 0:
                fault.struck = True
                os.kill(os.getpid(), fault.signum)
                if fault.signum != signal.SIGKILL:
                    time.sleep(0)  # lets Python's handler run here, in the middle of the event


def put_in(faults: Faults, progress: int) -> None:
    """Count events where they happen: writing, collecting, updating, evaluating, testing."""
    from twofold.core import trainer
    from twofold.core.collect import Collector
    from twofold.learners.td3 import TD3
    from twofold.store import files, keeper

    files.moment = lambda name: faults("moment")
    collect, update, evaluate, test = Collector.step, TD3.update, trainer.evaluate, keeper.RunKeeper.test

    def collected(self: Any) -> int:
        faults("collect")
        new = collect(self)
        os.pwrite(progress, b"%12d" % self.steps, 0)
        return new

    def updated(self: Any, batch: Any) -> None:
        faults("update")
        update(self, batch)

    def evaluated(*arguments: Any) -> Any:
        faults("evaluate")
        return evaluate(*arguments)

    def tested(self: Any, trained: Any) -> Any:
        faults("test")
        return test(self, trained)

    Collector.step, TD3.update, keeper.RunKeeper.test = collected, updated, tested
    trainer.evaluate = keeper.evaluate = evaluated


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
}


def watch_disk(faults: Faults, folder: str) -> None:
    """Count everything that changes what lies below a folder, just before it happens, and the middle of each write."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, (str, bytes)) and flags & WRITES and os.fsdecode(path).startswith(folder):
                faults("disk")
        elif event in CHANGES:
            path = arguments[0]
            if isinstance(path, int) or os.fsdecode(path).startswith(folder):
                faults("disk")

    write = os.write

    def halved(handle: int, content: bytes) -> int:
        half = len(content) // 2
        done = write(handle, content[:half])
        faults("disk")
        return done + write(handle, content[half:])

    os.write = halved
    sys.addaudithook(heard)


def child(request: dict[str, Any]) -> None:
    from twofold.cli import main

    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(
            signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL
        )  # not nohup's
    for name, limit in request.get("rlimit", {}).items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    progress = os.open(request["progress"], os.O_WRONLY | os.O_CREAT)
    code = 70
    try:
        faults = Faults(request["hooks"])
        put_in(faults, progress)
        watch_disk(faults, request["folder"])
        code = main(request["argv"])
        os.pwrite(progress, b"%12d" % faults.changes, 12)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def status(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, found = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(found)
        time.sleep(0.005)
    return None


def serve() -> None:
    import contextlib
    import io
    import tempfile
    from pathlib import Path

    from harness import command

    from twofold.cli import main

    # A whole run here imports and caches everything that the children would each import and cache again.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        assert main(command(Path(folder) / "run", "trainer.steps=150")) == 0
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(json.dumps(status(request["wait"], request["seconds"])), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            child(request)
        print(pid, flush=True)
    os._exit(0)  # at once: taking a large interpreter down in good order takes seconds


if __name__ == "__main__":
    serve()
