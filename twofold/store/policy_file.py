"""A policy as one file: weights, shapes, action bounds, settings and score; checksummed, no pickle."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from twofold.base import tree
from twofold.base.device import DeviceName, put
from twofold.base.errors import CheckpointError
from twofold.base.finite import first_bad
from twofold.base.foreign import AnySpace
from twofold.base.foreign_json import MAX_JSON_BYTES, names, parse_json
from twofold.base.regular import is_folder, is_there, open_regular, read_regular
from twofold.base.values import Json, Values, listed, number, table, text
from twofold.core.experience import Array, Item, Obs, rescale
from twofold.core.protocols import AnyLearner, Bounded, Learner, Policy, State, World
from twofold.core.seeding import Generators, generator
from twofold.settings.config import Agent, Config, agent_of, from_values, plain
from twofold.settings.domains import domains
from twofold.settings.registry import learners, networks
from twofold.settings.schema import nearest
from twofold.store import files, spaces
from twofold.store.checkpoint import FormatError, pack, unpack
from twofold.store.formats import from_format_1, refuse_what_is_gone, without_gone
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
    agent: Agent,
    observation_space: AnySpace,
    action_space: AnySpace,
    rngs: Generators,
    device: DeviceName = "cpu",
) -> AnyLearner:
    """The learner that a config asks for, for worlds of these spaces."""
    import torch

    torch_rng = torch.Generator().manual_seed(int(rngs["networks"].integers(2**62)))
    nets = networks.get(agent.networks_name).make(agent.networks, observation_space, action_space, torch_rng)
    put(nets, device)
    return learners.get(agent.learner_name).make(
        agent.learner,
        networks=nets,
        observation_space=observation_space,
        action_space=action_space,
        rngs=rngs,
    )


def policy_bytes(values: Values, learner: Learner[Item], world: World, score: Mapping[str, object]) -> bytes:
    """The learner's policy as the content of a policy file."""
    bounds = world.action_bounds if isinstance(world, Bounded) else None
    return _sealed(values, learner, world.single_observation_space, world.single_action_space, bounds, score)


def _sealed(
    values: Values,
    learner: Learner[Item],
    seen: AnySpace,
    acts: AnySpace,
    bounds: tuple[Array, Array] | None,
    score: Mapping[str, object],
) -> bytes:
    arrays, rest = pack(learner.policy_state())
    about = {
        "format": FORMAT,
        "rest": rest,
        "arrays": described(arrays),
        "values": plain(values),
        "observation_space": spaces.to_json(seen),
        "action_space": spaces.to_json(acts),
        "action_bounds": None if bounds is None else [np.asarray(b).tolist() for b in bounds],
        "score": score,
    }
    return seal(arrays, about)


def described(arrays: dict[str, Array]) -> dict[str, Json]:
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
    try:
        header = _header(path)
        sealed = table(parse_json(text(header, "__metadata__", "twofold"), path, finite=False))
        about, wanted = sealed["about"], sealed["blake2b"]
        arrays = decode(read_regular(path, _MAX_BYTES))
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path} is not a twofold policy file, or is damaged") from None
    if not isinstance(about, dict) or _body(arrays, about) != wanted:
        raise CheckpointError(f"{path} does not match its checksum: damaged")
    if about.get("format") == 1 and isinstance(given := about.get("values"), dict):
        refuse_what_is_gone(given, path)
        about = about | {"format": FORMAT, "values": cast(Json, from_format_1(given))}
    elif isinstance(given := about.get("values"), dict):
        about = about | {"values": cast(Json, without_gone(given))}
    if about.get("format") != FORMAT:
        found = str(about.get("format"))[:20]
        raise FormatError(f"{path} has policy format {found}, this version reads formats 1 to {FORMAT}")
    if about.get("arrays", described(arrays)) != described(arrays):
        raise CheckpointError(f"{path} does not match its description: damaged")
    return arrays, about


def _header(path: Path) -> dict[str, Json]:
    """What a safetensors file says of itself, read before anything large is."""
    with open_regular(path, _MAX_BYTES) as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(MAX_JSON_BYTES, os.fstat(file.fileno()).st_size):
            raise CheckpointError(f"{path} is not a twofold policy file, or is damaged")
        header = names(parse_json(file.read(length), path), path)
        described = [entry for name, entry in header.items() if name != "__metadata__"]
        data = [number(listed(entry, "data_offsets")[1]) for entry in described]
        if 8 + length + max(data, default=0) != os.fstat(file.fileno()).st_size:
            raise CheckpointError(f"{path} is not a twofold policy file, or is damaged")
    return header


