"""The recommendation results: several seeds of one setting, beside the baselines, on the true users.

python benchmarks/recsys.py --env-config=coat --seeds 1 2 3 4 5 --out=benchmarks/results/recsys/recsys_coat_model
python benchmarks/recsys.py --env-config=synthetic_users --out=users env_args.quit=true
Runs that are finished already (in --runs) are not repeated. The policy of each run is the one that was best on
held-out simulated users; the true users are looked at once, at the end.
`python benchmarks/recsys.py --page --out=...` writes OUT.md again from OUT.json and its words, OUT.txt.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from twofold import api
from twofold.recsys.config import UsersConfig
from twofold.recsys.metrics import over_seeds
from twofold.recsys.standings import Standings, draw, text
from twofold.recsys.standings import standings as stand
from twofold.settings.config import load, own_settings
from twofold.settings.presets import parse_value
from twofold.store.provenance import provenance


def trained(options: Any, settings: dict[str, Any]) -> list[Path]:
    """The run directories of all seeds, trained where they are missing."""
    folders = []
    for seed in options.seeds:
        folder = Path(options.runs) / f"{options.config}_seed{seed}"
        if not (folder / "test.json").exists():
            api.train(options.config, options.env_config, run=str(folder), seed=seed, **settings)
        folders.append(folder)
    return folders


def tested(folders: list[Path]) -> dict[str, Any]:
    """Return and length of every seed in every mode, from the runs' own test."""
    found: dict[str, Any] = {}
    for mode in ("held_out", "FB", "NX_0", "NX_10"):
        scores = [json.loads((folder / "test.json").read_text())[mode] for folder in folders]
        rows = [{name: score[name]["mean"] for name in ("return", "length")} for score in scores]
        found[mode] = {"seeds": rows, **over_seeds(rows)}
    return found


def page(out: Path) -> str:
    """The page of a result: its words, then its tables."""
    record = json.loads(out.with_suffix(".json").read_text())
    runs = tuple(record.get("runs", ("td3_rec",)))
    found = Standings(runs, record.get("real", {}), record["standings"], record.get("answers", []))
    return f"{out.with_suffix('.txt').read_text()}\n{text(found)}\n"


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("--config", default="td3_rec")
    typed.add_argument("--env-config", default="coat")
    typed.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    typed.add_argument("--runs", default="runs/recsys", help="where run directories are kept")
    typed.add_argument("--out", type=Path, required=True)
    typed.add_argument("--note", default="", help="a sentence for the page")
    typed.add_argument("--page", action="store_true", help="only write the page of OUT.json again")
    typed.add_argument("settings", nargs="*")
    options = typed.parse_args()
    if options.page:
        options.out.with_suffix(".md").write_text(page(options.out))
        return
    torch.set_num_threads(1)
    settings = {word.partition("=")[0]: parse_value(word.partition("=")[2]) for word in options.settings}
    folders = trained(options, settings)
    scores = tested(folders)
    world = load(options.config, options.env_config, **settings).config.env_args
    standings = stand(own_settings(UsersConfig, world), folders, 3)
    seeds = " ".join(map(str, options.seeds))
    command = f"python benchmarks/recsys.py --env-config={options.env_config} --seeds {seeds}"
    command += f" --out=benchmarks/results/recsys/{options.out.name}"
    command = " ".join([command, *options.settings])
    record = {
        "provenance": provenance(command),
        "settings": settings,
        "runs": standings.runs,
        "td3_rec": scores,
        "answers": standings.answers,
        "real": standings.real,
        "standings": standings.simulated,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps(record, indent=1))
    options.out.with_suffix(".txt").write_text(f"`{command}`\n\n{options.note}\n")
    options.out.with_suffix(".md").write_text(page(options.out))
    draw(standings.simulated, options.out.with_suffix(".png"))
    for mode, score in scores.items():
        print(f"{mode:<9} return {score['return']['mean']:.2f} ± {score['return']['half']:.2f}")


if __name__ == "__main__":
    main()
