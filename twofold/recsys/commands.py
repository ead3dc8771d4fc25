"""The domain's commands: fit, recommend, serve, standings, ope."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from twofold.base.errors import MissingPackage, UserError
from twofold.base.regular import is_there
from twofold.recsys import menu
from twofold.settings.config import layers_for, own_settings, resolve
from twofold.store import files

if TYPE_CHECKING:
    from twofold.recsys.asking import Entry, Recommendation
    from twofold.recsys.config import UsersConfig
    from twofold.recsys.recommend import Recommender
    from twofold.recsys.standings import Standings


def fit(asked: menu.Fit) -> int:
    """Learn the users of a data set and say how well."""
    from twofold.base.progress import task
    from twofold.recsys.prepare import Source, dataset, fit_into, model_folder

    cfg = _users_config(asked.env_config, asked.settings)
    with task("reading the ratings"):
        data = dataset(Source.of(cfg))
    folder = asked.run or model_folder(data, cfg.model)
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


def recommend(asked: menu.Recommend) -> int:
    """Ask a trained policy for items."""
    from twofold.recsys.recommend import load_recommender

    policy = load_recommender(_run_of(asked))
    if asked.data:
        _update(policy, asked.data)
    if asked.reachability:
        print(policy.reachability())
    elif asked.export:
        from twofold.recsys.export import write_actor

        print(write_actor(policy, asked.export))
    elif asked.everyone:
        _write_lists(policy, asked, asked.everyone)
    else:
        history = [_rated(entry) for entry in asked.history]
        flags = {"repeats": asked.repeats, "rated": asked.rated}
        found = policy.recommend(history=history, k=asked.k, user=asked.user, by=asked.by, **flags)
        if asked.panel:
            from twofold.recsys.panels import user_panel
            from twofold.show.panels import write_panel

            write_panel(Path(_run_of(asked)), "user", user_panel(policy, history, found, asked.user))
        _print_items(policy, found, asked)
    return 0


def serve(asked: menu.Serve) -> int:
    """Answer questions over HTTP."""
    try:
        from twofold.recsys.server import serve as serve_policy
    except ModuleNotFoundError as error:
        raise MissingPackage(error.name or "starlette", "serve", "serving over HTTP") from None
    from twofold.recsys.recommend import load_recommender

    policy = load_recommender(_run_of(asked))
    policy.check_ranking(asked.by)
    if asked.data:
        _update(policy, asked.data)
    print(f"{len(policy.labels.users)} users, {len(policy.labels.items)} items of {policy.loaded.source}")
    offers = "(page), /recommend, /feedback, /health, /openapi.json; Ctrl-C ends"
    serve_policy(
        policy, asked.host, asked.port, lambda place: print(f"{place}  {offers}", flush=True), asked.by
    )
    return 0


def _update(policy: Recommender, path: Path) -> None:
    """Tell a policy which items there are today, and say what is new or gone."""
    from twofold.recsys.loaders import load

    print(policy.update(load("ratings", path).train).text())


def _write_lists(policy: Recommender, asked: menu.Recommend, path: Path) -> None:
    """One line for each user and place: user, place, item, value, expected rating."""
    import torch

    torch.set_num_threads(1)  # the products are small: a second thread mostly waits
    users = policy.labels.users
    found = policy.recommend_many(users, asked.k, rated=asked.rated, by=asked.by)
    text = io.StringIO(newline="")
    lines = csv.writer(text)
    lines.writerow(["user", "place", "item", "value", "expected_rating"])
    for row, user in enumerate(users):
        for place, item in enumerate(found.items[row].tolist()):
            if item >= 0:
                numbers = f"{found.values[row, place]:.4f}", f"{found.expected[row, place]:.3f}"
                lines.writerow([user, place + 1, policy.labels.items[item], *numbers])
    files.replace_bytes(path, text.getvalue().encode(errors="replace"))
    print(f"{asked.k} items for each of {len(users)} users in {path}")


def _print_items(policy: Recommender, found: list[Recommendation], asked: menu.Recommend) -> None:
    """A table, and beneath it what was left out; a column that would be empty is not shown."""
    counts, labels = policy.popularity(), policy.labels
    why = "  because of" if any(entry.reasons for entry in found) else ""
    wide = max([28, *(len(entry.title) for entry in found)])
    print(f"{'item':<{wide}} {'value':>7} {f'expected of {labels.high:g}':>14} {'rated by':>9}{why}")
    for entry in found:
        line = (
            f"{entry.title:<{wide}} {entry.value:7.3f} {entry.expected_rating:14.2f} {counts[entry.item]:9d}"
        )
        print(f"{line}  {', '.join(entry.reasons)}".rstrip())
    if asked.user is not None and policy.knows(asked.user) and not asked.rated:
        print("items that the user has rated are left out (--rated keeps them)")


class _Policy(Protocol):
    """What commands that take one policy are asked."""

    @property
    def policy(self) -> str | None: ...
    @property
    def run(self) -> str | None: ...


def _run_of(asked: _Policy) -> str:
    """The run that was named, either way."""
    if (asked.policy is None) == (asked.run is None):
        raise UserError("one run directory or policy file is needed: twofold COMMAND RUN")
    return str(asked.policy or asked.run)


def standings(asked: menu.Standings) -> int:
    """Trained runs beside all baselines."""
    from twofold.recsys.standings import standings as stand

    runs = [*asked.places, *asked.runs]
    for run in runs:
        if not is_there(run):
            raise UserError(f"no run {run}")
    cfg = _users_config(asked.env_config, asked.settings)
    if asked.part is not None:
        from twofold.recsys.evaluations import Evaluator
        from twofold.recsys.parts import make_part

        make_part(asked, Evaluator(cfg, runs, asked.seeds))
        return 0
    if asked.jobs > 1 or asked.on != "here":
        return _standings_by_jobs(asked, cfg)
    _show(stand(cfg, runs, asked.seeds), asked)
    return 0


def _standings_by_jobs(asked: menu.Standings, cfg: UsersConfig) -> int:
    """The same with several processes that evaluate; the table is made when all are done."""
    from twofold.jobs.watch import shown_here
    from twofold.recsys.parts import Parts, Stopped
    from twofold.recsys.standings import standings as stand

    try:
        with shown_here() as view:
            found = stand(cfg, [*asked.places, *asked.runs], asked.seeds, Parts(asked, view))
    except Stopped as stopped:
        for why in dict.fromkeys(progress.message for progress in stopped.outcome.failed):
            print(f"failed     {why}", file=sys.stderr)
        if stopped.outcome.signal is None:
            return 1
        print("stopped: evaluations that are done are kept; the same command continues", file=sys.stderr)
        return 128 + stopped.outcome.signal
    _show(found, asked)
    return 0


def _show(found: Standings, asked: menu.Standings) -> None:
    from twofold.recsys.standings import draw, text, write

    print(text(found))
    if asked.out:
        write(found, asked.out)
        draw(found.simulated, asked.out.with_suffix(".png"))


def ope(asked: menu.Ope) -> int:
    """Value of a policy's first recommendation from logged propensities."""
    from twofold.recsys.config import UsersConfig
    from twofold.recsys.ope import estimates, first_items, softened
    from twofold.recsys.prepare import prepare
    from twofold.store.policy_file import load_policy

    loaded = load_policy(_run_of(asked))
    data, model, _ = prepare(own_settings(UsersConfig, loaded.config.env_args))
    items = first_items(loaded, data.users)
    for name, found in estimates(data, softened(items, data.items, asked.epsilon), model.mean).items():
        print(f"{name:<6} {found.text()}")
    return 0


def _users_config(env_config: str, settings: dict[str, object]) -> UsersConfig:
    """The world's settings from a preset and what was typed."""
    from twofold.recsys.config import UsersConfig

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
