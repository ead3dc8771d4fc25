"""Making, splitting and meeting partner sets."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from twofold.assemble import Parts, assemble, torch_as
from twofold.base.errors import ConfigError, UserError
from twofold.base.progress import Quiet
from twofold.base.statistics import half_interval
from twofold.settings.config import flatten, layers_for, resolve
from twofold.store import files
from twofold.store.policy_file import LoadedPolicy, policy_bytes
from twofold.store.run import Run
from twofold.team.seating import Group, Partner, PartnerSet, Seating, read_partners, write_partners
from twofold.team.worlds.partnered import inner_world
from twofold.team.worlds.space import shape_of

Array = Any  # numpy arrays, whose stubs cannot follow reductions and indexing


def make_population(
    folder: Path,
    env_config: str,
    *,
    algorithms: list[str],
    seeds: list[int],
    checkpoints: int,
    settings: dict[str, Any],
    say: Callable[[str], None] = lambda text: None,
) -> PartnerSet:
    """Train algorithms x seeds, keep `checkpoints` policies of each along the way, and write the set."""
    folder.mkdir(parents=True, exist_ok=True)
    partners: list[Partner] = []
    about: dict[str, Any] = {}
    for algorithm in algorithms:
        for seed in seeds:
            made, about = _train_stages(folder, env_config, algorithm, seed, checkpoints, settings, say)
            partners += made
    return write_partners(folder, partners, about, train=[], test=[])


def _train_stages(
    folder: Path,
    env_config: str,
    algorithm: str,
    seed: int,
    stages: int,
    settings: dict[str, Any],
    say: Callable[[str], None],
) -> tuple[list[Partner], dict[str, Any]]:
    """One training, stopped at equal distances to keep its policy; finished stages are not done again."""
    whole = resolve(layers_for(algorithm, env_config, flatten(settings) | {"seed": seed}))
    total, config = whole.config.trainer.steps, whole.config
    made = []
    for stage in range(1, stages + 1):
        name = f"{algorithm}_s{seed}_c{stage}"
        partner = Partner(name, algorithm, folder / f"{name}.safetensors")
        made.append(partner)
        if partner.file.exists():
            continue
        say(f"training {name}")
        steps = flatten(settings) | {"seed": seed, "trainer.steps": total * stage // stages}
        resolved = resolve(layers_for(algorithm, env_config, steps))
        run = Run.create(
            folder / "runs" / f"{algorithm}_s{seed}" / f"c{stage}", resolved, f"partners make {name}"
        )
        _train(run, partner.file, folder / "runs" / f"{algorithm}_s{seed}" / f"c{stage - 1}")
    arguments = {k[len("env_args.") :]: v for k, v in whole.values.items() if k.startswith("env_args.")}
    return made, {"world": config.env, "world_args": arguments, "steps": total, "env_config": env_config}


def _train(run: Run, out: Path, before: Path) -> None:
    """Train a run to its end, from the checkpoint of the stage before, and keep its last policy."""
    if before.exists() and not (run.folder / "checkpoints").exists():
        shutil.copytree(before / "checkpoints", run.folder / "checkpoints")
        for log in ("metrics.jsonl", "evaluations.jsonl"):
            if (before / log).exists():
                shutil.copy(before / log, run.folder / log)
    run.lock()
    parts: Parts | None = None
    try:
        with torch_as(run.resolved.config.threads):
            parts = assemble(run)
            parts.trainer.train(Quiet())
        trainer = parts.trainer
        score = {"step": trainer.steps, "return": trainer.last_return}
        files.replace_bytes(
            out, policy_bytes(run.resolved.values, trainer.learner, trainer.collector.world, score)
        )
    finally:
        if parts is not None:
            parts.close()
        run.close()


def gather_population(folder: Path, runs: list[Path]) -> PartnerSet:
    """A set of the best policies of finished runs, which must all be of one world."""
    if (folder / "partners.json").exists():
        raise UserError(f"{folder} is a partner set already: nothing was touched; give another folder")
    partners: list[Partner] = []
    about: dict[str, Any] = {}
    for path in runs:
        run = Run.open(path)
        values, seed = run.resolved.values, run.resolved.config.seed
        arguments = {k[len("env_args.") :]: v for k, v in values.items() if k.startswith("env_args.")}
        world = {"world": run.resolved.config.env, "world_args": arguments}
        if not (path / "best.safetensors").exists():
            raise UserError(f"{path} has no best policy yet: train it first")
        if about and about != world:
            raise UserError(f"{path} was trained in another world than {runs[0]}: partners share one world")
        about = world
        algorithm = _algorithm_of(run)
        same = sum(p.name.startswith(f"{algorithm}_s{seed}_c") for p in partners)
        name = f"{algorithm}_s{seed}_c{same + 1}"
        partners.append(Partner(name, algorithm, folder / f"{name}.safetensors"))
    folder.mkdir(parents=True, exist_ok=True)
    for path, partner in zip(runs, partners, strict=True):
        files.replace_bytes(partner.file, files.read_regular(path / "best.safetensors"))
    return write_partners(folder, partners, about | {"runs": [path.name for path in runs]}, train=[], test=[])


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
    about = {k: v for k, v in found.about.items() if k != "version"}
    return write_partners(found.folder, list(found.partners), about, train, test)


def kind_of(found: PartnerSet, name: str) -> str:
    """'train', 'homologue' (unseen, of an algorithm that was trained with) or 'non-homologue'."""
    if name in found.train or not found.train:
        return "train"
    algorithms = {p.algorithm for p in found.of(found.train)}
    return "homologue" if found.of((name,))[0].algorithm in algorithms else "non-homologue"


# ---- meeting ------------------------------------------------------------------------------------------------------


def meet(
    world: str,
    world_args: dict[str, Any],
    first: LoadedPolicy,
    second: LoadedPolicy,
    *,
    episodes: int,
    seed: int,
    seats: int = 1,
) -> dict[str, Array]:
    """Episodes in which `first` has `seats` seats and `second` the rest: returns [E] and rewards [E, limit].

    `first` may be a policy of the whole team, or one trained on the seats that partners left free.
    """
    inner = inner_world(world, world_args, episodes, "eval")
    shape = shape_of(inner.single_observation_space)
    own = shape_of(first.observation_space)
    whole = own.agents == shape.agents and own.obs == shape.obs
    policies = [first, second] if whole else [second]
    groups = (
        [Group(seats, (0,)), Group(shape.agents - seats, (1,))]
        if whole
        else [Group(shape.agents - seats, (0,))]
    )
    free = 0 if whole else own.agents
    seating = Seating(policies, groups, agents=shape.agents, free=free, rows=episodes, rotate=True)
    learner = (
        None if whole else first.learner.policy(explore=False, rows=episodes, rng=np.random.default_rng(0))
    )
    seeds = [seed + i for i in range(episodes)]
    everyone = np.ones(episodes, bool)
    obs, _ = inner.reset(seed=seeds, options={"reset_mask": everyone})
    for row, one in enumerate(seeds):
        seating.deal(row, one)
    seating.reset(everyone)
    if learner is not None:
        learner.reset(everyone)
    rewards, over = np.zeros((episodes, shape.limit)), np.zeros(episodes, bool)
    won = np.full(episodes, np.nan)
    for t in range(shape.limit):
        actions = (
            np.zeros((episodes, 0), np.int64) if learner is None else learner.act(_seat_view(obs, seating))
        )
        obs, reward, terminated, truncated, info = inner.step(seating.fill(obs, actions))
        rewards[:, t] = np.where(over, 0.0, reward)
        ends = (terminated | truncated) & ~over
        if "battle_won" in info.get("episode", {}):
            won[ends] = info["episode"]["battle_won"][ends]
        over |= ends
        if over.all():
            break
    inner.close()
    return {"return": rewards.sum(-1), "rewards": rewards, "battle_won": won}


def _seat_view(obs: dict[str, Array], seating: Seating) -> dict[str, Array]:
    seats, rows = seating.order[:, : seating.free], np.arange(len(seating.order))[:, None]
    number = np.eye(seating.agents, dtype=np.float32)[seats]
    view = {"obs": np.concatenate([obs["obs"][rows, seats], number], -1), "avail": obs["avail"][rows, seats]}
    return {**obs, **view}


def cross_play(
    found: PartnerSet, policies: dict[str, LoadedPolicy], *, episodes: int, seed: int, seats: int = 1
) -> tuple[Array, Array, dict[str, Array]]:
    """Mean returns [policies, partners], half intervals of 95 %, and mean reward curves by kind of partner."""
    world, arguments = found.about["world"], found.about["world_args"]
    mean = np.zeros((len(policies), len(found.partners)))
    half = np.zeros_like(mean)
    curves: dict[str, list[Array]] = {}
    for column, partner in enumerate(found.partners):
        second = partner.load()
        for row, (name, first) in enumerate(policies.items()):
            met = meet(world, arguments, first, second, episodes=episodes, seed=seed, seats=seats)
            returns = met["return"]
            mean[row, column] = returns.mean()
            half[row, column] = half_interval(float(returns.std(ddof=1)) if episodes > 1 else 0.0, episodes)
            curves.setdefault(f"{name} with {kind_of(found, partner.name)}", []).append(
                met["rewards"].cumsum(-1)
            )
    return mean, half, {name: np.concatenate(parts) for name, parts in curves.items()}


def draw_cross_play(mean: Array, half: Array, rows: list[str], columns: list[str], path: Path) -> None:
    """The matrix as a heat map with its numbers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(2 + 0.9 * len(columns), 1.5 + 0.6 * len(rows)))
    image = axes.imshow(mean, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    middle = (mean.max() + mean.min()) / 2
    for i, j in np.ndindex(*mean.shape):
        colour = "black" if mean[i, j] > middle else "white"
        axes.text(
            j, i, f"{mean[i, j]:.2f}\n±{half[i, j]:.2f}", ha="center", va="center", color=colour, fontsize=7
        )
    figure.colorbar(image, label="return")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_adaptation(curves: dict[str, Array], path: Path) -> None:
    """Return so far over the steps since a partner was met, mean and 95 % interval."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, curve in curves.items():
        mean = curve.mean(0)
        half = 1.96 * curve.std(0, ddof=1) / np.sqrt(len(curve)) if len(curve) > 1 else np.zeros_like(mean)
        axes.plot(mean, label=f"{name} ({len(curve)} episodes)")
        axes.fill_between(range(len(mean)), mean - half, mean + half, alpha=0.2)
    axes.set_xlabel("steps since the partner was met")
    axes.set_ylabel("return so far")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


__all__ = [
    "cross_play",
    "draw_adaptation",
    "draw_cross_play",
    "gather_population",
    "make_population",
    "meet",
    "read_partners",
    "split_partners",
]
