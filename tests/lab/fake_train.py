"""A command that trains nothing but keeps the manners of `train`: locks, goes on where it was, saves at SIGTERM.

python fake_train.py RUN SEED STEPS SECONDS_A_STEP [CRASH_AT_STEP]
"""

from __future__ import annotations

import fcntl
import json
import signal
import sys
import time
from pathlib import Path

from made import SETTINGS, summary  # beside this file


def main(place: str, seed: str, steps: str, pause: str, crash: str = "-1") -> None:
    folder, wanted = Path(place), int(steps)
    folder.mkdir(parents=True, exist_ok=True)
    lock = open(folder / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    values = {**SETTINGS, "seed": int(seed), "trainer.steps": wanted}
    (folder / "config.json").write_text(json.dumps({"values": values, "origin": {}}))
    log = folder / "metrics.jsonl"
    whole = log.read_bytes().rpartition(b"\n")[0] if log.exists() else b""
    done = len(whole.split(b"\n")) if whole else 0
    log.write_bytes(whole + b"\n" if whole else b"")  # a line that was cut off is written again
    for step in range(done + 1, wanted + 1):
        if step == int(crash):
            sys.exit(f"the world broke at step {step}")
        time.sleep(float(pause))
        with open(log, "a") as file:
            file.write(json.dumps({"step": step, "value": (step * 7919 + int(seed)) % 101}) + "\n")
    record = {"step": wanted, "world": "eval", "return": summary(float(seed))}
    (folder / "evaluations.jsonl").write_text(json.dumps(record) + "\n")
    (folder / "test.json").write_text(json.dumps({"seeds": [1, 2], "eval": {"return": summary(float(seed))}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
