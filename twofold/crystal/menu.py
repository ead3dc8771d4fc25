"""The domain's commands: what each asks for, and examples that work."""

from __future__ import annotations

from pathlib import Path

from twofold.base.command import Command, asks, needed, option, place

_FILES = "files that ASE reads, CSVs of CIF text, or crystals such as 'Cu*2x2x2'"
_BATCH = "folders, 'globs/*.cif', files that ASE reads (FILE@-1: one image), or crystals such as 'Cu*2x2x2'"
_CALCULATOR = (
    "who gives the forces: emt, eam:FILE, chgnet, mace, xtb, espresso:..., or your own MODULE:FUNCTION"
)
_FMAX = "largest force allowed, eV/A"
_RATTLE = "displace the start by this standard deviation, A"
_CELL = "relax the cell too (FrechetCellFilter)"


@asks
class Start:
    """What every relaxation is asked."""

    structures: tuple[str, ...] = place(_FILES, "FILE ...", default=(), kind="file", at_least=1)
    calculator: str = option(_CALCULATOR, default="emt", metavar="NAME")
    fmax: float = option(_FMAX, default=0.01, metavar="X", least=0)
    steps: int = option("most steps", default=500, metavar="N", least=1)
    cell: bool = option(_CELL, default=False)
    rattle: float = option(_RATTLE, default=0.0, metavar="X", least=0)
    seed: int = option("of the displacement", default=0, metavar="N", least=0)
    import_: tuple[str, ...] = option(
        "your own code, with a function that makes a calculator", default=(), metavar="FILE", kind="file"
    )


@asks
class Relax(Start):
    structures: tuple[str, ...] = place(_BATCH, "PLACE ...", default=(), kind="file", at_least=1)
    table: Path | None = option(
        "keep the rows as CSV; given again, finished ones are kept", default=None, metavar="FILE", kind="file"
    )
    jobs: int = option("structures at once", default=1, metavar="N", least=1)
    on: str = option("where: here, ray:auto, ray:HOST:PORT or slurm", default="here", metavar="PLACE")
    out: str | None = option(
        "output file, or a folder (ends with /) for many structures", default=None, short="-o", kind="file"
    )
    optimizer: str = option("td3, td3_bfgs, prior, bfgs, fire, ...", default="td3", metavar="NAME")
    trajectory: str | None = option(
        "ASE trajectory of the path (one structure only)", default=None, metavar="FILE", kind="file"
    )
    quiet: bool = option("no progress line", default=False)


@asks
class RelaxCompare(Start):
    methods: str | None = option("separated by commas (default: all)", default=None, metavar="NAMES")
    seeds: int = option("displaced starts per structure (needs --rattle)", default=1, metavar="N", least=1)
    out: Path = option(
        "folder for table, plot and page",
        default=Path("relax-compare"),
        metavar="DIR",
        short="-o",
        kind="folder",
    )
    panel: Path | None = option(
        "also show the first path of td3 on this run's page", default=None, metavar="RUN", kind="run"
    )


@asks
class RelaxExport:
    run: Path = needed(
        "a run directory of crystal/spring, or a policy file to measure anew", "RUN", type=Path, kind="run"
    )
    out: Path | None = option(
        "policy file (default RUN/relaxer.safetensors)", default=None, metavar="FILE", short="-o", kind="file"
    )
    starts: int = option(
        "of training, relaxed with the policy and without: they say what it is asked about",
        default=600,
        metavar="N",
        least=2,
    )
    env_config: str | None = option(
        "starts of this preset in place of its training's", default=None, metavar="NAME"
    )
    default: bool = option("into the package: what TD3Relaxer takes by itself", default=False)


COMMANDS = (
    Command(
        "relax",
        "relax crystal structures in few force calls",
        Relax,
        "twofold.crystal.commands:relax",
        more="td3 is our optimiser with its trained policy, prior the same without it. Bad structures are named and "
        "the others continue; the exit code is 0 only if every structure was relaxed to --fmax. A table keeps each row "
        "as soon as it is known: the same command continues where it was, and tries again what failed.",
        examples=(
            "twofold relax 'Cu*2x2x2' --rattle=0.1 --out=relaxed.cif",
            "twofold relax relaxed.cif --optimizer=bfgs --fmax=0.005 --trajectory=path.traj",
            "twofold relax relaxed.cif 'Ni*2x2x2' --cell --out=relaxed/",
            "twofold relax relaxed/ path.traj@-1 --table=results.csv --jobs=2",
        ),
    ),
    Command(
        "relax-compare",
        "optimisers from the same starts, by exact force calls",
        RelaxCompare,
        "twofold.crystal.commands:relax_compare",
        more="Writes table.md, runs.json, forces.png and page.html (trajectories to turn and play, in one file).",
        examples=(
            "twofold relax-compare 'Cu*2x2x2' --rattle=0.1 --methods=td3,bfgs,fire --seeds=2 --out=comparison",
        ),
    ),
    Command(
        "relax-export",
        "a run's policy for the relaxer",
        RelaxExport,
        "twofold.crystal.commands:relax_export",
        more="An ordinary policy file for TD3Relaxer(atoms, policy=FILE); it also holds the command, seed, versions, "
        "data and scores of the run, and observations of training: where a relaxation is further from all of them "
        "than fresh starts of training are, or the policy gained nothing near by, the untrained step is taken.",
        examples=(
            "twofold train --config=td3_crystal --env-config=crystal --run=runs/springs trainer.steps=2_000",
            "twofold relax-export runs/springs --out=mine.safetensors --starts=100",
        ),
    ),
)
