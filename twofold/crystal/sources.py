"""What a batch is made of: folders, globs, files, trajectories and images of them, as structures one by one."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from ase import Atoms

from twofold.base.errors import UserError
from twofold.base.regular import is_folder, is_there, names_in, status_of
from twofold.crystal.reading import MOST_STRUCTURES, from_cif, is_structure, read_structures, table_texts
from twofold.crystal.structures import builtin, checked

log = logging.getLogger("twofold")
_INDEX = re.compile(r"-?\d{1,9}|(-?\d{1,9})?:(-?\d{1,9})?(:-?\d{1,9})?")
_TEXTS = (".csv", ".md")  # which ASE takes for structures by their names; given by name they are
_BUILTIN = re.compile(r"[A-Z][A-Za-z0-9]*(:[A-Za-z0-9]+)?(\*\d+x\d+x\d+)?")


@dataclass(frozen=True)
class Found:
    """One structure, or why it cannot be had."""

    name: str  # as it can be typed: cu.cif, path.traj@3, Cu*2x2x2
    atoms: Atoms | None
    problem: str = ""


def find(words: Sequence[str]) -> list[Found]:
    """Every structure that the words name, in their order; what cannot be read is found with its problem."""
    found: dict[str, Found] = {}
    for word in words:
        try:
            new = list(islice(_of_word(word), MOST_STRUCTURES + 1))
        except UserError as problem:
            new = [Found(word, None, str(problem))]
        found |= {one.name: one for one in new}
        if len(found) > MOST_STRUCTURES:
            raise UserError(f"more than {MOST_STRUCTURES:,} structures: relax them in several batches")
    return list(found.values())


def _of_word(word: str) -> Iterator[Found]:
    place, index = _taken_apart(word)
    if not is_there(place) and _BUILTIN.fullmatch(place):
        if index is not None:
            raise UserError(f"{word}: '{place}' is one crystal; @ chooses images of a file")
        yield Found(place, checked(builtin(place), place))
        return
    for path in _files(place):
        images = _images(path, status_of(path))
        names = [str(path)] if len(images) == 1 else [f"{path}@{number}" for number in range(len(images))]
        named = [Found(name, *image) for name, image in zip(names, images, strict=True)]
        yield from named if index is None else _chosen(named, index, word)


def _taken_apart(word: str) -> tuple[str, str | None]:
    """`FILE@INDEX` as ASE writes it; a file whose name holds an @ is that file."""
    place, at, index = word.rpartition("@")
    if not at or not place or is_there(word):
        return word, None
    if not _INDEX.fullmatch(index):
        raise UserError(f"{word}: behind the @ stands a number or a range, such as @-1, @0:10 or @::5")
    return place, index


def _chosen(images: list[Found], index: str, word: str) -> list[Found]:
    if ":" in index:
        chosen = images[slice(*(int(part) if part else None for part in index.split(":")))]
        if not chosen:
            raise UserError(f"{word}: that range of {len(images)} images is empty")
        return chosen
    if not -len(images) <= int(index) < len(images):
        raise UserError(f"{word}: there are {len(images)} images, the first is @0")
    return [images[int(index)]]


def _files(place: str) -> list[Path]:
    """The file, all structures of a folder, or those that a glob matches."""
    if is_folder(place):
        found = _structures([Path(place) / name for name in names_in(Path(place))], place)
        deeper = f"; '{place.rstrip('/')}/**' looks into its folders too"
        problem = f"{place} holds no structure file{deeper}"
    elif is_there(place) or not glob.has_magic(place):
        return [Path(place)]
    else:
        tables = place.endswith(".csv")
        matches = sorted(Path(match) for match in glob.iglob(place, recursive=True))
        found = matches if tables else _structures(matches, place)
        problem = f"no structure file matches {place}"
    if not found:
        raise UserError(problem)
    return found


def _structures(paths: list[Path], where: str) -> list[Path]:
    """What ASE takes for a structure; folders, tables and texts among them are passed over."""
    files = [path for path in paths if not path.name.startswith(".") and not is_folder(path)]
    found = [path for path in files if path.suffix not in _TEXTS and is_structure(path)]
    if others := [path.name for path in files if path not in set(found)]:
        log.info("%s: %d files are no structures (%s)", where, len(others), ", ".join(others[:5]))
    return found


@lru_cache(maxsize=1)  # many words may name images of one trajectory
def _images(path: Path, _: os.stat_result | None) -> list[tuple[Atoms | None, str]]:
    """Every structure of a file, or its problem; reading ends where the file cannot be read on."""
    found: list[tuple[Atoms | None, str]] = []
    try:
        for one in _read(path):
            found.append(_image(one, f"{path}, image {len(found)}" if found else str(path)))
        if not found:
            raise UserError(f"{path}: holds no structure")
    except UserError as problem:
        found.append((None, str(problem)))
    return found


def _read(path: Path) -> Iterator[Atoms | str]:
    """Structures, or CIF texts where the file is a table of such."""
    if path.suffix == ".csv":
        for _, text in table_texts(path):
            yield text
    else:
        yield from read_structures(path)


def _image(found: Atoms | str, where: str) -> tuple[Atoms | None, str]:
    try:
        return checked(from_cif(found, where) if isinstance(found, str) else found, where), ""
    except UserError as problem:
        return None, str(problem)
