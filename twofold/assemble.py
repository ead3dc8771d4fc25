"""Putting a run together, in one place: the command line, Python, partners, experiments and benchmarks call it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from twofold.base.errors import UserError, WorldError
from twofold.base.foreign import AnySpace
from twofold.base.progress import Progress, Quiet, Standing, Watching, task
from twofold.base.regular import is_there
from twofold.base.statistics import summaries
from twofold.base.values import Json, number
from twofold.core.evaluate import evaluate
from twofold.core.experience import Item
from twofold.core.protocols import AnyLearner, Summary, World
from twofold.core.seeding import TEST, Generators, generator
from twofold.core.trainer import Trainer
from twofold.rows.check import Resumable
from twofold.rows.envs import EnvRows
from twofold.rows.world import evaluation_names, make_world
from twofold.sampling.choose import make_replay
from twofold.settings.config import Config, Layer, Resolved, resolve
from twofold.settings.registry import worlds
from twofold.settings.shares import counted
from twofold.show.play import play, viewed_world, write_video
from twofold.show.plot import draw_curve
from twofold.store.columns import Columns, numbers
from twofold.store.counted import Counted
from twofold.store.keeper import RunKeeper
from twofold.store.policy_file import LoadedPolicy, load_policy, make_learner
from twofold.store.run import Run
from twofold.store.spaces import difference

log = logging.getLogger("twofold")
MOST_EPISODES = 1_000_000
Scores = dict[str, dict[str, Summary]]  # world -> metric -> its mean, spread and interval


@contextmanager
def torch_as(threads: int) -> Iterator[None]:
    """How torch computes inside; the caller's way afterwards."""
    before, flushing = torch.get_num_threads(), _flushes_denormals()
    torch.set_num_threads(threads)
    # Moments of silent units decay to denormals, which are a hundred times slower.
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(flushing)


def _flushes_denormals() -> bool:
    return float(torch.tensor([1e-310], dtype=torch.float64).mul(1.0)) == 0.0


@dataclass
class Parts:
    """A run that is put together: what trains it, and what keeps it."""

    trainer: Trainer[Any]  # Any: of the learner's own items, as in AnyLearner
    keeper: RunKeeper

    def close(self) -> None:
        self.trainer.collector.world.close()
        for world in self.trainer.evaluations.values():
            world.close()


def assemble(run: Run, imports: tuple[str, ...] = ()) -> Parts:
    """All parts of a run from its config."""
    config = run.resolved.config
    world = make_world(config, purpose="train", rows=config.trainer.rows, imports=imports)
    if not isinstance(world, Resumable):
        raise WorldError(
            f"the world '{config.env}' lacks `snapshot` and `restore`: no run of it could be saved"
        )
    evaluations = {
        name: make_world(config, purpose=name, rows=config.trainer.eval_rows)
        for name in evaluation_names(config)
    }
    rngs = Generators(config.seed)
    learner = _learner(counted(config, world), world, rngs)
    keeper = RunKeeper(run)
    blank = learner.writer(world.num_envs).blank()
    replay = make_replay(config.replay, learner, blank, rngs["replay"])
    size = config.replay.batch_size
    trainer = Trainer(config.trainer, learner, replay, size, world, evaluations, keeper, rngs)
    return Parts(trainer, keeper)


def _learner(config: Config, world: World, rngs: Generators) -> AnyLearner:
    spaces = world.single_observation_space, world.single_action_space
    try:
        return make_learner(config, *spaces, rngs, config.device)
    except RuntimeError as error:
        if "alloc" not in str(error) and "storage" not in str(error):
            raise
        raise UserError(
            "networks of this size do not fit into this machine's memory: lower networks.*"
        ) from None


def watching(progress: Progress, trainer: Trainer[Item]) -> Progress:
    """The progress, which may look at the trainer whenever it likes."""

    def look() -> Standing:
        learning = trainer.steps >= trainer.cfg.warmup
        return Standing(trainer.steps, learning, trainer.last_return, trainer.keeper.best)

    if isinstance(progress, Watching):
        progress.watch(look)
    return progress


