"""Commands of the team domain: partner sets, cross-play, mixed teams, and PyMARL's command line."""

from __future__ import annotations

import csv
import io
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.base.errors import ConfigError, UserError
from twofold.base.messages import printable
from twofold.base.signals import Stopped
from twofold.settings.config import layers_for, resolve
from twofold.settings.imports import import_user_code
from twofold.store import files
from twofold.team import menu
from twofold.team.sets import PartnerSet, parse_team, read_partners
from twofold.team.worlds.space import Values

if TYPE_CHECKING:
    from twofold.team.crossplay import CrossPlay
    from twofold.team.partners import Population

log = logging.getLogger("twofold")


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise UserError(f"{option} takes whole numbers separated by commas, got '{text}'") from None


def make(asked: menu.Make) -> int:
    """Train a population; stopped, the same command goes on."""
    from twofold.team.partners import Population

    if asked.env_config is None:
        raise UserError("partners need a world to play in: --env-config=NAME (twofold list)")
    wanted = Population(
        asked.folder,
        asked.env_config,
        _words(asked.algs),
        _numbers(asked.seeds, "--seeds"),
        asked.checkpoints,
        asked.settings,
    )
    if asked.jobs > 1 or asked.on != "here":
        return _make_by_jobs(wanted, asked)
    try:
        wanted.train(log.info)
    except Stopped as stopped:
        print(f"{stopped}; everything is saved: the same command continues", file=sys.stderr)
        return stopped.exit_code
    return 0 if asked.train_only else _say_made(wanted.write())


def _make_by_jobs(wanted: Population, asked: menu.Make) -> int:
    """The same with several trainings at a time; the set is written when all are done."""
    from twofold.jobs.watch import shown_here
    from twofold.team.members import train_members

    with shown_here() as view:
        outcome = train_members(wanted, view, jobs=asked.jobs, on=asked.on)
    if outcome.signal is not None:
        print("stopped; everything is saved: the same command continues", file=sys.stderr)
        return 128 + outcome.signal
    for progress in outcome.failed:
        print(f"failed     {progress.job.name}: {progress.message}", file=sys.stderr)
    return _say_made(wanted.write()) if outcome.done else 1


def gather(asked: menu.Gather) -> int:
    """A set of policies that are there already."""
    from twofold.team.partners import gather_population

    return _say_made(gather_population(asked.folder, list(asked.runs)))


def _say_made(made: PartnerSet) -> int:
    print(f"{len(made.partners)} partners, version {made.about.version}: {made.folder / 'partners.json'}")
    return 0


def split(asked: menu.Split) -> int:
    """Declare train and test partners."""
    from twofold.team.partners import split_partners

    found = read_partners(asked.folder)
    seeds = _numbers(asked.test_seeds, "--test-seeds")
    made = split_partners(found, test_algorithms=_words(asked.test_algs), test_seeds=seeds)
    print(f"train {len(made.train)}: {', '.join(made.train)}\ntest  {len(made.test)}: {', '.join(made.test)}")
    return 0


def show(asked: menu.ShowSet) -> int:
    """Who is in a set."""
    from twofold.team.crossplay import kind_of

    found = read_partners(asked.folder)
    about = found.about
    print(printable(f"{found.folder}  version {about.version}  {about.world} {about.world_args}"))
    for partner in found.partners:
        print(printable(f"  {partner.name:<24} {partner.algorithm:<10} {kind_of(found, partner.name)}"))
    return 0


def eval_partners(asked: menu.CrossPlayed) -> int:
    """twofold eval RUN ... --partners=SET: cross-play with every partner, as table, heat map and curves."""
    from twofold.assemble import first_seed
    from twofold.show.panels import write_panel
    from twofold.store.policy_file import load_policy
    from twofold.team.crossplay import cross_play, draw_adaptation, draw_cross_play
    from twofold.team.panels import cross_play_panel

    import_user_code(asked.import_)
    found = read_partners(Path(str(asked.partners)))
    named = {_label(path): load_policy(path) for path in asked.policies}
    policies = named or {partner.name: partner.load() for partner in found.partners}
    first_seed(asked.seed)
    how = {"episodes": asked.episodes, "seed": asked.seed, "seats": asked.seats}
    played = cross_play(found, policies, **how, metric=asked.metric)
    files.own_folder(asked.out, "cross_play.*", "adaptation.png")
    _write_table(asked.out / "cross_play.csv", played)
    draw_cross_play(played, asked.out / "cross_play.png")
    draw_adaptation(played.curves, asked.out / "adaptation.png")
    if asked.panel:
        write_panel(asked.panel, "cross_play", cross_play_panel(played))
    _print_table(played)
    print(f"table      {asked.out / 'cross_play.csv'}\nheat map   {asked.out / 'cross_play.png'}")
    print(f"adaptation {asked.out / 'adaptation.png'}")
    return 0


def eval_script(asked: menu.Scripted) -> int:
    """twofold eval --policy=script/focus --env-config=skirmish: what a policy that nobody trained reaches."""
    from twofold.assemble import first_seed
    from twofold.team.scripts import score_script

    if asked.env_config is None:
        raise UserError("a script needs a world to play in: --env-config=NAME (twofold list)")
    first_seed(asked.seed)
    config = resolve(layers_for(None, asked.env_config, asked.settings)).config
    for world, scores in score_script(str(asked.policy), config, asked.episodes, asked.seed).items():
        headline = config.trainer.headline
        for name in sorted(scores, key=lambda name: name != headline):  # what the world is about comes first
            of = scores[name]
            print(
                f"{world:<10} {name:<12} {of['mean']:8.3f}  95 % interval [{of['low']:.3f}, {of['high']:.3f}]"
            )
    return 0


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
