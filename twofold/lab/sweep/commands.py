"""`twofold sweep`: search settings, confirm the best on fresh seeds, compare the winner with the default settings."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import is_folder, is_there
from twofold.lab import menu

_CONFIRM = re.compile(r"(\d+)x(\d+)")


def sweep(asked: menu.Sweep) -> int:
    """Search, confirm, final; repeated, it continues."""
    from twofold.jobs.watch import shown_here
    from twofold.lab.sweep.phases import Sweep, Wanted
    from twofold.lab.sweep.space import make_space
    from twofold.lab.sweep.telling import words, write_preset, write_record, write_result
    from twofold.settings.imports import import_user_code

    import_user_code(asked.import_)
    candidates, seeds = _confirm(asked.confirm)
    final = tuple(range(1, asked.final + 1))
    wanted = Wanted(asked.trials, candidates, seeds, final, asked.metric, asked.seed)
    space = make_space(asked.config, asked.env_config, asked.settings)
    folder = asked.sweep or Path("sweeps") / f"{Path(asked.config).stem}_{Path(asked.env_config).stem}"
    if asked.write:
        _check_write(asked.write, folder)
    made = Sweep(folder, space, wanted, asked.import_)
    with shown_here() as view:
        found = made.run(view, jobs=asked.jobs, on=asked.on, told=partial(write_record, made))
    result = write_result(made, found)
    print(words(found))
    print(f"result     {result}")
    if asked.write and found.winner is not None:
        print(f"preset     {write_preset(made, found, asked.write)}")
    if found.outcome is not None and found.outcome.signal is not None:
        return 128 + found.outcome.signal
    return 0 if found.outcome is None or not found.outcome.failed else 1


def _check_write(path: Path, folder: Path) -> None:
    """The preset is written after hours: what cannot be is said before them."""
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"--write={path}: --config takes a file as a preset if its name ends with .yaml")
    if not is_folder(path.parent):
        raise UserError(f"--write={path}: there is no folder {path.parent}")
    if is_there(path) and not is_there(folder):
        raise UserError(f"--write={path} exists and would not be overwritten: give another name")


def _confirm(text: str) -> tuple[int, int]:
    match = _CONFIRM.fullmatch(text)
    if match is None and text != "0":
        raise UserError(f"--confirm={text}: write CANDIDATESxSEEDS, such as 4x5, or 0")
    return (int(match[1]), int(match[2])) if match else (0, 0)
