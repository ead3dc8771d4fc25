"""What happened to a run: its state and the reason, every start, and what was said meanwhile."""

from __future__ import annotations

import logging
import os
import socket
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypedDict

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign_json import log_records, read_json
from twofold.base.regular import is_there, open_to_write
from twofold.base.signals import Stopped
from twofold.store import files
from twofold.store.jsonlines import JsonLines
from twofold.store.provenance import now, provenance

State = Literal["running", "finished", "stopped", "failed"]
log = logging.getLogger("twofold")


class StateRecord(TypedDict):
    """What state.json holds."""

    state: State
    reason: str
    step: int  # of the newest checkpoint
    steps: int  # that were asked for
    host: str
    pid: int
    time: str


class Journal:
    """state.json (one record), starts.jsonl (a line for each start and each end), log.txt."""

    def __init__(self, folder: Path, steps: int, saved: Callable[[], int]) -> None:
        self.folder, self.steps, self._saved = folder, steps, saved
        self._starts = JsonLines(folder / "starts.jsonl")

    @contextmanager
    def session(self, command: str) -> Iterator[None]:
        """Note the start, and the end however it comes."""
        about = {
            "from": self._saved(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            **provenance(command),
        }
        self._warn_of_changes(about)
        self._starts.append(about)
        self._write("running", "")
        with _Transcript(self.folder / "log.txt") as transcript:
            transcript.say("INFO", f"started: {command}")
            try:
                yield
            except (Stopped, GeneratorExit) as stopped:
                self._end("stopped", str(stopped) or "the loop over the training was left", transcript)
                raise
            except BaseException as error:
                if not isinstance(error, UserError):
                    transcript.say("ERROR", traceback.format_exc())
                self._end("failed", _told(error), transcript)
                raise
            self._end("finished", "", transcript)

    def _end(self, state: State, reason: str, transcript: _Transcript) -> None:
        """A run whose directory is gone or full has nowhere to write its end: its cause is on its way already."""
        transcript.say("INFO", f"{state} at step {self._saved()}" + (f": {reason}" if reason else ""))
        with suppress(OSError, UserError):
            self._write(state, reason)
            self._starts.append({"end": state, "reason": reason, "step": self._saved(), "time": now()})
        self._starts.close()

    def _write(self, state: State, reason: str) -> None:
        record = StateRecord(
            state=state,
            reason=reason,
            step=self._saved(),
            steps=self.steps,
            host=socket.gethostname(),
            pid=os.getpid(),
            time=now(),
        )
        with files.disk_full_explained(self.folder, 10_000):
            files.replace_bytes(self.folder / "state.json", files.to_json(record))

    def finish(self) -> None:
        """Say that the run is finished, if the process that brought it to its end was killed before it did."""
        if not self.finished_at(self._saved()):
            self._write("finished", "")

    def finished_at(self, step: int) -> bool:
        """True if the run came to its end at this step, with as many steps asked for as now."""
        try:
            record = read_json(self.folder / "state.json")
        except CheckpointError:
            return False  # an older run, or a damaged note: the end is reached again
        wanted = {"state": "finished", "step": step, "steps": self.steps}
        return isinstance(record, dict) and all(record.get(key) == value for key, value in wanted.items())

    def _warn_of_changes(self, about: dict[str, object]) -> None:
        """Other versions may compute other bits: a resume with them is allowed, and said."""
        try:
            lines = log_records(self._starts.path) if is_there(self._starts.path) else ()
            told = (packages for line in lines if isinstance(packages := line.get("packages"), dict))
            before = list(deque(told, 1))
        except CheckpointError:
            return
        ours = about["packages"]
        if before and isinstance(ours, dict):
            changed = [f"{k} {before[-1][k]} -> {v}" for k, v in ours.items() if before[-1].get(k, v) != v]
            if changed:
                log.warning(
                    "resumed with other versions than before (%s): bits may differ", ", ".join(changed)
                )


def _told(error: BaseException) -> str:
    """The cause as one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


class _Transcript(logging.Handler):
    """All that is logged, into a file of the run as well; a disk that takes nothing more costs the text only."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
        self._path, self._handle = path, -1

    def __enter__(self) -> _Transcript:
        with suppress(OSError, UserError):
            self._handle = open_to_write(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        log.removeHandler(self)
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def say(self, level: str, text: str) -> None:
        self.emit(logging.makeLogRecord({"msg": text, "levelname": level, "levelno": logging.INFO}))

    def emit(self, record: logging.LogRecord) -> None:
        if self._handle >= 0:
            with suppress(OSError):
                os.write(self._handle, (self.format(record) + "\n").encode(errors="replace"))
