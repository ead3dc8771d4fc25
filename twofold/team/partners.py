"""Making, gathering and splitting partner sets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from twofold.assemble import Parts, assemble, torch_as, watching
from twofold.base.errors import ConfigError, UserError
from twofold.base.foreign_json import MAX_LOG_BYTES
from twofold.base.progress import training
from twofold.base.regular import is_there, read_regular
from twofold.settings.config import Resolved, layers_for, resolve
from twofold.settings.presets import flatten
from twofold.store import files
from twofold.store.policy_file import policy_bytes
from twofold.store.run import Run
from twofold.team.sets import About, Partner, PartnerSet, write_partners
from twofold.team.worlds.space import Values

OURS = ("partners.json", "runs", "*.safetensors")


@dataclass(frozen=True)
class Population:
    """Algorithms x seeds in a world, with policies kept along the way of each training."""

    folder: Path
    env_config: str
    algorithms: Sequence[str]
    seeds: Sequence[int]
    checkpoints: int
    settings: Values

    def check(self) -> None:
        """Say what is wrong with any of them before the first is trained."""
        if not self.algorithms or not self.seeds:
            raise UserError("name at least one algorithm and one seed")
        for algorithm in self.algorithms:
            self.resolved(algorithm, self.seeds[0])

    def resolved(self, algorithm: str, seed: int, stage: int | None = None) -> Resolved:
        """The settings of a training, up to a stage or to its end."""
        given = flatten(self.settings) | {"seed": seed}
        whole = resolve(layers_for(algorithm, self.env_config, given))
        if stage is None:
            return whole
        steps = whole.config.trainer.steps * stage // self.checkpoints
        return resolve(layers_for(algorithm, self.env_config, given | {"trainer.steps": steps}))

    def runs(self, algorithm: str, seed: int) -> Path:
        """Where the stages of a training lie."""
        return self.folder / "runs" / f"{algorithm}_s{seed}"

    def partners(self, algorithm: str, seed: int) -> list[Partner]:
        """The policies of a training, in their order."""
        names = [f"{algorithm}_s{seed}_c{stage}" for stage in range(1, self.checkpoints + 1)]
        return [Partner(name, algorithm, self.folder / f"{name}.safetensors") for name in names]

    def train(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Train them one after the other; what is finished is not done again, a signal stops it like any training."""
        self.check()
        files.own_folder(self.folder, *OURS)
        for algorithm, seed in product(self.algorithms, self.seeds):
            for stage, partner in enumerate(self.partners(algorithm, seed), 1):
                if not is_there(partner.file):
                    say(f"training {partner.name}")
                    resolved = self.resolved(algorithm, seed, stage)
                    _train_stage(self.runs(algorithm, seed), stage, resolved, partner)

    def write(self) -> PartnerSet:
        """The set of all that were trained."""
        whole = self.resolved(self.algorithms[-1], self.seeds[-1])
        world, arguments = _world(whole)
        steps = whole.config.trainer.steps
        about = About(world=world, world_args=arguments, steps=steps, env_config=self.env_config)
        both = product(self.algorithms, self.seeds)
        partners = [partner for algorithm, seed in both for partner in self.partners(algorithm, seed)]
        return write_partners(self.folder, partners, about, train=[], test=[])


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
    wanted = Population(folder, env_config, algorithms, seeds, checkpoints, settings)
    wanted.train(say)
    return wanted.write()


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
    if is_there(before) and not is_there(run.folder / "checkpoints"):
        # Links stay links, which are refused when they are read.
        shutil.copytree(before / "checkpoints", run.folder / "checkpoints", symlinks=True)
        for log in ("metrics.jsonl", "evaluations.jsonl"):
            if is_there(before / log):
                files.replace_bytes(run.folder / log, read_regular(before / log, MAX_LOG_BYTES))


def gather_population(folder: Path, runs: list[Path]) -> PartnerSet:
    """A set of the best policies of finished runs, which must all be of one world."""
    if is_there(folder / "partners.json"):
        raise UserError(f"{folder} is a partner set already: nothing was touched; give another folder")
    partners: list[Partner] = []
    about: tuple[str, Values] | None = None
    for path in runs:
        run = Run.open(path)
        if not is_there(path / "best.safetensors"):
            raise UserError(f"{path} has no best policy yet: train it first")
        if about not in (None, _world(run.resolved)):
            raise UserError(f"{path} was trained in another world than {runs[0]}: partners share one world")
        about = _world(run.resolved)
        stem = f"{_algorithm_of(run)}_s{run.resolved.config.seed}_c"
        name = f"{stem}{1 + sum(p.name.startswith(stem) for p in partners)}"
        partners.append(Partner(name, _algorithm_of(run), folder / f"{name}.safetensors"))
    if about is None:
        raise UserError("name at least one run")
    files.own_folder(folder, *OURS)
    for path, partner in zip(runs, partners, strict=True):
        files.replace_bytes(partner.file, read_regular(path / "best.safetensors", 1 << 30))
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
        seed = re.search(r"_s([0-9]{1,18})_c", partner.name)  # names that others gave may have none
        known = seed is not None and int(seed[1]) in test_seeds
        return partner.algorithm in test_algorithms or known

    test = [p.name for p in found.partners if is_test(p)]
    train = [p.name for p in found.partners if not is_test(p)]
    if not test or not train:
        raise ConfigError("this split leaves nobody to train with or nobody to test with")
    return write_partners(found.folder, list(found.partners), found.about, train, test)
