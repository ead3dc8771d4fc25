"""twofold: reinforcement learning from one small core, with one excellent TD3, in four domains.

import twofold
run = twofold.train(config="td3", env_config="hopper", seed=1)
run.evaluate()
run.policy.act(obs)
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from twofold.api import Moment, check_env, iterate, load_run, make_env, train
    from twofold.assemble import Trained
    from twofold.base.progress import Progress
    from twofold.base.setting import setting
    from twofold.base.setting import settings as declared
    from twofold.check import check_learner, check_networks
    from twofold.foreign import from_cleanrl, from_sb3
    from twofold.learners.actor_critic import ActorCritic
    from twofold.rows.check import check_world
    from twofold.settings.domains import Domain, add_domain
    from twofold.settings.registry import networks, register, worlds
    from twofold.show.notebook import NotebookBar
    from twofold.store.columns import Columns
    from twofold.store.policy_file import LoadedPolicy, load_policy

__version__ = "0.1.0"
_PLACES = {
    "ActorCritic": "learners.actor_critic",
    "Columns": "store.columns",
    "Domain": "settings.domains",
    "LoadedPolicy": "store.policy_file",
    "Moment": "api",
    "NotebookBar": "show.notebook",
    "Progress": "base.progress",
    "Trained": "assemble",
    "add_domain": "settings.domains",
    "check_env": "api",
    "check_learner": "check",
    "check_networks": "check",
    "check_world": "rows.check",
    "declared": "base.setting:settings",
    "from_cleanrl": "foreign",
    "from_sb3": "foreign",
    "iterate": "api",
    "load_policy": "store.policy_file",
    "load_run": "api",
    "make_env": "api",
    "networks": "settings.registry",
    "register": "settings.registry",
    "setting": "base.setting",
    "train": "api",
    "worlds": "settings.registry",
}
__all__ = [
    "ActorCritic",
    "Columns",
    "Domain",
    "LoadedPolicy",
    "Moment",
    "NotebookBar",
    "Progress",
    "Trained",
    "add_domain",
    "check_env",
    "check_learner",
    "check_networks",
    "check_world",
    "declared",
    "from_cleanrl",
    "from_sb3",
    "iterate",
    "load_policy",
    "load_run",
    "make_env",
    "networks",
    "register",
    "setting",
    "train",
    "worlds",
]


def __getattr__(name: str) -> object:
    """Import on first use, so that `import twofold` and the command line start at once."""
    if name not in _PLACES:
        raise AttributeError(f"module 'twofold' has no attribute '{name}'")
    import importlib

    module, _, other = _PLACES[name].partition(":")
    found: object = getattr(importlib.import_module(f"twofold.{module}"), other or name)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
