"""The loop: collect, update, evaluate, save. Every moment of it can be stopped and resumed, bit for bit."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from typing import Generic, Literal

from twofold.base import finite
from twofold.base.errors import ConfigError
from twofold.base.progress import Progress, Quiet
from twofold.base.setting import setting, settings
from twofold.base.signals import Signals, Stopped
from twofold.base.statistics import summaries
from twofold.core import seeding
from twofold.core.collect import Collector, EarlyLimit
from twofold.core.evaluate import Interrupted, evaluate
from twofold.core.experience import Item
from twofold.core.protocols import Keeper, Learner, Metrics, Policy, State, World
from twofold.core.replay import Ring

log = logging.getLogger("twofold")
SinkName = Literal["tensorboard", "csv", "wandb", "mlflow"]


@settings
class TrainerConfig:
    """How long, how wide, how often."""

    steps: int = setting(
        "environment steps of the whole run",
        default=1_000_000,
        gt=0,
        unit="steps",
        aliases=("t_max", "max_timesteps", "train_total_steps"),
    )
    rows: int = setting(
        "copies of the environment that are stepped together",
        default=1,
        gt=0,
        le=1_000_000,
        aliases=("num_envs", "batch_size_run", "training_num"),
    )
    workers: int = setting("worker processes for the rows; 0: none", default=0, ge=0, neutral=True)
    engine: Literal["process", "ray"] = setting("where workers live", default="process", neutral=True)
    hang_limit: float = setting(
        "seconds until a silent worker is restarted", default=30.0, gt=0, le=1e6, neutral=True
    )
    max_restarts: int = setting("failures of workers that a run survives", default=10, ge=0, neutral=True)
    restart_window: float = setting("... within these seconds", default=600.0, gt=0, le=1e9, neutral=True)
    warmup: int = setting(
        "random steps before learning begins",
        default=25_000,
        ge=0,
        unit="steps",
        aliases=("start_timesteps", "learning_starts", "start_steps"),
    )
    early_limit: int | None = setting(
        "training episodes end after this many steps early in the run, as by a time limit; null: the world's own",
        default=None,
        ge=1,
        unit="steps",
    )
    early_limit_share: float = setting(
        "... while this share of the run after its warm-up lasts", default=0.4, gt=0, le=1
    )
    updates_per_item: float = setting(
        "gradient updates for each new item of the replay buffer",
        default=1.0,
        ge=0,
        le=10_000,
        aliases=("updates_per_step", "update_per_step", "utd"),
    )
    eval_every: int = setting(
        "steps between evaluations",
        default=5_000,
        gt=0,
        unit="steps",
        aliases=("test_interval", "eval_freq", "test_every_steps"),
    )
    eval_episodes: int = setting(
        "episodes of an evaluation", default=10, gt=0, le=1_000_000, aliases=("test_nepisode", "test_num")
    )
    eval_rows: int = setting(
        "copies of the environment in an evaluation; more where it steps them in one call",
        default=1,
        gt=0,
        le=1_000_000,
    )
    finalists: int = setting(
        "the best few by validation, among which a second validation chooses", default=1, gt=0
    )
    finalist_episodes: int = setting(
        "episodes of the second validation, on other seeds", default=400, gt=0, le=1_000_000
    )
    stop_at: float | None = setting("stop early once a validation return reaches this", default=None)
    test_episodes: int = setting(
        "episodes of the final test, on seeds that nothing was chosen on", default=100, ge=0, le=1_000_000
    )
    log_every: int = setting(
        "steps between log lines", default=1_000, gt=0, unit="steps", aliases=("log_interval",)
    )
    save_every: int = setting("steps between checkpoints, or ...", default=10_000, gt=0, neutral=True)
    save_seconds: float = setting("... seconds, if sooner", default=60.0, gt=0, le=1e9, neutral=True)
    keep_checkpoints: int = setting("checkpoints kept", default=2, gt=0, le=1_000, neutral=True)
    headline: str = setting("the metric of the evaluations that logs and curves show", default="return")
    tensorboard: bool = setting("write TensorBoard's files, too", default=True, neutral=True)
    sinks: tuple[SinkName, ...] = setting(
        "further places that metrics are written to", default=(), aliases=("log",), neutral=True
    )

    def early(self) -> EarlyLimit | None:
        """The limit of training's first episodes, counted for this run."""
        if self.early_limit is None:
            return None
        learning = max(self.steps - self.warmup, 0)
        return EarlyLimit(self.early_limit, self.warmup + round(self.early_limit_share * learning))

    def __post_init__(self) -> None:
        if self.workers > self.rows:
            raise ConfigError(f"trainer.workers={self.workers} is more than trainer.rows={self.rows}")


