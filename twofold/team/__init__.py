"""Teams: cooperative multi-agent worlds, value decomposition, opponent models and partner sets."""

from twofold.team import actors, agents, am, coma, learner, omg, prior
from twofold.team.worlds import matrix, packages, partnered, skirmish, starcraft

__all__ = [
    "actors",
    "agents",
    "am",
    "coma",
    "learner",
    "matrix",
    "omg",
    "packages",
    "partnered",
    "prior",
    "skirmish",
    "starcraft",
]
