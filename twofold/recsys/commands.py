"""The domain's commands: fit, recommend, standings, ope."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from twofold.base.errors import UserError
from twofold.settings.config import layers_for, own_settings, resolve
from twofold.settings.presets import parse_value


def fit(argv: list[str]) -> int:
    """Learn the users of a data set and say how well."""
    typed = _parser(
        "fit",
        "Learn simulated users from logged ratings; `twofold train` does it by itself when it is missing.",
        """examples:
  twofold fit --env-config=coat --run=runs/coat_users
  twofold fit --env-config=ratings env_args.path=my.csv env_args.model.kind=deepfm
then: twofold train --config=td3_rec --env-config=coat env_args.user_model=runs/coat_users""",
    )
    typed.add_argument("--env-config", default="synthetic_users", help="the data (default synthetic_users)")
    typed.add_argument("--run", help="directory to put the model into")
    typed.add_argument("settings", nargs="*", help="key=value")
    options, extra = typed.parse_known_args(argv)
    from twofold.recsys import user_model as user_models
    from twofold.recsys.worlds import dataset, model_folder

    cfg = _users_config(options.env_config, [*options.settings, *extra])
    data = dataset(cfg.data, cfg.path, cfg.synthetic, cfg.holdout)
    folder = Path(options.run) if options.run else model_folder(data, cfg.model)
    if data.report is not None:
        print(data.report.text())
    model = user_models.fit(data, cfg.model)
    user_models.save(model, folder)
    print(
        f"{data.name}: {data.users} users, {data.items} items, {len(data.train)} ratings; model: {model.kind}"
    )
    for part, values in model.report.items():
        print(f"{part:<8} " + "  ".join(f"{name} {value:.3f}" for name, value in values.items()))
    print(f"kept in  {folder}")
    return 0


def recommend(argv: list[str]) -> int:
    """Ask a trained policy for items."""
    typed = _parser(
        "recommend",
        "The items that a trained policy would show next: value, expected rating, and the reason.",
        """examples:
  twofold recommend --run runs/coat/td3_rec_seed0 --user 17 -k 10
  twofold recommend --run runs/coat/td3_rec_seed0 --history 12=5 40=2 77
  twofold recommend --run runs/coat/td3_rec_seed0 --reachability""",
    )
    typed.add_argument("--run", required=True, help="run directory or policy file")
    typed.add_argument("--user", help="as named in the data; absent or unknown: an average user")
    typed.add_argument("-k", type=int, default=10, help="how many items (default 10)")
    typed.add_argument(
        "--history", nargs="*", default=[], metavar="ITEM[=RATING]", help="what was shown before"
    )
    typed.add_argument("--repeats", action="store_true", help="items of the history may come again")
    typed.add_argument(
        "--reachability",
        action="store_true",
        help="only say which share of the catalogue can be chosen at all",
    )
    options = typed.parse_args(argv)
    from twofold.recsys.recommend import load_recommender

    if options.reachability:
        print(load_recommender(options.run).reachability())
        return 0
    history = [_rated(entry) for entry in options.history]
    policy = load_recommender(options.run)
    found = policy.recommend(history=history, k=options.k, user=options.user, repeats=options.repeats)
    print(f"{'item':<28} {'value':>7} {'expected rating':>16}  because of")
    for entry in found:
        print(
            f"{entry.name:<28} {entry.value:7.3f} {entry.expected_rating:16.2f}  {', '.join(entry.reasons)}"
        )
    return 0


def standings(argv: list[str]) -> int:
    """Trained runs beside all baselines."""
    typed = _parser(
        "standings",
        "Trained policies beside all baselines, on the true users, in the modes FB, NX_0 and NX_10.",
        """examples:
  twofold standings --env-config=coat
  twofold standings --env-config=coat --runs runs/coat/td3_rec_seed* --out=coat_standings
a star marks baselines that look at the truth""",
    )
    typed.add_argument("--env-config", default="synthetic_users")
    typed.add_argument(
        "--runs", nargs="*", default=[], help="run directories; seeds of one kind become one line"
    )
    typed.add_argument("--seeds", type=int, default=3, help="seeds of the random baselines (default 3)")
    typed.add_argument("--out", help="also write OUT.md, OUT.json and OUT.png")
    typed.add_argument("settings", nargs="*", help="key=value")
    options, extra = typed.parse_known_args(argv)
    from twofold.recsys.standings import COLUMNS, draw, reaches, table, text, write

    cfg = _users_config(options.env_config, [*options.settings, *extra])
    runs = [Path(run) for run in options.runs]
    found, reached = table(cfg, runs, options.seeds), reaches(runs)
    print(text(found, COLUMNS, reached))
    if options.out:
        write(found, reached, Path(options.out))
        draw(found, Path(options.out).with_suffix(".png"))
    return 0


def ope(argv: list[str]) -> int:
    """Value of a policy's first recommendation from logged propensities."""
    typed = _parser(
        "ope",
        "Off-policy estimates (IPS, self-normalised, doubly robust) of the rating of the first item.",
        "example: twofold ope --run runs/coat/td3_rec_seed0 --epsilon=0.1",
    )
    typed.add_argument("--run", required=True, help="run directory or policy file")
    typed.add_argument(
        "--epsilon", type=float, default=0.1, help="share of random items in the judged policy"
    )
    options = typed.parse_args(argv)
    from twofold.recsys.ope import estimates, softened
    from twofold.recsys.recommend import load_recommender
    from twofold.recsys.worlds import UsersConfig, prepare

    policy = load_recommender(options.run)
    data, model, _ = prepare(own_settings(UsersConfig, policy.loaded.config.env_args))
    items = policy.first_items()
    for name, found in estimates(data, softened(items, data.items, options.epsilon), model.mean).items():
        print(f"{name:<6} {found.text()}")
    return 0


def _parser(name: str, about: str, examples: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"twofold {name}",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _users_config(env_config: str, words: list[str]) -> Any:
    """The world's settings from a preset and key=value words."""
    from twofold.recsys.worlds import UsersConfig

    settings = {}
    for word in words:
        key, equals, text = word.removeprefix("--").partition("=")
        if not equals:
            raise UserError(f"'{word}' is not a setting: write key=value")
        settings[key] = parse_value(text)
    cfg = resolve(layers_for("td3_rec", env_config, settings)).config.env_args
    if not isinstance(cfg, UsersConfig):
        raise UserError(f"--env-config={env_config} is not a world of users (recsys/users)")
    return cfg


def _rated(entry: str) -> Any:
    """An item, or (item, rating) from ITEM=RATING."""
    name, equals, rating = entry.partition("=")
    if not equals:
        return name
    try:
        return name, float(rating)
    except ValueError:
        raise UserError(f"'{entry}': the rating after = must be a number") from None
