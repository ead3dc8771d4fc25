"""twofold: reinforcement learning from one small core, with one excellent TD3, in four domains.

import twofold
run = twofold.train(config="td3", env_config="hopper", seed=1)
run.evaluate()
run.policy.act(obs)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twofold.api import check_env, train
    from twofold.assemble import Trained
    from twofold.base.setting import setting
    from twofold.base.setting import settings as declared
    from twofold.check import check_learner, check_networks
    from twofold.rows.check import check_world
    from twofold.settings.domains import Domain, add_domain
    from twofold.settings.registry import networks, register, worlds
    from twofold.store.policy_file import load_policy

__version__ = "0.1.0"
_PLACES = {
    "ActorCritic": "learners.actor_critic",
    "Domain": "settings.domains",
    "Trained": "assemble",
    "add_domain": "settings.domains",
    "check_env": "api",
    "check_learner": "check",
    "check_networks": "check",
    "check_world": "rows.check",
    "declared": "base.setting:settings",
    "load_policy": "store.policy_file",
    "networks": "settings.registry",
    "register": "settings.registry",
    "setting": "base.setting",
    "train": "api",
    "worlds": "settings.registry",
}
__all__ = [
    "ActorCritic",
    "Domain",
    "Trained",
    "add_domain",
    "check_env",
    "check_learner",
    "check_networks",
    "check_world",
    "declared",
    "load_policy",
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
    return getattr(importlib.import_module(f"twofold.{module}"), other or name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
