"""Ray, connected: what jobs and rows on a cluster begin with. Nothing is sent to its makers."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from twofold.base.errors import MissingPackage, UserError
from twofold.base.regular import is_file

_SHOWN = 160  # letters of what Ray says


def connected(address: str | None, wanted_by: str) -> ModuleType:
    """Ray, connected to a cluster; without an address to that of RAY_ADDRESS, else to one of this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    _show_the_token()
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingPackage("ray", "ray", wanted_by) from None
    if not ray.is_initialized():
        place = address or os.environ.get("RAY_ADDRESS", "")
        _refuse_silence(place)
        try:
            with _silence():
                ray.init(address=address, log_to_driver=False, configure_logging=False, logging_level="ERROR")
        except Exception as error:  # Ray raises what its layers raise
            raise UserError(_said(error, place)) from None
    module: ModuleType = ray
    return module


def _show_the_token() -> None:
    """Ray asks for a token wherever there is one, but shows its own to a cluster of this machine only."""
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    if named or is_file(Path("~/.ray/auth_token").expanduser()):
        os.environ.setdefault("RAY_AUTH_MODE", "token")


@contextmanager
def _silence() -> Iterator[None]:
    """What Ray's own layers write to the terminal while they connect is said by the error that they end with."""
    kept, nowhere = os.dup(2), os.memfd_create("ray")
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _said(error: Exception, place: str) -> str:
    """One line of what Ray has to say."""
    if "AuthenticationError" in f"{error!r} {error.__cause__}":
        return (
            f"the Ray cluster at '{place or 'auto'}' wants its token: copy ~/.ray/auth_token of its first machine "
            "here, or set RAY_AUTH_TOKEN"
        )
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if not place:
        return f"Ray could not be started on this machine: {first[:_SHOWN]}"
    return f"no Ray cluster at '{place}' ({first[:_SHOWN]}): start one with `ray start --head`"


def _refuse_silence(address: str) -> None:
    """Ray itself asks for minutes where nobody answers."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except (OSError, OverflowError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise UserError(
                f"no Ray cluster at '{address}' ({why}): start one with `ray start --head`"
            ) from None
