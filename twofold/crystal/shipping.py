"""From a run directory to the small weights file of the relaxer, with an account of where it came from beside it."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from pathlib import Path
from typing import Any

from twofold.base.errors import UserError
from twofold.crystal.policy import export_weights, load_weights
from twofold.crystal.world import RelaxConfig
from twofold.settings.config import own_settings
from twofold.store import files
from twofold.store.checkpoint import unpack
from twofold.store.policy_file import unseal
from twofold.store.run import Run

WORLD = "crystal/spring"


def ship(folder: Path, path: Path) -> dict[str, Any]:
    """Write the best policy of a run as `path` and its account as the same name with .json; returns the account."""
    run = Run.open(folder)
    if run.resolved.config.env != WORLD:
        raise UserError(
            f"{folder} is a run in '{run.resolved.config.env}', the relaxer needs one in '{WORLD}'"
        )
    arrays, about = unseal(folder / "best.safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    export_weights(unpack(about["rest"], arrays), path)
    load_weights(path)  # what is shipped can be read
    account = _account(run, about["score"]["step"], path.stem)
    path.with_suffix(".json").write_text(json.dumps(account, indent=1) + "\n", encoding="utf-8")
    return account


def _account(run: Run, best: int, name: str) -> dict[str, Any]:
    """How the weights were made: command, seed, code, packages, data, validation curve."""
    made: Any = files.read_json(run.folder / "provenance.json")
    config = run.resolved.config
    sets = own_settings(RelaxConfig, config.env_args).sets
    evaluations = run.evaluations.read()
    steps = max((entry["step"] for entry in evaluations), default=0)
    curve = [{"step": e["step"], **_scores(e)} for e in evaluations if e["world"] == "eval"]
    return {
        "name": name,
        "command": told(made["command"]),
        "made": made["started"][:10],
        "seed": config.seed,
        "steps": steps,
        "complete": steps >= config.trainer.steps,
        "best": f"step {best}, by the highest mean of -log2(calls) on the validation starts",
        "validation": curve,
        "commit": made["commit"],
        "python": made["python"],
        "packages": {p: v for p, v in made["packages"].items() if p in ("torch", "numpy", "ase", "matscipy")},
        "sets": sets,
        "data": _data(sets),
    }


def told(text: str) -> str:
    """As one would type it: without this machine's paths."""
    words = shlex.split(text)[1:]
    return shlex.join(["twofold", *(word for word in words if not word.startswith(("--run=", "--runs=")))])


def _scores(entry: dict[str, Any]) -> dict[str, float]:
    return {
        "-log2(calls)": round(entry["return"]["mean"], 4),
        "mean calls": round(entry["calls"]["mean"], 3),
        "relaxed": entry["relaxed"]["mean"],
        "episodes": entry["return"]["episodes"],
    }


def _data(sets: dict[str, Any]) -> dict[str, str]:
    """The checksum of every file that the sets name."""
    found: dict[str, str] = {}
    for key, value in sets.items():
        settings = value if isinstance(value, dict) else {key.rpartition(".")[2]: value}
        named = [*settings.get("structures", ()), str(settings.get("calculator", "")).removeprefix("eam:")]
        for text in named:
            path = Path(os.path.expandvars(text))
            if path.is_file():
                found[text] = "blake2b-128 " + hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return found
