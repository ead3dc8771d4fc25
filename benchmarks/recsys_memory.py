"""Peak memory of training with a catalogue of 100k items and 1M users (made up), scored in chunks.

python benchmarks/recsys_memory.py --users 1000000 --items 100000 --out benchmarks/results/recsys/recsys_memory.json
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from twofold import api
from twofold.store.provenance import provenance


def settings(users: int, items: int, steps: int) -> dict[str, Any]:
    """A plain factorisation machine as user model (kept as factors), 40 rows, a few hundred updates."""
    return {
        "env_args.synthetic.users": users,
        "env_args.synthetic.items": items,
        "env_args.synthetic.ratings_per_user": 5,
        "env_args.model.kind": "deepfm",
        "env_args.model.deepfm.dnn": [],
        "env_args.model.deepfm.n_models": 2,
        "env_args.model.deepfm.epoch": 1,
        "env_args.model.deepfm.batch": 65_536,
        "env_args.model.deepfm.lr": 0.02,
        "env_args.leave_threshold": 100.0,
        "trainer.steps": steps,
        "trainer.rows": 40,
        "trainer.warmup": 400,
        "trainer.eval_every": steps,
        "trainer.eval_episodes": 40,
        "trainer.eval_rows": 40,
        "trainer.test_episodes": 40,
        "trainer.tensorboard": False,
        "replay.batch_size": 32,
        "replay.buffer_size": 5_000,
    }


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__)
    typed.add_argument("--users", type=int, default=1_000_000)
    typed.add_argument("--items", type=int, default=100_000)
    typed.add_argument("--steps", type=int, default=2_000)
    typed.add_argument("--out", type=Path)
    options = typed.parse_args()
    torch.set_num_threads(1)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        chosen = settings(options.users, options.items, options.steps)
        trained = api.train("td3_rec", "synthetic_users", run=f"{folder}/run", **chosen)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    returns = {world: round(metrics["return"]["mean"], 2) for world, metrics in trained.test.items()}
    record = {
        "users": options.users,
        "items": options.items,
        "steps": options.steps,
        "peak_GB": round(peak, 2),
    }
    record |= {"seconds": round(time.perf_counter() - begin, 1), "return": returns}
    print(json.dumps(record))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record | {"provenance": provenance("recsys_memory.py")}, indent=1))


if __name__ == "__main__":
    main()
