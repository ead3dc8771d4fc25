"""Policies that other libraries trained, as policies of ours; nothing in their files is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twofold.api import Env, config_for
from twofold.base.errors import CheckpointError
from twofold.core.experience import Array
from twofold.core.protocols import Bounded
from twofold.core.seeding import Generators, generator
from twofold.learners.vector import Activation
from twofold.rows.world import evaluation_names, make_world
from twofold.store import files
from twofold.store.policy_file import LoadedPolicy, make_learner
from twofold.store.torch_file import read_member, read_tensors

_MAX_BYTES = 1 << 28
Layer = tuple[Array, Array]  # weight [outputs, inputs], bias [outputs]


def from_sb3(path: str | Path, env: Env, *, activation: Activation = "relu") -> LoadedPolicy:
    """The actor of a TD3 model that Stable-Baselines3 saved (`model.save`), for the environment it was trained in.

    Only the tensors of `policy.pth` are read. SB3 keeps the activation between layers in a pickled part of the zip,
    which is not touched: name it if it was not the default.
    """
    state = read_tensors(read_member(Path(path), "policy.pth"), f"{path}: policy.pth")
    places = sorted({int(name.split(".")[2]) for name in state if name.startswith("actor.mu.")})
    if not places:
        raise CheckpointError(f"{path} holds no actor of TD3 (no actor.mu.* in policy.pth)")
    layers = [(state[f"actor.mu.{i}.weight"], state[f"actor.mu.{i}.bias"]) for i in places]
    return _policy(layers, env, activation, str(path))


def from_cleanrl(path: str | Path, env: Env) -> LoadedPolicy:
    """The actor that CleanRL's `td3_continuous_action.py --save-model` saved, for the environment it was trained in."""
    saved = read_tensors(files.read_regular(Path(path), _MAX_BYTES), str(path))
    state = saved[0] if isinstance(saved, tuple) and saved else saved
    if not isinstance(state, dict) or "fc_mu.weight" not in state:
        raise CheckpointError(f"{path} holds no actor of CleanRL's TD3 (fc1, fc2, fc_mu)")
    layers = [(state[f"{name}.weight"], state[f"{name}.bias"]) for name in ("fc1", "fc2", "fc_mu")]
    policy = _policy(layers, env, "relu", str(path))
    low, high = policy.action_bounds or (np.float32(-1), np.float32(1))
    if "action_scale" in state and not np.allclose(state["action_scale"].ravel() * 2, high - low):
        raise CheckpointError(f"{path} was trained with other action bounds than those of this environment")
    return policy


def _policy(layers: list[Layer], env: Env, activation: Activation, source: str) -> LoadedPolicy:
    """A policy with these layers, in the world that `env` names."""
    hidden = [len(bias) for _, bias in layers[:-1]]
    settings = {"networks.actor_hidden": hidden, "networks.actor_activation": activation}
    resolved = config_for("td3", env, settings)
    world = make_world(resolved.config, purpose=evaluation_names(resolved.config)[0], rows=1)
    bounds = world.action_bounds if isinstance(world, Bounded) else None
    spaces = world.single_observation_space, world.single_action_space
    world.close()
    learner = make_learner(resolved.config, *spaces, Generators(0))
    matrices = [np.concatenate([weight.T, bias[None]]).astype(np.float32) for weight, bias in layers]
    learner.load_policy_state({"actor": {f"layers.{i}.matrix": m for i, m in enumerate(matrices)}})
    greedy = learner.policy(explore=False, rows=1, rng=generator(0, "evaluation"))
    return LoadedPolicy(resolved.values, source, learner, greedy, *spaces, bounds, {"source": source})
