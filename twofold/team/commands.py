"""Commands of the team domain: partner sets, cross-play, mixed teams, and PyMARL's command line."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.base.errors import ConfigError, UserError
from twofold.base.messages import printable
from twofold.base.signals import Stopped
from twofold.settings.config import layers_for, resolve
from twofold.settings.presets import parse_value
from twofold.store import files
from twofold.team.sets import PartnerSet, parse_team, read_partners
from twofold.team.worlds.space import Values

if TYPE_CHECKING:
    from twofold.team.crossplay import CrossPlay


def partners(argv: list[str]) -> int:
    """twofold partners make | gather | split | show."""
    parser = _parser()
    chosen, rest = parser.parse_known_args(argv)
    if rest and (chosen.verb != "make" or any("=" not in word for word in rest)):
        parser.error(f"what is '{rest[0]}'? (settings of the trainings are written key=value)")
    chosen.settings = rest
    return {"make": _make, "gather": _gather, "split": _split, "show": _show}[chosen.verb](chosen)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="twofold partners",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Populations of fixed partners: train and version them, declare who is met when.",
        epilog="""examples:
  twofold partners make sets/lbf --env-config=lbf --algs=iql,vdn,qmix --seeds=0,1,2 --checkpoints=2 steps=300_000
  twofold partners gather sets/mine runs/lbf/iql_seed0 runs/lbf/vdn_seed0
  twofold partners split sets/lbf --test-algs=qmix --test-seeds=2
  twofold partners show sets/lbf
  twofold train --config=iql_omg --env-config=partnered env_args.partners=sets/lbf
  twofold eval runs/partnered/iql_omg_seed0 --partners=sets/lbf --episodes=50""",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser(
        "make", help="train algorithms x seeds and keep policies along the way (+ key=value ...)"
    )
    make.add_argument("folder", type=Path)
    make.add_argument("--env-config", required=True)
    make.add_argument("--algs", default="iql,vdn,qmix")
    make.add_argument("--seeds", default="0,1,2")
    make.add_argument("--checkpoints", type=int, default=1)
    gather = verbs.add_parser("gather", help="the best policies of finished runs as a set")
    gather.add_argument("folder", type=Path)
    gather.add_argument("runs", type=Path, nargs="+")
    split = verbs.add_parser("split", help="declare train and test partners")
    split.add_argument("folder", type=Path)
    split.add_argument("--test-algs", default="", help="algorithms met in tests only (non-homologue)")
    split.add_argument("--test-seeds", default="", help="seeds met in tests only (homologue)")
    show = verbs.add_parser("show", help="who is in the set")
    show.add_argument("folder", type=Path)
    return parser


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise UserError(f"{option} takes whole numbers separated by commas, got '{text}'") from None


def _make(chosen: argparse.Namespace) -> int:
    from twofold.team.partners import make_population

    if chosen.checkpoints < 1:
        raise UserError(f"--checkpoints is at least 1, got {chosen.checkpoints}")
    try:
        made = make_population(
            chosen.folder,
            chosen.env_config,
            algorithms=_words(chosen.algs),
            seeds=_numbers(chosen.seeds, "--seeds"),
            checkpoints=chosen.checkpoints,
            settings=_settings(chosen.settings),
            say=print,
        )
    except Stopped as stopped:
        print(f"{stopped}; everything is saved: the same command goes on", file=sys.stderr)
        return stopped.exit_code
    return _say_made(made)


def _gather(chosen: argparse.Namespace) -> int:
    from twofold.team.partners import gather_population

    return _say_made(gather_population(chosen.folder, chosen.runs))


def _say_made(made: PartnerSet) -> int:
    print(f"{len(made.partners)} partners, version {made.about.version}: {made.folder / 'partners.json'}")
    return 0


def _split(chosen: argparse.Namespace) -> int:
    from twofold.team.partners import split_partners

    found = read_partners(chosen.folder)
    seeds = _numbers(chosen.test_seeds, "--test-seeds")
    made = split_partners(found, test_algorithms=_words(chosen.test_algs), test_seeds=seeds)
    print(f"train {len(made.train)}: {', '.join(made.train)}\ntest  {len(made.test)}: {', '.join(made.test)}")
    return 0


def _show(chosen: argparse.Namespace) -> int:
    from twofold.team.crossplay import kind_of

    found = read_partners(chosen.folder)
    about = found.about
    print(printable(f"{found.folder}  version {about.version}  {about.world} {about.world_args}"))
    for partner in found.partners:
        print(printable(f"  {partner.name:<24} {partner.algorithm:<10} {kind_of(found, partner.name)}"))
    return 0


def eval_partners(argv: list[str]) -> int:
    """twofold eval RUN ... --partners=SET: cross-play with every partner, as table, heat map and curves."""
    from twofold.show.panels import write_panel
    from twofold.store.policy_file import load_policy
    from twofold.team.crossplay import cross_play, draw_adaptation, draw_cross_play
    from twofold.team.panels import cross_play_panel

    chosen = _eval_options(argv)
    found = read_partners(chosen.partners)
    named = {_label(path): load_policy(path) for path in chosen.policies}
    policies = named or {partner.name: partner.load() for partner in found.partners}
    how = {"episodes": chosen.episodes, "seed": chosen.seed, "seats": chosen.seats}
    played = cross_play(found, policies, **how, metric=chosen.metric)
    files.own_folder(chosen.out, "cross_play.*", "adaptation.png")
    _write_table(chosen.out / "cross_play.csv", played)
    draw_cross_play(played, chosen.out / "cross_play.png")
    draw_adaptation(played.curves, chosen.out / "adaptation.png")
    if chosen.panel:
        write_panel(chosen.panel, "cross_play", cross_play_panel(played))
    _print_table(played)
    print(f"table      {chosen.out / 'cross_play.csv'}\nheat map   {chosen.out / 'cross_play.png'}")
    print(f"adaptation {chosen.out / 'adaptation.png'}")
    return 0


def _eval_options(argv: list[str]) -> argparse.Namespace:
    from twofold.assemble import first_seed

    parser = argparse.ArgumentParser(prog="twofold eval", description="Play with every partner of a set.")
    parser.add_argument(
        "policies", nargs="*", help="runs or policy files; none: the partners among themselves"
    )
    parser.add_argument("--partners", type=Path, required=True)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--seed", type=int, default=3_000_000)
    parser.add_argument("--seats", type=int, default=1, help="seats of the evaluated policy")
    parser.add_argument(
        "--metric", help="what the table shows: battle_won where there are battles, else return"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("cross_play"), help="folder for the table and pictures"
    )
    parser.add_argument("--panel", type=Path, metavar="RUN", help="also show the heat map on RUN's page")
    chosen = parser.parse_args(argv)
    if chosen.episodes < 1:
        raise UserError("--episodes is at least 1")
    first_seed(chosen.seed)
    return chosen


def eval_script(argv: list[str]) -> int:
    """twofold eval --policy=script/focus --env-config=skirmish: what a policy that nobody trained reaches."""
    from twofold.assemble import first_seed
    from twofold.team.scripts import SCRIPTS, score_script

    about = "\n".join(f"  {name:<18} {line}" for name, (_, line) in SCRIPTS.items())
    parser = argparse.ArgumentParser(
        prog="twofold eval",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Score a policy that nobody trained (+ settings of the world: key=value ...).",
        epilog=f"policies:\n{about}",
    )
    parser.add_argument("--policy", required=True)
    parser.add_argument("--env-config", required=True)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3_000_000)
    chosen, rest = parser.parse_known_args(argv)
    if any("=" not in word for word in rest):
        parser.error(f"what is '{rest[0]}'? (settings are written key=value)")
    if chosen.episodes < 1:
        raise UserError("--episodes is at least 1")
    first_seed(chosen.seed)
    config = resolve(layers_for(None, chosen.env_config, _settings(rest))).config
    for world, scores in score_script(chosen.policy, config, chosen.episodes, chosen.seed).items():
        headline = config.trainer.headline
        for name in sorted(scores, key=lambda name: name != headline):  # what the world is about comes first
            of = scores[name]
            print(
                f"{world:<10} {name:<12} {of['mean']:8.3f}  95 % interval [{of['low']:.3f}, {of['high']:.3f}]"
            )
    return 0


def _settings(words: list[str]) -> Values:
    pairs = (word.partition("=") for word in words)
    return {key.lstrip("-"): parse_value(value) for key, _, value in pairs}


def _label(path: str) -> str:
    return Path(path).parent.name if path.endswith(".safetensors") else Path(path).name


def _write_table(path: Path, played: CrossPlay) -> None:
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(["policy", "partner", "kind", played.metric, "low_95", "high_95"])
    for i, row in enumerate(played.policies):
        for j, column in enumerate(played.partners):
            cells = (values[i, j] for values in (played.mean, played.low, played.high))
            table.writerow([row, column, played.kinds[j], *(f"{cell:.6g}" for cell in cells)])
    files.replace_bytes(path, text.getvalue().encode(errors="replace"))


def _print_table(played: CrossPlay) -> None:
    width = max(map(len, [*played.partners, "00.00 (00.00 to 00.00)"])) + 1
    print(f"{played.metric:<26}" + "".join(f"{column:>{width}}" for column in played.partners))
    print(" " * 26 + "".join(f"{kind:>{width}}" for kind in played.kinds))
    for i, row in enumerate(played.policies):
        cells = (
            f"{played.mean[i, j]:.2f} ({played.low[i, j]:.2f} to {played.high[i, j]:.2f})"
            for j in range(len(played.partners))
        )
        print(f"{row[-25:]:<26}" + "".join(f"{cell:>{width}}" for cell in cells))


def mixed_team(options: dict[str, str], settings: Values) -> tuple[dict[str, str], Values]:
    """--multi_algs --config=4iql3qmix1iql_omg --train_alg=iql_omg --partners=SET as an ordinary training."""
    team = parse_team(options.get("config", ""))
    trained = options.get("train-alg") or team[-1][1]
    seats = sum(count for count, name in team if name == trained)
    if seats == 0:
        raise ConfigError(f"--train_alg={trained} is not in the team {options['config']}")
    if "partners" not in options:
        raise ConfigError("a mixed team needs its frozen members: --partners=SET (twofold partners make)")
    rest = "".join(f"{count}{name}" for count, name in team if name != trained)
    inner = {key[len("env_args.") :]: value for key, value in settings.items() if key.startswith("env_args.")}
    kept = {k: v for k, v in settings.items() if not k.startswith("env_args.") and k != "mac"}
    world = resolve(
        layers_for(
            trained, options.get("env-config", "skirmish"), {f"env_args.{k}": v for k, v in inner.items()}
        )
    )
    check_team(
        team, world.config.env, {k[9:]: v for k, v in world.values.items() if k.startswith("env_args.")}
    )
    arguments = {
        f"env_args.world_args.{k[9:]}": v for k, v in world.values.items() if k.startswith("env_args.")
    }
    where = {
        "env_args.world": world.config.env,
        "env_args.partners": options["partners"],
        "env_args.team": rest,
    }
    used = {"multi-algs", "train-alg", "partners"}
    options = {k: v for k, v in options.items() if k not in used} | {
        "config": trained,
        "env-config": "partnered",
    }
    return options, arguments | where | {"env_args.seats": seats} | kept


def check_team(team: list[tuple[int, str]], world: str, world_args: Values) -> None:
    """Refuse a team whose members are not as many as the world has seats."""
    from twofold.team.worlds.partnered import inner_world
    from twofold.team.worlds.space import shape_of

    made = inner_world(world, world_args, 1, "train")
    agents, members = shape_of(made.single_observation_space).agents, sum(count for count, _ in team)
    made.close()
    if members != agents:
        text = "".join(f"{count}{name}" for count, name in team)
        raise ConfigError(f"the team {text} has {members} members, this world has {agents} agents")
