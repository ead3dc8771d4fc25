"""The domain's commands: what each asks for, and examples that work."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from twofold.base.command import Command, asks, option, place, settings_given

By = Literal["policy", "rating", "taken", "count"]
_RUN = "a run directory, or a policy file"
_SAME = "the same as RUN"
_BY = "who ranks: the policy, the highest expected rating, what is taken most likely, what most users rated"
_DATA = "today's ratings: new, gone and rated items, mapped by name"
_USERS = (
    ("env_args.path=my.csv", "your ratings, with --env-config=ratings: CSV or Parquet of user, item, rating"),
    ("env_args.columns={item: sku}", "what your columns are called, where names do not say it"),
    ("env_args.model.kind=deepfm", "how users are learned: auto, gaussian, factorised, deepfm"),
    ("env_args.split=time", "which ratings are hidden from the model: last, time, random"),
    ("env_args.holdout=0.2", "their share, for time and random"),
)


@asks
class Fit:
    env_config: str = option("the data", default="synthetic_users", metavar="NAME", kind="env-config")
    run: Path | None = option(
        "the folder that keeps the model (default runs/user_models/...)", default=None, metavar="DIR"
    )
    settings: dict[str, object] = settings_given(factory=dict)


@asks
class Recommend:
    policy: str | None = place(_RUN, "RUN", default=None, kind="run")
    run: str | None = option(_SAME, default=None, metavar="RUN", kind="run")
    user: str | None = option(
        "as named in the data; absent or unknown: an average user", default=None, metavar="NAME"
    )
    k: int = option("how many items", default=10, metavar="N", short="-k", least=1)
    history: tuple[str, ...] = option(
        "what was shown before, with ratings: --history 12=5 40=2 77", default=(), metavar="ITEM", many=True
    )
    repeats: bool = option("items of the history may come again", default=False)
    rated: bool = option("items that the user rated in the data may come again", default=False)
    by: By = option(_BY, default="policy")
    export: Path | None = option(
        "write the actor and the item table as a numpy file, and no more", default=None, metavar="FILE.npz"
    )
    data: Path | None = option(_DATA, default=None, metavar="FILE", kind="file")
    panel: bool = option("also show the table on the run's page", default=False)
    everyone: Path | None = option(
        "write the lists of all users of the data", default=None, metavar="FILE.csv", kind="file"
    )
    reachability: bool = option("only say which share of the catalogue can be chosen at all", default=False)


@asks
class Serve:
    policy: str | None = place(_RUN, "RUN", default=None, kind="run")
    run: str | None = option(_SAME, default=None, metavar="RUN", kind="run")
    host: str = option("0.0.0.0: for everybody", default="127.0.0.1", metavar="ADDRESS")
    port: int = option("where it listens", default=8000, metavar="N", least=0, most=65_535)
    by: By = option(_BY, default="policy")
    data: Path | None = option(_DATA, default=None, metavar="FILE", kind="file")


@asks
class Standings:
    places: tuple[Path, ...] = place(
        "run directories; seeds of one kind become one line", "RUN ...", default=(), kind="run"
    )
    runs: tuple[Path, ...] = option("the same as RUN ...", default=(), metavar="RUN", kind="run", many=True)
    env_config: str = option("the data", default="synthetic_users", metavar="NAME", kind="env-config")
    seeds: int = option("seeds of the random baselines", default=3, metavar="N", least=1)
    out: Path | None = option("also write OUT.md, OUT.json and OUT.png", default=None, short="-o")
    jobs: int = option("processes that evaluate", default=1, metavar="N", least=1)
    on: str = option("where: here, ray:auto, ray:HOST:PORT or slurm", default="here", metavar="PLACE")
    part: str | None = option(
        "make these evaluations and no table: what each of several --jobs does", default=None, metavar="K/N"
    )
    settings: dict[str, object] = settings_given(factory=dict)


@asks
class Ope:
    policy: str | None = place(_RUN, "RUN", default=None, kind="run")
    run: str | None = option(_SAME, default=None, metavar="RUN", kind="run")
    epsilon: float = option("share of random items in the judged policy", default=0.1, metavar="X", least=0)


COMMANDS = (
    Command(
        "fit",
        "learn simulated users from logged ratings",
        Fit,
        "twofold.recsys.commands:fit",
        more="`twofold train` does it by itself when it is missing.",
        matters=_USERS,
        examples=(
            "twofold fit --env-config=synthetic_users --run=runs/users",
            "twofold train --config=td3_rec --env-config=synthetic_users --run=runs/shop "
            "env_args.user_model=runs/users trainer.steps=20_000",
            "twofold fit --env-config=ratings env_args.path=ratings.csv",
        ),
    ),
    Command(
        "recommend",
        "ask a trained recommender for items",
        Recommend,
        "twofold.recsys.commands:recommend",
        more="The items that a trained policy would show next: value, expected rating, and the reason. The policy file "
        "is all it needs.",
        examples=(
            "twofold recommend runs/shop --user=17 -k 5",
            "twofold recommend runs/shop --history 12=5 40=2 77",
            "twofold recommend runs/shop --everyone=lists.csv",
            "twofold recommend runs/shop --reachability",
        ),
    ),
    Command(
        "serve",
        "a trained recommender over HTTP",
        Serve,
        "twofold.recsys.commands:serve",
        more="/recommend, /feedback, /health, /openapi.json, and a page to try it. Ctrl-C ends. Ask it, for example:\n"
        "  curl 'http://127.0.0.1:8000/recommend?user=17&k=5'\n"
        """  curl http://127.0.0.1:8000/feedback -d '{"user": "17", "item": "40", "rating": 2}'""",
        examples=("twofold serve runs/shop",),
    ),
    Command(
        "standings",
        "recommenders beside all baselines",
        Standings,
        "twofold.recsys.commands:standings",
        more="Trained policies beside all others: on what users really did (hidden ratings), and in simulated "
        "episodes. A star marks baselines that look at the truth.",
        matters=_USERS,
        examples=(
            "twofold standings --env-config=synthetic_users",
            "twofold standings runs/shop --env-config=synthetic_users --out=standings",
            "twofold standings runs/shop --env-config=synthetic_users --out=standings --jobs=2",
        ),
    ),
    Command(
        "ope",
        "off-policy value of a recommender",
        Ope,
        "twofold.recsys.commands:ope",
        more="Estimates (IPS, self-normalised, doubly robust) of the rating of the first item, from logged "
        "propensities: the data must have them, as Coat's have.",
        examples=("twofold ope runs/coat --epsilon=0.1",),
    ),
)
