"""Partner sets: fixed policies in a folder, with the world that they were trained in and who is met when."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from twofold.base.errors import CheckpointError, ConfigError
from twofold.base.foreign_json import checked_as, read_json
from twofold.base.regular import is_there, read_regular
from twofold.base.setting import setting, settings
from twofold.store import files
from twofold.store.policy_file import LoadedPolicy, load_policy
from twofold.team.worlds.space import Values

FORMAT = 1
_MAX_BYTES = 1 << 30  # of a policy file


@settings
class About:
    """The world that partners were trained in, how, and the version of the set."""

    world: str = setting("a registered world")
    world_args: Values = setting("its settings by dotted name", factory=dict)
    version: str = setting("a checksum of the policies", default="")
    env_config: str = setting("the preset of the world", default="")
    steps: int = setting("of each training", default=0, ge=0)
    runs: tuple[str, ...] = setting("the runs that the policies are from", default=())


@settings
class _Listed:
    """A partner as partners.json lists it."""

    name: str = setting("of the partner")
    algorithm: str = setting("the preset that trained it")
    file: str = setting("its policy file, beside partners.json")
    blake2b: str = setting("checksum of that file")


@settings
class _Record:
    """partners.json."""

    format: int = setting("of this file")
    about: About = setting("where the partners are from")
    partners: tuple[_Listed, ...] = setting("all of them")
    train: tuple[str, ...] = setting("names of those met in training")
    test: tuple[str, ...] = setting("names of those met in tests only")


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
    about: About

    def of(self, names: tuple[str, ...]) -> list[Partner]:
        known = {partner.name: partner for partner in self.partners}
        missing = [name for name in names if name not in known]
        if missing:
            raise ConfigError(f"{self.folder}: no partner named '{missing[0]}'")
        return [known[name] for name in names]

    def split(self, which: str) -> list[Partner]:
        """'train' or 'test'; without a declared split everybody is met in training and nobody is left to test."""
        if which == "test" and not self.test:
            raise ConfigError(f"{self.folder} has no test partners: twofold partners split declares some")
        return self.of(self.test if which == "test" else self.train) if self.train else list(self.partners)


def read_partners(folder: Path) -> PartnerSet:
    """The partner set of a folder, every file checked against its recorded checksum."""
    path = folder / "partners.json"
    if not is_there(path):
        raise ConfigError(
            f"{folder} is not a partner set (no partners.json): make one with `twofold partners make`"
        )
    record = _read(path)
    partners = tuple(Partner(p.name, p.algorithm, folder / Path(p.file).name) for p in record.partners)
    for partner, listed in zip(partners, record.partners, strict=True):
        if files.checksum(read_regular(partner.file, _MAX_BYTES)) != listed.blake2b:
            raise CheckpointError(f"{partner.file} is not the file that {path} was made with")
    return PartnerSet(folder, partners, record.train, record.test, record.about)


def _read(path: Path) -> _Record:
    """partners.json with every name and type as they must be."""
    found = read_json(path)
    if isinstance(found, dict) and found.get("format", FORMAT) != FORMAT:
        raise CheckpointError(f"{path} has format {str(found['format'])[:20]}, this version reads {FORMAT}")
    try:
        record = checked_as(_Record, found)
    except ConfigError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    names = [partner.name for partner in record.partners]
    if not names or len(set(names)) < len(names):
        raise CheckpointError(f"{path} is damaged: it names no partner, or one of them twice")
    if lost := [name for name in (*record.train, *record.test) if name not in names]:
        raise CheckpointError(f"{path} is damaged: its split names '{lost[0]}', who is not a partner")
    return record


def write_partners(
    folder: Path, partners: list[Partner], about: About, train: list[str], test: list[str]
) -> PartnerSet:
    """Write partners.json; the version is a checksum of the policies."""
    listed = [
        {
            "name": p.name,
            "algorithm": p.algorithm,
            "file": p.file.name,
            "blake2b": files.checksum(read_regular(p.file, _MAX_BYTES)),
        }
        for p in partners
    ]
    version = files.checksum(json.dumps(listed, sort_keys=True).encode())[:12]
    said = asdict(about) | {"version": version}
    record = {"format": FORMAT, "about": said, "partners": listed, "train": train, "test": test}
    files.replace_bytes(folder / "partners.json", files.to_json(record))
    return read_partners(folder)


def parse_team(text: str) -> list[tuple[int, str]]:
    """'4iql3qmix1iql_omg' as [(4, 'iql'), (3, 'qmix'), (1, 'iql_omg')]."""
    parts = re.findall(r"(\d+)([a-z][a-z_]*)", text)
    if not parts or "".join(count + name for count, name in parts) != text:
        raise ConfigError(
            f"'{text}' is not a mixed team: write counts and algorithms, such as 4iql3qmix1iql_omg"
        )
    return [(int(count), name) for count, name in parts]
