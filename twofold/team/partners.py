"""Making, gathering and splitting partner sets."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from twofold.assemble import Parts, assemble, torch_as, watching
from twofold.base.errors import ConfigError, UserError
from twofold.base.progress import training
from twofold.settings.config import Resolved, layers_for, resolve
from twofold.settings.presets import flatten
from twofold.store import files
from twofold.store.policy_file import policy_bytes
from twofold.store.run import Run
from twofold.team.sets import About, Partner, PartnerSet, write_partners
from twofold.team.worlds.space import Values


def make_population(
    folder: Path,
    env_config: str,
    *,
    algorithms: list[str],
    seeds: list[int],
    checkpoints: int,
    settings: Values,
    say: Callable[[str], None] = lambda text: None,
) -> PartnerSet:
    """Train algorithms x seeds, keep `checkpoints` policies of each along the way, and write the set.

    What is finished is not done again; a signal stops it like any training, and the same call goes on.
    """
    partners: list[Partner] = []
    about: About | None = None
    for algorithm in algorithms:  # what is wrong with any of them is said before the first is trained
        resolve(layers_for(algorithm, env_config, flatten(settings)))
    folder.mkdir(parents=True, exist_ok=True)
    for algorithm in algorithms:
        for seed in seeds:
            given = flatten(settings) | {"seed": seed}
            whole = resolve(layers_for(algorithm, env_config, given))
            steps = whole.config.trainer.steps
            world, arguments = _world(whole)
            about = About(world=world, world_args=arguments, steps=steps, env_config=env_config)
            for stage in range(1, checkpoints + 1):
                name = f"{algorithm}_s{seed}_c{stage}"
                partners.append(Partner(name, algorithm, folder / f"{name}.safetensors"))
                if not partners[-1].file.exists():
                    say(f"training {name}")
                    shorter = given | {"trainer.steps": steps * stage // checkpoints}
                    resolved = resolve(layers_for(algorithm, env_config, shorter))
                    _train_stage(folder / "runs" / f"{algorithm}_s{seed}", stage, resolved, partners[-1])
    if about is None:
        raise UserError("name at least one algorithm and one seed")
    return write_partners(folder, partners, about, train=[], test=[])


def _world(resolved: Resolved) -> tuple[str, Values]:
    """The world of a run, and its settings by dotted name."""
    prefix, values = "env_args.", resolved.values
    return resolved.config.env, {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def _train_stage(runs: Path, stage: int, resolved: Resolved, partner: Partner) -> None:
    """Train up to a stage, from the checkpoint of the stage before, and keep the last policy."""
    run = Run.create(runs / f"c{stage}", resolved, f"partners make {partner.name}")
    _begin_where(runs / f"c{stage - 1}", run)
    with run.held(), run.journal.session(run.command), torch_as(run.resolved.config.threads):
        files.replace_bytes(partner.file, _last_policy(assemble(run), run))


def _last_policy(parts: Parts, run: Run) -> bytes:
    """Train to the end; the policy as it is then."""
    trainer = parts.trainer
    try:
        trainer.train(watching(training(), trainer))
        score = {"step": trainer.steps, "return": trainer.last_return}
        return policy_bytes(run.resolved.values, trainer.learner, trainer.collector.world, score)
    finally:
        parts.close()


def _begin_where(before: Path, run: Run) -> None:
    """Give a run that has no checkpoint yet those of the stage before."""
    if before.exists() and not (run.folder / "checkpoints").exists():
        shutil.copytree(before / "checkpoints", run.folder / "checkpoints")
        for log in ("metrics.jsonl", "evaluations.jsonl"):
            if (before / log).exists():
                shutil.copy(before / log, run.folder / log)


def gather_population(folder: Path, runs: list[Path]) -> PartnerSet:
    """A set of the best policies of finished runs, which must all be of one world."""
    if (folder / "partners.json").exists():
        raise UserError(f"{folder} is a partner set already: nothing was touched; give another folder")
    partners: list[Partner] = []
    about: tuple[str, Values] | None = None
    for path in runs:
        run = Run.open(path)
        if not (path / "best.safetensors").exists():
            raise UserError(f"{path} has no best policy yet: train it first")
        if about not in (None, _world(run.resolved)):
            raise UserError(f"{path} was trained in another world than {runs[0]}: partners share one world")
        about = _world(run.resolved)
        stem = f"{_algorithm_of(run)}_s{run.resolved.config.seed}_c"
        name = f"{stem}{1 + sum(p.name.startswith(stem) for p in partners)}"
        partners.append(Partner(name, _algorithm_of(run), folder / f"{name}.safetensors"))
    if about is None:
        raise UserError("name at least one run")
    folder.mkdir(parents=True, exist_ok=True)
    for path, partner in zip(runs, partners, strict=True):
        files.replace_bytes(partner.file, files.read_regular(path / "best.safetensors"))
    names = tuple(path.name for path in runs)
    said = About(world=about[0], world_args=about[1], runs=names)
    return write_partners(folder, partners, said, train=[], test=[])


def _algorithm_of(run: Run) -> str:
    """The preset that a run was trained with, by its file in conf/algs."""
    named = {Path(o).stem for o in run.resolved.origin.values() if o.startswith("algs/")}
    return named.pop() if len(named) == 1 else str(run.resolved.values["learner.name"]).split("/")[-1]


def split_partners(found: PartnerSet, *, test_algorithms: list[str], test_seeds: list[int]) -> PartnerSet:
    """Declare test partners: those of other algorithms (non-homologue) or other seeds (homologue)."""

    def is_test(partner: Partner) -> bool:
        seed = int(partner.name.rsplit("_s", 1)[1].split("_c")[0])
        return partner.algorithm in test_algorithms or seed in test_seeds

    test = [p.name for p in found.partners if is_test(p)]
    train = [p.name for p in found.partners if not is_test(p)]
    if not test or not train:
        raise ConfigError("this split leaves nobody to train with or nobody to test with")
    return write_partners(found.folder, list(found.partners), found.about, train, test)
