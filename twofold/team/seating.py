"""Who sits where: fixed policies that play some seats of a team, episode by episode."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twofold.base.errors import CheckpointError, ConfigError
from twofold.core.experience import Array, Obs
from twofold.store import files
from twofold.store.policy_file import LoadedPolicy, load_policy

FORMAT = 1


@dataclass(frozen=True)
class Partner:
    """A fixed policy of a whole team, some of whose seats it is given."""

    name: str
    algorithm: str
    file: Path

    def load(self) -> LoadedPolicy:
        return load_policy(self.file)


@dataclass(frozen=True)
class PartnerSet:
    """A versioned population with its declared split."""

    folder: Path
    partners: tuple[Partner, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    about: dict[str, Any]  # the world that they were trained in, how, and the version

    def of(self, names: tuple[str, ...]) -> list[Partner]:
        known = {partner.name: partner for partner in self.partners}
        missing = [name for name in names if name not in known]
        if missing:
            raise ConfigError(f"{self.folder}: no partner named '{missing[0]}'")
        return [known[name] for name in names]

    def split(self, which: str) -> list[Partner]:
        """'train', 'test' or 'all'; without a declared split everybody is in each."""
        names = {"train": self.train, "test": self.test}.get(which, ())
        return self.of(names) if names else list(self.partners)


def read_partners(folder: Path) -> PartnerSet:
    """The partner set of a folder, every file checked against its recorded checksum."""
    path = folder / "partners.json"
    if not path.is_file():
        raise ConfigError(
            f"{folder} is no partner set (no partners.json): make one with `twofold partners make`"
        )
    record = files.read_json(path)
    try:
        if record["format"] != FORMAT:
            raise CheckpointError(f"{path} has format {record['format']}, this version reads {FORMAT}")
        partners = tuple(
            Partner(p["name"], p["algorithm"], folder / Path(p["file"]).name) for p in record["partners"]
        )
        found = PartnerSet(folder, partners, tuple(record["train"]), tuple(record["test"]), record["about"])
        sums = {p["name"]: p["blake2b"] for p in record["partners"]}
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    for partner in found.partners:
        if files.checksum(files.read_regular(partner.file)) != sums[partner.name]:
            raise CheckpointError(f"{partner.file} is not the file that {path} was made with")
    return found


def write_partners(
    folder: Path, partners: list[Partner], about: dict[str, Any], train: list[str], test: list[str]
) -> PartnerSet:
    """Write partners.json; the version is a checksum of the policies."""
    listed = [
        {
            "name": p.name,
            "algorithm": p.algorithm,
            "file": p.file.name,
            "blake2b": files.checksum(files.read_regular(p.file)),
        }
        for p in partners
    ]
    about = about | {"version": files.checksum(json.dumps(listed, sort_keys=True).encode())[:12]}
    record = {"format": FORMAT, "about": about, "partners": listed, "train": train, "test": test}
    files.replace_bytes(folder / "partners.json", files.to_json(record))
    return read_partners(folder)


def parse_team(text: str) -> list[tuple[int, str]]:
    """'4iql3qmix1iql_omg' as [(4, 'iql'), (3, 'qmix'), (1, 'iql_omg')]."""
    import re

    parts = re.findall(r"(\d+)([a-z][a-z_]*)", text)
    if not parts or "".join(count + name for count, name in parts) != text:
        raise ConfigError(
            f"'{text}' is no mixed team: write counts and algorithms, such as 4iql3qmix1iql_omg"
        )
    return [(int(count), name) for count, name in parts]


@dataclass(frozen=True)
class Group:
    """So many seats for one policy of these candidates, drawn anew for every episode."""

    seats: int
    candidates: tuple[int, ...]  # places in the list of policies


class Seating:
    """Plays the seats of all groups for N rows; the first `free` seats of each row's order are left to a learner."""

    def __init__(
        self,
        policies: list[LoadedPolicy],
        groups: list[Group],
        *,
        agents: int,
        free: int,
        rows: int,
        rotate: bool,
    ) -> None:
        taken = sum(group.seats for group in groups)
        if taken + free != agents:
            raise ConfigError(
                f"the team has {agents} seats: {taken} for partners and {free} for the learner are not that"
            )
        self.groups, self.agents, self.free, self.rotate = groups, agents, free, rotate
        rng = np.random.default_rng(0)  # greedy policies draw nothing
        self.policies = [p.learner.policy(explore=False, rows=rows, rng=rng) for p in policies]
        self.order = np.tile(np.arange(agents), (rows, 1))  # [N, A]: which seat comes first, second, ...
        self.owner = np.full((rows, agents), -1)  # [N, A]: the policy that plays each seat; -1 is the learner

    def deal(self, row: int, seed: int | None) -> None:
        """Seats and partners of the episode that begins in this row."""
        rng = np.random.default_rng(None if seed is None else [seed, 7])
        self.order[row] = rng.permutation(self.agents) if self.rotate else np.arange(self.agents)
        self.owner[row] = -1
        at = self.free
        for group in self.groups:
            self.owner[row, self.order[row, at : at + group.seats]] = group.candidates[
                rng.integers(len(group.candidates))
            ]
            at += group.seats

    def reset(self, rows: Array) -> None:
        for policy in self.policies:
            policy.reset(rows)

    def fill(self, obs: Obs, actions: Array) -> Array:
        """The joint actions [N, A] from the learner's [N, free], in the order of its seats."""
        joint = np.zeros(self.owner.shape, np.int64)
        np.put_along_axis(joint, self.order[:, : self.free], np.asarray(actions, np.int64), 1)
        for index in np.unique(self.owner[self.owner >= 0]):
            mine = self.owner == index
            joint[mine] = self.policies[index].act(obs)[mine]
        for policy in self.policies:  # agents remember what was played, not what they would have played
            acting: Any = getattr(policy, "team", policy)
            acting.last_action = joint
        return joint

    def state_dict(self) -> dict[str, Any]:
        states = {str(i): policy.state_dict() for i, policy in enumerate(self.policies)}
        return {"order": self.order.copy(), "owner": self.owner.copy(), "policies": states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order, self.owner = np.array(state["order"]), np.array(state["owner"])
        for i, policy in enumerate(self.policies):
            policy.load_state_dict(state["policies"][str(i)])
