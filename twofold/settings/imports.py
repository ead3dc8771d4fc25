"""The user's own code, imported because the user named it: never because a file of a run directory did."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from twofold.base.errors import UserError
from twofold.base.regular import is_file


def import_user_code(names: tuple[str, ...]) -> dict[str, ModuleType]:
    """Import each `file.py` or dotted module, so that its parts register themselves; the modules by their names."""
    found: dict[str, ModuleType] = {}
    for name in names:
        if name.endswith(".py"):
            found[Path(name).stem] = _import_file(Path(name))
        else:
            try:
                found[name] = importlib.import_module(name)
            except Exception as error:  # the user's own code fails in ways of its own
                raise UserError(f"--import={name} failed: {type(error).__name__}: {error}") from error
    return found


def _import_file(path: Path) -> ModuleType:
    """Run a file once under a name of its own: `random.py` must neither be taken for Python's nor replace it."""
    if not is_file(path):
        raise UserError(f"--import={path}: no such file")
    whole = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(whole):
        return known
    name = (
        path.stem if known is None else f"{path.stem}_{hashlib.blake2b(str(whole).encode()).hexdigest()[:8]}"
    )
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, whole)
    if spec is None or spec.loader is None:
        raise UserError(f"--import={path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(whole.parent) not in sys.path:
        sys.path.append(str(whole.parent))  # last, so that no file beside it hides a package
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"--import={path} failed: {type(error).__name__}: {error}") from error
    return module
