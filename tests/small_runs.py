"""The smallest run of everything that is registered: whatever is new in a registry is in the tests that go over it."""

from __future__ import annotations

from typing import Any

import pytest

from twofold.settings.config import Resolved, load
from twofold.settings.presets import Preset, presets

COPPER = {"cu": {"structures": ["Cu"], "rattle": [0.1, 0.1]}}
USERS = {"synthetic": {"users": 40, "items": 30, "ratings_per_user": 12}}
VECTOR = {"actor_hidden": [8], "critic_hidden": [8]}
AGENTS = {"hidden": 8}
MODELS = {"subgoal_dim": 4, "model_hidden": 8}
GRAPHS = {"sets": COPPER, "max_atoms": 4, "num_neighbors": 8, "max_steps": 20}
SALE = {"target_every": 2, "expl_noise_hold": 3}  # often enough to happen in a short run
Small = tuple[str, str | None, dict[str, Any], tuple[str, ...]]  # algorithm, world, settings, packages
# For every registered world: an algorithm, a preset of it, settings that make both small, and packages it needs.
WORLDS: dict[str, Small] = {
    "control/gym": ("td3", "pendulum", {"networks": VECTOR}, ()),
    "control/walker": ("td3", "walker", {"networks": VECTOR}, ()),
    "crystal/spring": (
        "td3_crystal",
        "crystal",
        {"env_args": {"sets": COPPER}, "networks": VECTOR},
        ("ase",),
    ),
    "crystal/displacements": (
        "td3_crystal_quick",
        None,
        {"env": "crystal/displacements", "env_args": GRAPHS},
        ("ase",),
    ),
    "recsys/users": ("td3_rec", "synthetic_users", {"env_args": USERS}, ()),
    "team/goals": ("iql", "lbf_goals", {"networks": AGENTS}, ("lbforaging",)),
    "team/lbf": ("iql", "lbf", {"networks": AGENTS}, ("lbforaging",)),
    "team/matrix_game": ("iql", "matrix_game", {"networks": AGENTS}, ()),
    "team/mpe": ("iql", "mpe_spread", {"networks": AGENTS}, ("mpe2",)),
    "team/rware": ("iql", "rware", {"networks": AGENTS}, ("rware",)),
    "team/skirmish": ("qmix", "skirmish", {"env_args": {"map_name": "3m"}, "networks": AGENTS}, ()),
    "team/two_step": ("iql", "two_step", {"networks": AGENTS}, ()),
}
# Worlds that need what a test machine has not, with the tests of their own that stand in.
ELSEWHERE = {
    "team/sc2": "StarCraft II; tests/team/test_starcraft.py",
    "team/partnered": "a partner set; tests/team/test_partners.py",
    "team/pettingzoo": "an environment of PettingZoo's extras; tests/team/test_team_packages.py",
}
# For every domain: what the presets of its algorithms are tried in, unless they are named in `OTHER`.
USUAL: dict[str, Small] = {
    "control": ("", "pendulum", {"networks": VECTOR}, ()),
    "recsys": ("", "synthetic_users", {"env_args": USERS}, ()),
    "crystal": ("", None, {"env": "crystal/displacements", "env_args": GRAPHS}, ("ase",)),
    "team": ("", "two_step", {"networks": AGENTS}, ()),
}
_DEEPFM = {"model": {"deepfm": {"epoch": 1, "n_models": 2}}}
OTHER: dict[str, Small] = {
    "td3_hardcore": ("", "bipedal_hardcore", {"networks": VECTOR}, ()),
    "td3_hardcore_long": ("", "walker_hardcore", {"networks": VECTOR}, ()),
    "td3_plus": ("", "pendulum", {"networks": {"width": 8, "embedding": 4}, "learner": SALE}, ()),
    "td3_rec_reference": ("", "synthetic_users", {"env_args": USERS | _DEEPFM}, ()),
    "td3_crystal": WORLDS["crystal/spring"],
    "td3_crystal_careful": WORLDS["crystal/spring"],
    "matd3": ("", "mpe_spread", {"networks": VECTOR}, ("mpe2",)),
    "iql_omg": ("", "two_step", {"networks": AGENTS, "learner": {**MODELS, "history": 8}}, ()),
    "iql_omg_am": ("", "two_step", {"networks": AGENTS, "learner": {**MODELS, "history": 8}}, ()),
    "iql_omg_goals": (
        "",
        "lbf_goals",
        {"networks": AGENTS, "learner": {"model_hidden": 8, "history": 8}, "env_args": {"time_limit": 10}},
        ("lbforaging",),
    ),
    "omg_prior": ("", "two_step", {"networks": AGENTS, "learner": MODELS}, ()),
}
ALGORITHMS: dict[str, Preset] = {preset.name: preset for preset in presets("algs")}


def of_algorithm(name: str, **more: dict[str, Any]) -> Resolved:
    """A short run of an algorithm's preset in a world that fits it; `more` are further settings by section."""
    small = OTHER.get(name) or USUAL[ALGORITHMS[name].domain]
    return _loaded((name, *small[1:]), more)


def of_world(name: str, **more: dict[str, Any]) -> Resolved:
    """A short run in a registered world."""
    return _loaded(WORLDS[name], more)


def _loaded(small: Small, more: dict[str, dict[str, Any]]) -> Resolved:
    algorithm, world, settings, needed = small
    for package in needed:
        pytest.importorskip(package)
    both = {key: {**_section(settings, key), **more.get(key, {})} for key in more}
    return load(algorithm, world, **(settings | both))


def _section(settings: dict[str, Any], key: str) -> dict[str, Any]:
    found = settings.get(key, {})
    assert isinstance(found, dict)
    return found
