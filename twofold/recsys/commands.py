"""The domain's commands: fit, recommend, serve, standings, ope."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.base.errors import MissingPackage, UserError
from twofold.base.regular import is_there
from twofold.settings.config import layers_for, own_settings, resolve
from twofold.settings.presets import parse_value
from twofold.store import files

if TYPE_CHECKING:
    from twofold.recsys.asking import Entry, Recommendation
    from twofold.recsys.config import UsersConfig
    from twofold.recsys.recommend import Recommender


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
    from twofold.recsys.prepare import Source, dataset, fit_into, model_folder

    cfg = _users_config(options.env_config, [*options.settings, *extra])
    data = dataset(Source.of(cfg))
    folder = Path(options.run) if options.run else model_folder(data, cfg.model)
    if data.report is not None:
        print(data.report.text())
    model = fit_into(folder, data, cfg.model)
    print(
        f"{data.name}: {data.users} users, {data.items} items, {len(data.train)} ratings; model: {model.kind}"
    )
    for part, values in model.report.items():
        print(f"{part:<8} " + "  ".join(f"{name} {value:.3f}" for name, value in values.items()))
    print(f"kept in  {folder}")
    return 0


def recommend(argv: list[str]) -> int:
    """Ask a trained policy for items."""
    options = _recommend_parser().parse_args(argv)
    from twofold.recsys.recommend import load_recommender

    policy = load_recommender(_run_of(options))
    if options.data:
        _update(policy, Path(options.data))
    if options.reachability:
        print(policy.reachability())
    elif options.everyone:
        _write_lists(policy, options.k, options.rated, Path(options.everyone))
    else:
        history = [_rated(entry) for entry in options.history]
        flags = {"repeats": options.repeats, "rated": options.rated}
        found = policy.recommend(history=history, k=options.k, user=options.user, **flags)
        if options.panel:
            from twofold.recsys.panels import user_panel
            from twofold.show.panels import write_panel

            write_panel(Path(_run_of(options)), "user", user_panel(policy, history, found, options.user))
        _print_items(policy, found, options)
    return 0


def serve(argv: list[str]) -> int:
    """Answer questions over HTTP."""
    typed = _parser(
        "serve",
        "A trained recommender over HTTP: /recommend, /feedback, /health, /openapi.json, and a page to try it.",
        """examples:
  twofold serve runs/coat/td3_rec_seed0
  curl 'http://127.0.0.1:8000/recommend?user=17&k=5'
  curl http://127.0.0.1:8000/recommend -d '{"history": [{"item": "12", "rating": 5}], "k": 5}'
  curl http://127.0.0.1:8000/feedback -d '{"user": "17", "item": "40", "rating": 2}'""",
    )
    _add_run(typed)
    typed.add_argument("--host", default="127.0.0.1", help="0.0.0.0: for everybody (default 127.0.0.1)")
    typed.add_argument("--port", type=int, default=8000, help="(default 8000)")
    typed.add_argument("--data", metavar="FILE", type=Path, help="today's ratings, mapped by name")
    options = typed.parse_args(argv)
    try:
        from twofold.recsys.server import serve as serve_policy
    except ModuleNotFoundError as error:
        raise MissingPackage(error.name or "starlette", "serve", "serving over HTTP") from None
    from twofold.recsys.recommend import load_recommender

    policy = load_recommender(_run_of(options))
    if options.data:
        _update(policy, options.data)
    print(f"{len(policy.labels.users)} users, {len(policy.labels.items)} items of {policy.loaded.source}")
    place = f"http://{options.host}:{options.port}/"
    print(f"{place}  (page), /recommend, /feedback, /health, /openapi.json; Ctrl-C ends", flush=True)
    serve_policy(policy, options.host, options.port)
    return 0


def _recommend_parser() -> argparse.ArgumentParser:
    typed = _parser(
        "recommend",
        "The items that a trained policy would show next: value, expected rating, and the reason. The policy file is "
        "all it needs.",
        """examples:
  twofold recommend runs/coat/td3_rec_seed0 --user 17 -k 10
  twofold recommend runs/coat/td3_rec_seed0 --history 12=5 40=2 77
  twofold recommend runs/coat/td3_rec_seed0 --everyone=lists.csv
  twofold recommend runs/coat/td3_rec_seed0 --reachability""",
    )
    _add_run(typed)
    typed.add_argument("--user", help="as named in the data; absent or unknown: an average user")
    typed.add_argument("-k", type=int, default=10, help="how many items (default 10)")
    typed.add_argument(
        "--history", nargs="*", default=[], metavar="ITEM[=RATING]", help="what was shown before"
    )
    typed.add_argument("--repeats", action="store_true", help="items of the history may come again")
    typed.add_argument(
        "--rated", action="store_true", help="items that the user rated in the data may come again"
    )
    typed.add_argument(
        "--data", metavar="FILE", help="today's ratings: new, gone and rated items, mapped by name"
    )
    typed.add_argument("--panel", action="store_true", help="also show the table on the run's page")
    typed.add_argument("--everyone", metavar="FILE.csv", help="write the lists of all users of the data")
    typed.add_argument(
        "--reachability",
        action="store_true",
        help="only say which share of the catalogue can be chosen at all",
    )
    return typed


