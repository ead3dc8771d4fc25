"""twofold: reinforcement learning from one small core, with one excellent TD3, in four domains.

import twofold
run = twofold.train(config="td3", env_config="hopper", seed=1)
run.evaluate()
run.policy.act(obs)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.api import Trained, check_env, train
    from twofold.rows.world import check_world
    from twofold.settings.registry import learners, networks, worlds
    from twofold.store.policy_file import load_policy

__version__ = "0.1.0"
_PLACES = {
    "train": "api",
    "Trained": "api",
    "check_env": "api",
    "load_policy": "store.policy_file",
    "check_world": "rows.world",
    "worlds": "settings.registry",
    "learners": "settings.registry",
    "networks": "settings.registry",
}
__all__ = ["Trained", "check_env", "check_world", "learners", "load_policy", "networks", "train", "worlds"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import twofold` and the command line start at once."""
    if name not in _PLACES:
        raise AttributeError(f"module 'twofold' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f"twofold.{_PLACES[name]}"), name)
