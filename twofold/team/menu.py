"""The domain's commands: what each asks for, and examples that work."""

from __future__ import annotations

from pathlib import Path

from twofold.base.command import Command, asks, needed, option, place, settings_given

_SET = "the folder of the partner set"


@asks
class MixedTeam:
    """Options of `train` for a team of several algorithms, of which one learns."""

    multi_algs: bool = option(
        "a mixed team: --config=4iql3qmix1iql_omg --train_alg=iql_omg --partners=SET", default=False
    )
    train_alg: str | None = option(
        "who learns in a mixed team (default: the last named)", default=None, metavar="NAME"
    )
    partners: str | None = option(
        "the frozen members of a mixed team", default=None, metavar="SET", kind="folder"
    )


@asks
class Make:
    folder: Path = needed(_SET, "SET", type=Path, kind="folder")
    env_config: str | None = option(
        "the world they play in (needed)", default=None, metavar="NAME", kind="env-config"
    )
    algs: str = option("algorithms, separated by commas", default="iql,vdn,qmix", metavar="NAMES")
    seeds: str = option("seeds, separated by commas", default="0,1,2", metavar="N,N,...")
    checkpoints: int = option(
        "policies kept of each training, along the way", default=1, metavar="N", least=1
    )
    jobs: int = option("trainings at once", default=1, metavar="N", least=1)
    on: str = option("where: here, ray:auto, ray:HOST:PORT or slurm", default="here", metavar="PLACE")
    train_only: bool = option("write no set: what each of several --jobs does", default=False)
    settings: dict[str, object] = settings_given(factory=dict)


@asks
class Gather:
    folder: Path = needed(_SET, "SET", type=Path, kind="folder")
    runs: tuple[Path, ...] = place(
        "finished runs of one world", "RUN ...", default=(), kind="run", at_least=1
    )


@asks
class Split:
    folder: Path = needed(_SET, "SET", type=Path, kind="folder")
    test_algs: str = option("algorithms met in tests only, separated by commas", default="", metavar="NAMES")
    test_seeds: str = option("seeds met in tests only, separated by commas", default="", metavar="N,N,...")


@asks
class ShowSet:
    folder: Path = needed(_SET, "SET", type=Path, kind="folder")


@asks
class CrossPlayed:
    policies: tuple[str, ...] = place(
        "runs or policy files; none: the partners among themselves", "RUN ...", default=(), kind="run"
    )
    partners: Path | None = option("the partner set", default=None, metavar="SET", kind="folder")
    episodes: int = option("episodes of each pair", default=32, metavar="N", least=1)
    seed: int = option("of the first episode", default=3_000_000, metavar="N", least=0)
    seats: int = option("seats of the evaluated policy", default=1, metavar="N", least=1)
    metric: str | None = option(
        "what the table shows (default: battle_won where there are battles, else return)",
        default=None,
        metavar="NAME",
    )
    out: Path = option(
        "folder for the table and pictures",
        default=Path("cross_play"),
        metavar="DIR",
        short="-o",
        kind="folder",
    )
    panel: Path | None = option(
        "also show the heat map on this run's page", default=None, metavar="RUN", kind="run"
    )
    import_: tuple[str, ...] = option("your own worlds and networks", default=(), metavar="FILE", kind="file")


@asks
class Scripted:
    policy: str | None = option(
        "script/focus, script/nearest, script/random, ...", default=None, metavar="NAME"
    )
    env_config: str | None = option("the world (needed)", default=None, metavar="NAME", kind="env-config")
    episodes: int = option("how many episodes", default=100, metavar="N", least=1)
    seed: int = option("of the first episode", default=3_000_000, metavar="N", least=0)
    settings: dict[str, object] = settings_given(factory=dict)


COMMANDS = (
    Command(
        "partners make",
        "train algorithms x seeds and keep policies along the way",
        Make,
        "twofold.team.commands:make",
        matters=(
            ("trainer.steps=300_000", "environment steps of each training"),
            ("trainer.rows=8", "environments stepped together"),
            ("env_args.id=Foraging-8x8-2p-2f-coop-v3", "which game, with --env-config=lbf"),
            ("env_args.map_name=3m", "which map, with --env-config=skirmish"),
        ),
        examples=(
            "twofold partners make sets/lbf --env-config=lbf --algs=iql,vdn --seeds=0,1 trainer.steps=300_000",
        ),
    ),
    Command(
        "partners gather",
        "the best policies of finished runs as a set",
        Gather,
        "twofold.team.commands:gather",
        examples=("twofold partners gather sets/mine runs/iql runs/vdn",),
    ),
    Command(
        "partners split",
        "declare who is met in training and who only in tests",
        Split,
        "twofold.team.commands:split",
        examples=("twofold partners split sets/lbf --test-algs=vdn",),
    ),
    Command(
        "partners show",
        "who is in a set",
        ShowSet,
        "twofold.team.commands:show",
        examples=("twofold partners show sets/lbf",),
    ),
    Command(
        "eval",
        "play with every partner of a set: table, heat map, adaptation curves",
        CrossPlayed,
        "twofold.team.commands:eval_partners",
        when="partners",
        examples=("twofold eval runs/iql --partners=sets/lbf --episodes=50",),
    ),
    Command(
        "eval",
        "what a policy that nobody trained reaches",
        Scripted,
        "twofold.team.commands:eval_script",
        when="policy",
        examples=("twofold eval --policy=script/focus --env-config=skirmish --episodes=20",),
    ),
)
