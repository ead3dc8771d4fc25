"""Teams: cooperative multi-agent worlds, value decomposition, opponent models and partner sets."""

from pathlib import Path

from twofold.settings.domains import Domain

_PARTS = ("actors", "agents", "am", "coma", "learner", "omg", "prior")
_WORLDS = ("goals", "matrix", "packages", "partnered", "skirmish", "starcraft")
DOMAIN = Domain(
    name="team",
    about="teams: value decomposition, opponent models, partner populations",
    parts=(
        *(f"twofold.team.{part}" for part in _PARTS),
        *(f"twofold.team.worlds.{world}" for world in _WORLDS),
    ),
    presets=Path(__file__).resolve().parent / "conf",
    commands={
        "partners": (
            "twofold.team.commands:partners",
            "make, gather, split, show  populations of fixed partners",
        ),
    },
    packages=("pettingzoo", "mpe2", "lbforaging", "rware"),
    extra="team",
    translate="twofold.team.pymarl:translate",
    train_options=("multi-algs", "train-alg", "partners"),
    observers={"sacred": "twofold.team.observers:observed"},
    judges={
        "partners": "twofold.team.commands:eval_partners",
        "policy": "twofold.team.commands:eval_script",
    },
)