class Trainer(Generic[Item]):
    """All parts of a run, and the loop over them."""

    def __init__(
        self,
        cfg: TrainerConfig,
        learner: Learner[Item],
        replay: Ring[Item],
        batch_size: int,
        world: World,
        evaluations: dict[str, World],
        keeper: Keeper,
        rngs: seeding.Generators,
    ) -> None:
        self.cfg, self.learner, self.replay, self.batch_size = cfg, learner, replay, batch_size
        self.evaluations, self.keeper = evaluations, keeper
        self.rngs = rngs  # the learner's, too
        writer = learner.writer(world.num_envs)
        explorer = learner.policy(explore=True, rows=world.num_envs, rng=self.rngs["explore"])
        self.collector = Collector(
            world,
            explorer,
            writer,
            replay,
            seed=rngs.seed,
            warmup=cfg.warmup,
            refuse=keeper.refuse,
            early=cfg.early(),
        )
        self.owed = 0.0  # updates that the items collected so far still have to get
        self.evaluated = self.logged = -1  # the step of the last evaluation and of the last log line
        self.last_return = float("nan")
        self.stop = Signals()

    @property
    def steps(self) -> int:
        return self.collector.steps

    # ---- the loop ----

    def train(self, progress: Progress | None = None) -> None:
        """Train to the end; raises Stopped after a signal, when everything is saved."""
        for _ in self.iterate(progress or Quiet()):
            pass

    def iterate(self, progress: Progress) -> Generator[None, None, None]:
        """The same, giving way after every log line; closed there, it saves everything."""
        with self.stop:
            if not self.keeper.resume(self):
                self.collector.start()
            self._clock = (time.monotonic(), self.steps, self.learner.updates)
            self._check_warmup()
            progress.start(self.steps, self.cfg.steps)
            try:
                yield from self._loop(progress)
            except GeneratorExit:
                self.keeper.save(self)
                raise
            finally:
                progress.finish()
            self.keeper.save(self)
            if self.stop.received is not None:
                raise Stopped(self.stop.received)

    def _check_warmup(self) -> None:
        """A run that is all warm-up is allowed, and seldom what was meant."""
        if self.cfg.steps <= self.cfg.warmup:
            log.warning(
                "the run is all warm-up: it ends after trainer.steps=%d and learning begins after trainer.warmup=%d; "
                "raise the one or lower the other",
                self.cfg.steps,
                self.cfg.warmup,
            )

    def _loop(self, progress: Progress) -> Iterator[None]:
        while True:
            self._update()
            if self._due(self.evaluated, self.cfg.eval_every):
                self._evaluate()
            if self._due(self.logged, self.cfg.log_every):
                self._log(progress)
                yield
            if self.stop() or self.steps >= self.cfg.steps or self._good_enough():
                return
            self.keeper.save(self, due=True)
            self._collect()

    def _good_enough(self) -> bool:
        wanted, best = self.cfg.stop_at, self.keeper.best
        return wanted is not None and best is not None and best >= wanted

    def _collect(self) -> None:
        new = self.collector.step()
        if self.steps >= self.cfg.warmup and len(self.replay) >= self.batch_size:
            self.owed += new * self.cfg.updates_per_item

    def _update(self) -> None:
        """Pay the updates that are owed, unless asked to stop: then the debt is saved."""
        while self.owed >= 1 and not self.stop():
            batch = self.replay.sample(self.batch_size)
            self.learner.update(batch)
            self.replay.learned(self.learner)
            if bad := self.learner.first_bad():
                where = f"in update {self.learner.updates} at step {self.steps}"
                self.keeper.refuse(bad, at=where, evidence={"batch": batch})
            self.owed -= 1

    def _due(self, last: int, every: int) -> bool:
        """True at step 0, whenever a multiple of `every` was passed since `last`, and at the end."""
        if self.stop() or last == self.steps:
            return False
        return last < 0 or self.steps // every > last // every or self.steps >= self.cfg.steps

    # ---- evaluating and logging ----

    def _evaluate(self) -> None:
        """K episodes in each evaluation world; the first world's return chooses the best policy."""
        seeds = seeding.validation_seeds(self.cfg.eval_episodes)
        results = {}
        for name, world in self.evaluations.items():
            try:
                found = evaluate(world, self.greedy(world), seeds, self.stop)
            except Interrupted:
                return  # the evaluation is due again when the run is resumed
            if bad := finite.first_bad(**{"return": found["return"]}):
                where = f"in the evaluation '{name}' at step {self.steps}"
                self.keeper.refuse(bad, at=where, evidence=found)
            results[name] = summaries(found)
        for name, result in results.items():
            self.keeper.log_evaluation(self.steps, name, result)
        score = next(iter(results.values()))["return"]
        self.evaluated, self.last_return = self.steps, score["mean"]
        self.keeper.offer(self, score)

    def greedy(self, world: World) -> Policy:
        """The policy as it acts when it counts, for a world of any number of rows."""
        return self.learner.policy(explore=False, rows=world.num_envs, rng=seeding.generator(0, "evaluation"))

    def _log(self, progress: Progress) -> None:
        values: Metrics = {"updates": self.learner.updates, "replay/items": len(self.replay)}
        values |= self.collector.drain()
        if self.learner.updates:
            values |= self.learner.metrics()
        speed = self._speed()
        self.keeper.log(self.steps, values, speed)
        progress.update(self.steps, speed["steps_per_second"], self.last_return)
        self.logged = self.steps

    def _speed(self) -> Metrics:
        """World steps and updates per second since the last log line."""
        now = time.monotonic()
        began, steps, updates = self._clock
        self._clock = (now, self.steps, self.learner.updates)
        elapsed, done = max(now - began, 1e-9), self.learner.updates - updates
        return {"steps_per_second": (self.steps - steps) / elapsed, "updates_per_second": done / elapsed}

    # ---- what a checkpoint holds of it ----

    def state_dict(self) -> State:
        """All that the future of the run depends on, except what replay holds."""
        return {
            "collector": self.collector.state_dict(),
            "learner": self.learner.state_dict(),
            "replay": self.replay.state_dict(),
            "generators": self.rngs.state_dict(),
            "trainer": {name: getattr(self, name) for name in ("owed", "evaluated", "logged", "last_return")},
        }

    def load_state_dict(self, state: State) -> None:
        self.collector.load_state_dict(state["collector"])
        self.learner.load_state_dict(state["learner"])
        self.replay.load_state_dict(state["replay"])
        self.rngs.load_state_dict(state["generators"])
        self.owed, self.last_return = float(state["trainer"]["owed"]), float(state["trainer"]["last_return"])
        self.evaluated, self.logged = int(state["trainer"]["evaluated"]), int(state["trainer"]["logged"])
