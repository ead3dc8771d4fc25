"""Recommendation: logs of ratings, learned users, worlds of users, and policies that show them items."""

from pathlib import Path

from twofold.settings.domains import Domain

DOMAIN = Domain(
    name="recsys",
    about="recommendation: from a log of ratings to simulated users to a policy",
    parts=("twofold.recsys.networks", "twofold.recsys.worlds"),
    presets=Path(__file__).resolve().parent / "conf",
    commands={
        "fit": (
            "twofold.recsys.commands:fit",
            "learn simulated users from ratings   twofold fit --env-config=coat",
        ),
        "recommend": (
            "twofold.recsys.commands:recommend",
            "ask a trained recommender    twofold recommend RUN --user 17",
        ),
        "serve": (
            "twofold.recsys.commands:serve",
            "a trained recommender over HTTP    twofold serve RUN",
        ),
        "standings": (
            "twofold.recsys.commands:standings",
            "recommenders beside all baselines    twofold standings --runs RUN ...",
        ),
        "ope": (
            "twofold.recsys.commands:ope",
            "off-policy value of a recommender    twofold ope --run RUN",
        ),
    },
    packages=("pyarrow",),
    extra="recsys",
)
