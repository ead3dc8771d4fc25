"""Loads policy files that must be refused, and prints processor seconds and megabytes that each cost, as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time

from twofold.base.errors import UserError
from twofold.store.policy_file import load_policy


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cost(path: str) -> tuple[float, float]:
    seconds, megabytes = time.process_time(), peak()
    try:
        load_policy(path)
    except UserError:
        return time.process_time() - seconds, peak() - megabytes
    raise SystemExit(f"{path} was not refused")


if __name__ == "__main__":
    load_policy(sys.argv[1])  # imports and caches everything
    print(json.dumps({path: cost(path) for path in sys.argv[2:]}))
