"""A policy as one file: weights, shapes, action bounds, settings and score; checksummed, no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from twofold.base.errors import CheckpointError
from twofold.base.foreign import AnySpace
from twofold.base.values import Json, Values, listed, table
from twofold.core.experience import Array, Item, Obs, rescale
from twofold.core.protocols import AnyLearner, Bounded, Learner, Policy, World
from twofold.core.seeding import Generators, generator
from twofold.settings.config import Agent, Config, agent_of, from_values, plain
from twofold.settings.domains import domains
from twofold.settings.registry import learners, networks
from twofold.settings.schema import nearest
from twofold.store import files, spaces
from twofold.store.checkpoint import FormatError, pack, unpack
from twofold.store.formats import from_format_1, refuse_what_is_gone
from twofold.store.limits import allocation_limit

FORMAT = 2
_MAX_BYTES = 1 << 30  # of a policy file, and of the tensors that one may ask for
# What a description that is not true of its arrays runs into.
_LIES = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
    RuntimeError,
    MemoryError,
)


def make_learner(
    agent: Agent, observation_space: AnySpace, action_space: AnySpace, rngs: Generators
) -> AnyLearner:
    """The learner that a config asks for, for worlds of these spaces."""
    import torch

    torch_rng = torch.Generator().manual_seed(int(rngs["networks"].integers(2**62)))
    nets = networks.get(agent.networks_name).make(agent.networks, observation_space, action_space, torch_rng)
    return learners.get(agent.learner_name).make(
        agent.learner,
        networks=nets,
        observation_space=observation_space,
        action_space=action_space,
        rngs=rngs,
    )


def policy_bytes(values: Values, learner: Learner[Item], world: World, score: Mapping[str, object]) -> bytes:
    """The learner's policy as the content of a policy file."""
    arrays, rest = pack(learner.policy_state())
    bounds = world.action_bounds if isinstance(world, Bounded) else None
    about = {
        "format": FORMAT,
        "rest": rest,
        "arrays": _described(arrays),
        "values": plain(values),
        "observation_space": spaces.to_json(world.single_observation_space),
        "action_space": spaces.to_json(world.single_action_space),
        "action_bounds": None if bounds is None else [np.asarray(b).tolist() for b in bounds],
        "score": score,
    }
    return seal(arrays, about)


def _described(arrays: dict[str, Array]) -> dict[str, Json]:
    """Types and shapes, to be covered by the checksum like the values."""
    return {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}


def seal(arrays: dict[str, Array], about: Mapping[str, object]) -> bytes:
    """Arrays and their description as one checksummed safetensors file."""
    text = json.dumps({"about": about, "blake2b": _body(arrays, about)})
    return encode(arrays, metadata={"twofold": text})  # one key: the order of several would change the bytes


def _body(arrays: dict[str, Array], about: Mapping[str, object]) -> str:
    described = json.dumps(about).encode()
    return files.checksum(described + b"".join(arrays[k].tobytes() for k in sorted(arrays)))


def unseal(path: Path) -> tuple[dict[str, Array], dict[str, Json]]:
    """The verified arrays and description of a policy file."""
    content = files.read_regular(path, _MAX_BYTES)
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(files.MAX_JSON_BYTES, len(content)):
        raise CheckpointError(f"{path} is not a twofold policy file, or is damaged")
    try:
        arrays = decode(content)
        sealed = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["twofold"])
        about, wanted = sealed["about"], sealed["blake2b"]
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path} is not a twofold policy file, or is damaged") from None
    if not isinstance(about, dict) or _body(arrays, about) != wanted:
        raise CheckpointError(f"{path} does not match its checksum: damaged")
    if about.get("format") == 1 and isinstance(about.get("values"), dict):
        refuse_what_is_gone(about["values"], path)
        about = about | {"format": FORMAT, "values": from_format_1(about["values"])}
    if about.get("format") != FORMAT:
        found = str(about.get("format"))[:20]
        raise FormatError(f"{path} has policy format {found}, this version reads formats 1 to {FORMAT}")
    if about.get("arrays", _described(arrays)) != _described(arrays):
        raise CheckpointError(f"{path} does not match its description: damaged")
    return arrays, about


def weights_digest(path: Path) -> str:
    """A checksum of what a policy file holds, whatever its run's settings are; empty where there is no file."""
    return _body(unseal(path)[0], {}) if path.is_file() else ""


def load_policy_into(learner: Learner[Item], path: Path) -> None:
    """Give a learner the policy of a file of its own shapes."""
    arrays, about = unseal(path)
    try:
        learner.load_policy_state(unpack(about["rest"], arrays))
    except _LIES as error:
        raise CheckpointError(f"{path} does not hold a policy of this run: {error}") from None


@dataclass
class LoadedPolicy:
    """A policy ready to act: raw observations in, real actions out."""

    values: dict[str, Json]  # all settings of its run
    source: str  # the file it comes from
    learner: AnyLearner
    policy: Policy
    observation_space: AnySpace
    action_space: AnySpace
    action_bounds: tuple[Array, Array] | None
    score: dict[str, Json]

    @cached_property
    def config(self) -> Config:
        """The whole config of its run, to make its world anew."""
        return from_values(self.values, self.source).config

    def act(self, obs: Obs) -> Array:
        """The action for one observation, in the world's own units."""
        action: Array = self.policy.act(spaces.batch_of_one(self.observation_space, obs))[0]
        return action if self.action_bounds is None else rescale(action, *self.action_bounds)


def zoo_names() -> list[str]:
    """The trained policies that are shipped."""
    return sorted(_zoo())


def _zoo() -> dict[str, Path]:
    folders = [domain.zoo for domain in domains().values() if domain.zoo is not None]
    return {path.stem: path for folder in folders for path in folder.glob("*.safetensors")}


def zoo_path(name: str) -> Path:
    """The file of a shipped policy."""
    if name not in zoo_names():
        hint = nearest(name, zoo_names())
        did = f"did you mean '{hint}'?" if hint else f"there are {', '.join(zoo_names())}"
        raise CheckpointError(f"no policy named '{name}' in the zoo; {did}")
    return _zoo()[name]


def load_policy(path: str | Path) -> LoadedPolicy:
    """Load a policy file (or a run directory's best policy) for acting."""
    path = Path(path)
    if path.is_dir():
        path = path / "best.safetensors"
    if not path.exists():
        raise CheckpointError(f"no policy file {path}")
    arrays, about = unseal(path)
    try:
        values = table(about, "values")
        agent = agent_of(values)
        seen, acts = (spaces.from_json(table(about, k)) for k in ("observation_space", "action_space"))
        with allocation_limit(_MAX_BYTES):
            learner = make_learner(agent, seen, acts, Generators(0))
        learner.load_policy_state(unpack(about["rest"], arrays))
        policy = learner.policy(explore=False, rows=1, rng=generator(0, "evaluation"))
        policy.reset(np.ones(1, bool))
        bounds = None if about["action_bounds"] is None else listed(about, "action_bounds")
        low_high = None if bounds is None else (_bound(bounds[0], acts), _bound(bounds[1], acts))
        return LoadedPolicy(values, str(path), learner, policy, seen, acts, low_high, table(about, "score"))
    except _LIES as error:
        raise CheckpointError(f"{path} does not describe a policy of this version: {error}") from None


def _bound(values: Json, space: AnySpace) -> Array:
    return np.array(values, np.float32).reshape(space.shape or ())
