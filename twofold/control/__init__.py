"""Continuous control on Gymnasium: MuJoCo, Box2D, classic control, and any environment with bounded actions."""

from pathlib import Path

from twofold.settings.domains import Domain

_HERE = Path(__file__).resolve().parent
DOMAIN = Domain(
    name="control",
    about="continuous control on Gymnasium: MuJoCo, Box2D, classic control",
    parts=("twofold.control.worlds", "twofold.control.walker_world"),
    presets=_HERE / "conf",
    zoo=_HERE / "zoo",
    packages=("gymnasium", "mujoco", "box2d"),
)
