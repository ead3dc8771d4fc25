"""Continuous control on Gymnasium: MuJoCo, Box2D, classic control, and any environment with bounded actions."""

from pathlib import Path

from twofold.settings.domains import Domain

_HERE = Path(__file__).resolve().parent
ABSENT = (
    "for one agent there are td3_plus, td3 and ddpg, with continuous actions; Stable-Baselines3, CleanRL and RL Zoo "
    "have SAC, PPO, DQN and others"
)
_OTHERS = (
    "sac",
    "ppo",
    "dqn",
    "a2c",
    "a3c",
    "trpo",
    "tqc",
    "crossq",
    "ars",
    "qrdqn",
    "rainbow",
    "dreamer",
    "tdmpc",
)
DOMAIN = Domain(
    name="control",
    about="continuous control on Gymnasium: MuJoCo, Box2D, classic control",
    parts=("twofold.control.worlds", "twofold.control.walker_world"),
    presets=_HERE / "conf",
    zoo=_HERE / "zoo",
    packages=("gymnasium", "mujoco", "box2d"),
    absent=dict.fromkeys(_OTHERS, ABSENT),
)
