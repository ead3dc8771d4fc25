"""Errors that a user can fix: the command line shows their message without a traceback."""

from __future__ import annotations

from twofold.base.messages import printable


class UserError(Exception):
    """Something the user can fix; the message says what is wrong, where, and what to do."""

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(message))  # it may quote a file of a stranger


class ConfigError(UserError):
    """A setting that is unknown, misspelt, of the wrong type or out of range."""


class UnknownSetting(ConfigError):
    """A name that no setting has."""

    def __init__(self, message: str, key: str, *, sure: bool) -> None:
        super().__init__(message)
        self.key = key
        self.sure = sure  # whether the message names what was probably meant


class UnknownPart(ConfigError):
    """A world, learner or network that nobody registered; perhaps a file of the user's was not imported."""


class CheckpointError(UserError):
    """A file (checkpoint, policy, log, data) that is missing, damaged, hostile or of another format."""


class WorldError(UserError):
    """A world that cannot be made, breaks its contract, or keeps failing."""


class NonFiniteError(UserError):
    """A NaN or an infinity in an observation, reward, action, loss or gradient."""


class MissingPackage(UserError):
    """An optional package that the chosen part needs."""

    def __init__(self, package: str, extra: str, why: str) -> None:
        from twofold.base.installing import install

        super().__init__(f"{why} needs the package '{package}': {install(extra, package)}")