@dataclass
class Trained:
    """A run directory, finished or not: what `train` returns and `load_run` opens."""

    folder: Path
    test: Scores = field(default_factory=dict)  # of the best policy at the end, on seeds that chose nothing
    imports: tuple[str, ...] = ()

    @cached_property
    def policy(self) -> LoadedPolicy:
        """The best policy by validation."""
        return load_policy(self.folder)

    @property
    def settings(self) -> dict[str, object]:
        """Every setting by its dotted name."""
        return dict(Run.open(self.folder).resolved.values)

    @property
    def step(self) -> int:
        """The world steps of the newest checkpoint."""
        return max(Run.open(self.folder).checkpoints.steps(), default=0)

    @property
    def finished(self) -> bool:
        """Whether it has come to its last step."""
        return self.step >= Run.open(self.folder).resolved.config.trainer.steps

    def evaluate(self, episodes: int = 20, seed: int = TEST + 1_000_000) -> Scores:
        """Scores of the best policy on fresh seeds: world -> metric -> mean, std, low, high, min, episodes."""
        return score(self.policy, episodes, seed)

    def metrics(self) -> Columns:
        """What was logged while it trained, as arrays by name; `.frame()` makes a pandas data frame of them."""
        return Columns.of([numbers(record) for record in Run.open(self.folder).metrics.read()])

    def evaluations(self, world: str | None = None, what: str = "mean") -> Columns:
        """The validation curve: the `what` (mean, std, low, high, min) of every metric in a world (the first)."""
        records = Run.open(self.folder).evaluations.read()
        chosen = world or next((record["world"] for record in records), None)
        return Columns.of([_flat(record, what) for record in records if record["world"] == chosen])

    def resume(self, steps: int | None = None, progress: Progress | None = None) -> Trained:
        """Train from the newest checkpoint to the end, or to a later end than it had."""
        self.__dict__.pop("policy", None)
        run = Run.open(self.folder)
        if steps is not None and steps != run.resolved.config.trainer.steps:
            longer = Layer("resume", {"trainer.steps": steps})
            resolved = resolve([Layer(str(self.folder), run.resolved.values), longer])
            run = Run.create(self.folder, resolved, "twofold.load_run")
        self.test = run_to_end(run, self.imports, progress).test
        return self

    def video(self, out: str | Path = "play.mp4", seed: int = TEST + 1_000_000) -> Path:
        """Film one episode of the best policy, as an mp4 or a small GIF by the name."""
        world, cannot = viewed_world(self.policy.config, "rgb_array")
        if world is None:
            raise UserError(f"no video: rendering is impossible here ({cannot})")
        fits(self.policy, world)
        self.policy.reset()
        try:
            frames, _ = play(world, self.policy.policy, seed, frames=True)
            return write_video(frames, Path(out), frames_per_second(world))
        finally:
            world.close()


def _flat(record: dict[str, Json], what: str) -> dict[str, float]:
    """A line of the evaluations as step and one number for each metric."""
    found = {name: number(values, what) for name, values in record.items() if isinstance(values, dict)}
    return {"step": number(record, "step"), **found}


def frames_per_second(world: World) -> int:
    """As fast as the world says that it runs; ten pictures a second where it says nothing."""
    if not isinstance(world, EnvRows):
        return 10
    return max(round(1 / world.step_seconds), 1) if world.step_seconds else 30


def new_folder(resolved: Resolved, root: Path, config: str | None, env_config: str | None) -> Path:
    """runs/ENV_CONFIG/NAME_seedN_TIME: a new name every time."""
    env = Path(env_config or "default").stem
    name = f"{Path(config or 'default').stem}_seed{resolved.config.seed}_{time.strftime('%Y%m%d-%H%M%S')}"
    folder, n = root / env / name, 1
    while is_there(folder):
        n += 1
        folder = root / env / f"{name}_{n}"
    return folder


def run_to_end(
    run: Run,
    imports: tuple[str, ...] = (),
    progress: Progress | None = None,
    on_folder: Callable[[Path], None] | None = None,
) -> Trained:
    """Lock the run directory, train from where it is to the end, test the best policy, draw the curve."""
    with torch_as(run.resolved.config.threads):
        pieces = in_pieces(run, imports, progress, on_folder)
        try:
            while True:
                next(pieces)
        except StopIteration as end:
            return Trained(run.folder, end.value, imports)


