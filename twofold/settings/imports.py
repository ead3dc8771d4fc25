"""The user's own code, imported because the user named it: never because a file of a run directory did."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from twofold.base.errors import UserError


def import_user_code(names: tuple[str, ...]) -> None:
    """Import each `file.py` or dotted module, so that its worlds, networks and learners register themselves."""
    for name in names:
        if name.endswith(".py"):
            _import_file(Path(name))
        else:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                raise UserError(f"--import={name}: {error}") from None


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"--import={path}: no such file")
    name = path.stem
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"--import={path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
