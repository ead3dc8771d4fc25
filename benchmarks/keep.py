"""Keep the records of finished runs: `python benchmarks/keep.py runs/NAME benchmarks/runs/NAME`.

A record is a run directory without its weights, replay and metrics: settings, provenance, every evaluation, the test.
`twofold compare | report` and `benchmarks/learning.py` read it as they read the run, and `twofold lab` takes it as
done, so that a result of many hours grows over many sittings:

    cp -r benchmarks/runs/td3_plus runs/ && twofold lab benchmarks/experiments/td3_plus.yaml --out=runs/td3_plus

Paths and names of the machine are left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WHOLE = ("config.json", "evaluations.jsonl", "test.json")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="a folder with run directories, at any depth")
    parser.add_argument("into", type=Path, help="where their records go, in the same order of folders")
    options = parser.parse_args()
    for place in keep(options.runs, options.into):
        print(place)
    return 0


def keep(runs: Path, into: Path) -> Iterator[Path]:
    """Records of the finished runs below a folder; what is kept already is left alone."""
    for made in sorted(runs.glob("**/provenance.json")):
        run, place = made.parent, into / made.parent.relative_to(runs)
        state = _read(run / "state.json")
        if state["state"] != "finished" or place.exists():
            continue
        place.mkdir(parents=True)
        for name in WHOLE:
            shutil.copyfile(run / name, place / name)
        provenance = _read(made)
        _write(place / "provenance.json", provenance | {"command": typed(provenance["command"])})
        _write(place / "state.json", state | {"host": "", "pid": 0})
        yield place


def typed(command: str) -> str:
    """The command as a user types it: without the interpreter and the place of the run directory."""
    words = command.split()
    start = next((i for i, word in enumerate(words) if word == "train"), 0)
    return " ".join(["twofold", *(w for w in words[start:] if not w.startswith("--run="))])


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
