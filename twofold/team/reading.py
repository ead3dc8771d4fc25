"""JSON files of others: every name and type as they must be, or a message that says which is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from twofold.base.errors import ConfigError
from twofold.base.setting import problem
from twofold.store import files

Read = TypeVar("Read")


def read_as(cls: type[Read], path: Path) -> Read:
    """The content of a JSON file as this class of settings."""
    return checked_as(cls, files.read_json(path))


def checked_as(cls: type[Read], values: object) -> Read:
    """What a JSON file holds as this class of settings."""
    try:
        # As JSON, in which a list may be a tuple while nothing else changes its type on the way.
        return TypeAdapter(cls).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise ConfigError(problem(error.errors()[0])) from None