def _update(policy: Recommender, path: Path) -> None:
    """Tell a policy which items there are today, and say what is new or gone."""
    from twofold.recsys.loaders import load

    print(policy.update(load("ratings", path).train).text())


def _write_lists(policy: Recommender, k: int, rated: bool, path: Path) -> None:
    """One line for each user and place: user, place, item, value, expected rating."""
    users = policy.labels.users
    found = policy.recommend_many(users, k, rated=rated)
    text = io.StringIO(newline="")
    lines = csv.writer(text)
    lines.writerow(["user", "place", "item", "value", "expected_rating"])
    for row, user in enumerate(users):
        for place, item in enumerate(found.items[row].tolist()):
            if item >= 0:
                numbers = f"{found.values[row, place]:.4f}", f"{found.expected[row, place]:.3f}"
                lines.writerow([user, place + 1, policy.labels.items[item], *numbers])
    files.replace_bytes(path, text.getvalue().encode(errors="replace"))
    print(f"{k} items for each of {len(users)} users in {path}")


def _print_items(policy: Recommender, found: list[Recommendation], options: argparse.Namespace) -> None:
    """A table, and beneath it what was left out; a column that would be empty is not shown."""
    counts, labels = policy.popularity(), policy.labels
    why = "  because of" if any(entry.reasons for entry in found) else ""
    print(f"{'item':<28} {'value':>7} {f'expected of {labels.high:g}':>14} {'rated by':>9}{why}")
    for entry in found:
        line = f"{entry.title:<28} {entry.value:7.3f} {entry.expected_rating:14.2f} {counts[entry.item]:9d}"
        print(f"{line}  {', '.join(entry.reasons)}".rstrip())
    if options.user is not None and policy.knows(options.user) and not options.rated:
        print("items that the user has rated are left out (--rated keeps them)")


def _add_run(typed: argparse.ArgumentParser) -> None:
    typed.add_argument("place", nargs="?", metavar="RUN", help="run directory or policy file")
    typed.add_argument("--run", help="the same")


def _run_of(options: argparse.Namespace) -> str:
    """The run that was named, either way."""
    if (options.place is None) == (options.run is None):
        raise UserError("one run directory or policy file is needed")
    return str(options.place or options.run)


def standings(argv: list[str]) -> int:
    """Trained runs beside all baselines."""
    typed = _parser(
        "standings",
        "Trained policies beside all others: on what users really did (hidden ratings), and in simulated episodes.",
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
    from twofold.recsys.standings import draw, text, write
    from twofold.recsys.standings import standings as stand

    for run in options.runs:
        if not is_there(run):
            raise UserError(f"no run {run}")
    cfg = _users_config(options.env_config, [*options.settings, *extra])
    found = stand(cfg, [Path(run) for run in options.runs], options.seeds)
    print(text(found))
    if options.out:
        write(found, Path(options.out))
        draw(found.simulated, Path(options.out).with_suffix(".png"))
    return 0


def ope(argv: list[str]) -> int:
    """Value of a policy's first recommendation from logged propensities."""
    typed = _parser(
        "ope",
        "Off-policy estimates (IPS, self-normalised, doubly robust) of the rating of the first item.",
        "example: twofold ope --run runs/coat/td3_rec_seed0 --epsilon=0.1",
    )
    _add_run(typed)
    typed.add_argument(
        "--epsilon", type=float, default=0.1, help="share of random items in the judged policy"
    )
    options = typed.parse_args(argv)
    from twofold.recsys.config import UsersConfig
    from twofold.recsys.ope import estimates, first_items, softened
    from twofold.recsys.prepare import prepare
    from twofold.store.policy_file import load_policy

    loaded = load_policy(_run_of(options))
    data, model, _ = prepare(own_settings(UsersConfig, loaded.config.env_args))
    items = first_items(loaded, data.users)
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


def _users_config(env_config: str, words: list[str]) -> UsersConfig:
    """The world's settings from a preset and key=value words."""
    from twofold.recsys.config import UsersConfig

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


def _rated(entry: str) -> Entry:
    """An item, or (item, rating) from ITEM=RATING."""
    name, equals, rating = entry.partition("=")
    if not equals:
        return name
    try:
        return name, float(rating)
    except ValueError:
        raise UserError(f"'{entry}': the rating after = must be a number") from None
