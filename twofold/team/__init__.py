"""Teams: cooperative multi-agent worlds, value decomposition, opponent models and partner sets."""

from pathlib import Path

from twofold.settings.domains import Domain
from twofold.team.menu import COMMANDS, MixedTeam

_PARTS = ("actors", "agents", "am", "coma", "learner", "omg", "prior")
_WORLDS = ("goals", "matrix", "packages", "partnered", "skirmish", "starcraft")
ABSENT = (
    "policy-gradient teams other than coma are not here: qmix, vdn, qtran, iql and coma take discrete actions, matd3 "
    "continuous ones; EPyMARL has MAPPO, IPPO, MAA2C and MADDPG"
)
DOMAIN = Domain(
    name="team",
    about="teams: value decomposition, opponent models, partner populations",
    parts=(
        *(f"twofold.team.{part}" for part in _PARTS),
        *(f"twofold.team.worlds.{world}" for world in _WORLDS),
    ),
    presets=Path(__file__).resolve().parent / "conf",
    commands=COMMANDS,
    packages=("pettingzoo", "mpe2", "lbforaging", "rware"),
    extra="team",
    translate="twofold.team.pymarl:translate",
    train_options=MixedTeam,
    observers={"sacred": "twofold.team.observers:observed"},
    absent=dict.fromkeys(("mappo", "ippo", "maddpg", "maa2c", "ia2c", "pac", "facmac", "hatrpo"), ABSENT),
)