def in_pieces(
    run: Run,
    imports: tuple[str, ...] = (),
    progress: Progress | None = None,
    on_folder: Callable[[Path], None] | None = None,
) -> Generator[Parts, None, Scores]:
    """The same, giving way after every log line; closed there, the run is saved and can be resumed."""
    with run.held():
        if (test := run.test_scores()) is not None:
            run.journal.finish()
            return test
        with run.journal.session(run.command):
            return (yield from _train(run, imports, progress or Quiet(), on_folder))


def _train(
    run: Run, imports: tuple[str, ...], progress: Progress, on_folder: Callable[[Path], None] | None
) -> Generator[Parts, None, Scores]:
    parts = assemble(run, imports)
    try:
        if on_folder:
            on_folder(run.folder)
        with closing(parts.trainer.iterate(watching(progress, parts.trainer))) as training:
            for _ in training:
                yield parts
        parts.keeper.choose(parts.trainer)
        _draw(run)
        tested = run.resolved.config.trainer.test_episodes > 0
        return parts.keeper.test(parts.trainer) if tested else {}
    finally:
        parts.close()


def _draw(run: Run) -> None:
    """The learning curve of what the world is about; of the return where an evaluation has no such metric.

    It only shows what the log holds: where it cannot be drawn, that is told and the run comes to its end.
    """
    metric = run.resolved.config.trainer.headline
    try:
        known = all(metric in record for record in run.evaluations.read())
        draw_curve(run.folder, run.folder / "curve.png", metric if known else "return")
    except (OSError, UserError) as error:
        log.error("the learning curve is not drawn: %s", error)


def score(policy: LoadedPolicy, episodes: int, seed: int) -> Scores:
    """A policy's scores in every evaluation world, on `episodes` seeds from `seed` on."""
    if not 1 <= episodes <= MOST_EPISODES:
        raise UserError(f"the number of episodes must be from 1 to {MOST_EPISODES:,}, got {episodes}")
    first_seed(seed)
    config, found = policy.config, {}
    with torch_as(config.threads):
        for name in evaluation_names(config):
            world = world_of(policy, name, min(config.trainer.eval_rows, episodes))
            greedy = policy.learner.policy(explore=False, rows=world.num_envs, rng=generator(0, "evaluation"))
            with task(f"evaluating {name}", episodes) as tell:
                seeds = [seed + i for i in range(episodes)]
                found[name] = summaries(evaluate(world, Counted(greedy, tell), seeds))
            world.close()
    return found


def first_seed(seed: int) -> int:
    """The seed of a first episode, which worlds must be able to take."""
    if not 0 <= seed < 2**31 - MOST_EPISODES:
        raise UserError(f"a seed must be from 0 to {2**31 - MOST_EPISODES - 1:,}, got {seed}")
    return seed


def world_of(policy: LoadedPolicy, purpose: str, rows: int) -> World:
    """The world that a policy was trained for, made anew from its settings."""
    could_be(policy)
    world = make_world(policy.config, purpose=purpose, rows=rows)
    fits(policy, world)
    return world


def could_be(policy: LoadedPolicy) -> None:
    """Refuse a policy whose spaces cannot be those of the world that it names, before that world is made."""
    check = worlds.get(policy.config.env).could_be
    if check is not None and not check(policy.config.env_args, policy.action_space):
        raise UserError(
            f"{policy.source} names the world '{policy.config.env}', but its actions cannot be of that world"
        )


def fits(policy: LoadedPolicy, world: World) -> None:
    """Refuse a policy that was trained for other observations or actions than the world's."""
    ours = (("observation", policy.observation_space), ("action", policy.action_space))
    theirs: tuple[AnySpace, ...] = (world.single_observation_space, world.single_action_space)
    for (kind, own), space in zip(ours, theirs, strict=True):
        if wrong := difference(own, space):
            raise UserError(
                f"the {kind}s that the policy was trained for are not this world's: {wrong}; "
                "it is not the world of this policy"
            )


def untrained(config: Config, policy: LoadedPolicy) -> AnyLearner:
    """The learner that a policy began as."""
    rngs = Generators(config.seed)
    return make_learner(config, policy.observation_space, policy.action_space, rngs)