def weights_digest(path: Path) -> str:
    """A checksum of what a policy file holds, whatever its run's settings are; empty where there is no file."""
    return _body(unseal(path)[0], {}) if is_there(path) else ""


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

    values: Values  # all settings of its run
    source: str  # the file it comes from
    learner: AnyLearner
    policy: Policy
    observation_space: AnySpace
    action_space: AnySpace
    action_bounds: tuple[Array, Array] | None
    score: dict[str, Json]
    rows: int = 1  # that `policy` was made for

    @cached_property
    def config(self) -> Config:
        """The whole config of its run, to make its world anew."""
        return from_values(self.values, self.source).config

    def reset(self, rows: int = 1) -> None:
        """New episodes begin in `rows` rows: a policy with a memory forgets what it saw."""
        if rows != self.rows:
            self.policy = self.learner.policy(explore=False, rows=rows, rng=generator(0, "evaluation"))
            self.rows = rows
        self.policy.reset(np.ones(rows, bool))

    def act(self, obs: Obs) -> Array:
        """The action for one observation, or the actions for a batch [N, ...] of them, in the world's own units.

        A policy with a memory (teams) remembers each row since `reset`; another number of rows begins new episodes.
        """
        batch, single = spaces.as_batch(self.observation_space, obs)
        rows = len(tree.leaves(batch)[0])
        if rows != self.rows:
            self.reset(rows)
        action = self.policy.act(batch)
        if self.action_bounds is not None:
            action = rescale(action, *self.action_bounds)
        return action[0] if single else action

    def predict(
        self,
        observation: Obs,
        state: State | None = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, State]:
        """As Stable-Baselines3's `predict`: actions, and the memory to hand over with the next observations.

        Without a `state`, or where `episode_start` is true, an episode begins. Policies here act without noise,
        so `deterministic` changes nothing, as for TD3 there.
        """
        batch, _ = spaces.as_batch(self.observation_space, observation)
        rows = len(tree.leaves(batch)[0])
        if state is None or rows != self.rows:
            self.reset(rows)
        if state is not None:
            self.policy.load_state_dict(state)
        if episode_start is not None:
            self.policy.reset(np.broadcast_to(np.asarray(episode_start, bool), (rows,)))
        return self.act(observation), copy.deepcopy(self.policy.state_dict())

    def save(self, path: str | Path) -> Path:
        """Write the policy as a file that `twofold eval`, `play`, `export` and `load_policy` take."""
        spaces_of = self.observation_space, self.action_space
        content = _sealed(self.values, self.learner, *spaces_of, self.action_bounds, self.score)
        files.replace_bytes(Path(path), content)
        return Path(path)


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
    if is_folder(path):
        path = path / "best.safetensors"
    if not is_there(path):
        known = path.name in zoo_names()
        hint = f"; the trained policy of that name is --zoo={path.name}" if known else ""
        raise CheckpointError(f"no policy file {path}{hint}")
    arrays, about = unseal(path)
    if bad := first_bad(**{name.lstrip("/"): array for name, array in arrays.items()}):
        raise CheckpointError(f"{path} holds weights that are not finite ({bad}): it cannot act")
    try:
        values = table(about, "values")
        agent = agent_of(values)
        seen, acts = (spaces.from_json(table(about, k)) for k in ("observation_space", "action_space"))
        with allocation_limit(_MAX_BYTES):
            learner = make_learner(agent, seen, acts, Generators(0))
        _refuse_other_types(pack(learner.policy_state())[0], arrays)
        learner.load_policy_state(unpack(about["rest"], arrays))
        policy = learner.policy(explore=False, rows=1, rng=generator(0, "evaluation"))
        policy.reset(np.ones(1, bool))
        bounds = None if about["action_bounds"] is None else listed(about, "action_bounds")
        low_high = None if bounds is None else (_bound(bounds[0], acts), _bound(bounds[1], acts))
        return LoadedPolicy(
            dict(values), str(path), learner, policy, seen, acts, low_high, table(about, "score")
        )
    except _LIES as error:
        raise CheckpointError(f"{path} does not describe a policy of this version: {error}") from None


def _refuse_other_types(own: dict[str, Array], given: dict[str, Array]) -> None:
    """Weights of another type would be taken as numbers that they were never meant to be."""
    for name, array in own.items():
        if name in given and given[name].dtype.kind != array.dtype.kind:
            raise ValueError(f"{name} holds {given[name].dtype}, not {array.dtype}")


def _bound(values: Json, space: AnySpace) -> Array:
    with np.errstate(over="ignore"):  # refused in the next line
        found = np.array(values, np.float32).reshape(space.shape or ())
    if not np.isfinite(found).all():
        raise ValueError("action bounds that are not finite")
    return found
