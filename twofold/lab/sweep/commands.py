"""`twofold sweep`: search settings, confirm the best on fresh seeds, compare the winner with the default settings."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from twofold.base.errors import UserError

_CONFIRM = re.compile(r"(\d+)x(\d+)")


def sweep(argv: list[str]) -> int:
    """Search, confirm, final; repeated, it continues."""
    options = _parser().parse_args(argv)
    from twofold.lab.sweep.phases import Sweep, Wanted
    from twofold.lab.sweep.space import make_space
    from twofold.lab.sweep.telling import words, write_preset, write_result
    from twofold.lab.watch import Board, Lines
    from twofold.settings.imports import import_user_code

    import_user_code(tuple(options.imports))
    candidates, seeds = _confirm(options.confirm)
    if options.trials < 1 or options.final < 0:
        raise UserError("--trials must be at least 1, --final at least 0")
    final = tuple(range(1, options.final + 1))
    wanted = Wanted(options.trials, candidates, seeds, final, options.metric, options.seed)
    space = make_space(options.config, options.env_config, _typed(options.settings))
    folder = options.sweep or Path("sweeps") / f"{Path(options.config).stem}_{Path(options.env_config).stem}"
    made = Sweep(folder, space, wanted, tuple(options.imports))
    with Board() if sys.stderr.isatty() else Lines() as view:
        found = made.run(view, jobs=options.jobs, on=options.on)
    result = write_result(made, found)
    print(words(found))
    print(f"result     {result}")
    if options.write and found.winner is not None:
        print(f"preset     {write_preset(made, found, options.write)}")
    if found.outcome is not None and found.outcome.signal is not None:
        return 128 + found.outcome.signal
    return 0 if found.outcome is None or not found.outcome.failed else 1


def _parser() -> argparse.ArgumentParser:
    typed = argparse.ArgumentParser(
        prog="twofold sweep",
        description="Search settings; confirm the best on fresh seeds; compare the winner with the default settings.",
        epilog="example: twofold sweep --config=td3 --env-config=pendulum learner.actor_lr='log 1e-5..1e-2' "
        "networks.critic_hidden='64,64|256,256' trainer.steps=20000 --trials=30 --confirm=4x5 --final=10",
        allow_abbrev=False,
    )
    typed.add_argument(
        "settings", nargs="*", help="key=VALUE, or key=RANGE: 'log 1e-5..1e-2', 'int 1..8', 'a|b'"
    )
    typed.add_argument("--config", default="td3", help="the algorithm")
    typed.add_argument("--env-config", default="pendulum", help="the world")
    typed.add_argument("--trials", type=int, default=30, help="runs of the search")
    typed.add_argument("--confirm", default="4x5", help="so many candidates x fresh seeds; 0 for none")
    typed.add_argument(
        "--final", type=int, default=10, help="seeds of the winner and of the default settings"
    )
    typed.add_argument("--metric", default="return", help="which metric of the evaluations")
    typed.add_argument("--seed", type=int, default=0, help="of the search")
    typed.add_argument("--jobs", type=int, default=2, help="trainings at once")
    typed.add_argument("--on", default="here", help="ray:auto, ray:HOST:PORT or slurm")
    typed.add_argument("--sweep", type=Path, help="the folder; default: sweeps/CONFIG_ENV")
    typed.add_argument("--write", type=Path, help="write the winner as a preset, such as my_td3.yaml")
    typed.add_argument(
        "--import", dest="imports", action="append", default=[], help="your own worlds and networks"
    )
    return typed


def _confirm(text: str) -> tuple[int, int]:
    match = _CONFIRM.fullmatch(text)
    if match is None and text != "0":
        raise UserError(f"--confirm={text}: write CANDIDATESxSEEDS, such as 4x5, or 0")
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _typed(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"'{word}' is not a setting: write key=value, or key='log 1e-5..1e-2'")
        found[key] = value
    return found
