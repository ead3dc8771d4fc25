"""Recommendation: logs of ratings, learned users, worlds of users, and policies that show them items."""

from pathlib import Path

from twofold.recsys.menu import COMMANDS
from twofold.settings.domains import Domain

DOMAIN = Domain(
    name="recsys",
    about="recommendation: from a log of ratings to simulated users to a policy",
    parts=("twofold.recsys.networks", "twofold.recsys.worlds"),
    presets=Path(__file__).resolve().parent / "conf",
    commands=COMMANDS,
    packages=("pyarrow",),
    extra="recsys",
)
