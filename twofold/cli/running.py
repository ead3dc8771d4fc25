"""Commands that do something: train, resume, eval, play, plot, export, demo, check."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from twofold.base.command import Command
from twofold.base.errors import UserError
from twofold.base.messages import printable
from twofold.base.regular import is_folder, is_there
from twofold.cli import menu
from twofold.cli.messages import better, complain
from twofold.cli.showing import print_scores

if TYPE_CHECKING:
    from twofold.assemble import Trained
    from twofold.base.values import Values
    from twofold.core.protocols import Policy, World
    from twofold.store.policy_file import LoadedPolicy

_GYM_ID = re.compile(r"[\w-]+-v\d+")


def run(command: Command, argv: list[str]) -> int:
    """Parse the words of a command and do it, with bars where a person looks."""
    from contextlib import nullcontext

    from twofold.base.progress import shown_on
    from twofold.cli.parser import parse
    from twofold.settings.domains import function_at
    from twofold.show.console import Terminal, set_up_logging

    asked = parse(command, argv)
    terminal = Terminal() if sys.stderr.isatty() else None
    set_up_logging(terminal, debug="--debug" in argv)
    try:
        with nullcontext() if terminal is None else shown_on(terminal):
            return int(function_at(command.does)(asked))
    except UserError as error:
        raise better(error, command, asked) from None
    except ModuleNotFoundError as error:
        raise _missing(error, command) from None


def _missing(error: ModuleNotFoundError, command: Command) -> Exception:
    """A package that the command's domain needs, in one line; a module of ours that is missing is a fault."""
    from twofold.base.errors import MissingPackage
    from twofold.settings.domains import domains

    package = (error.name or "").split(".")[0]
    extra = next((one.extra for one in domains().values() if command in one.commands), "")
    if not package or package == "twofold" or not extra:
        return error
    return MissingPackage(package, extra, f"twofold {command.name}")


# ---- train and resume -----------------------------------------------------------------------------------------------


class Told:
    """Says where a run is, and remembers it."""

    def __init__(self) -> None:
        self.folder: Path | None = None

    def __call__(self, folder: Path) -> None:
        self.folder = folder
        print(f"run        {printable(folder)}", file=sys.stderr)


Work = Callable[[Told], "Trained"]


def train(asked: menu.Train) -> int:
    """A new run, or the run of the same settings that is there."""
    from twofold import api
    from twofold.base.progress import training
    from twofold.settings.config import layers_for, resolve

    options, settings = _translated(asked)
    if asked.from_ is not None:
        if asked.seeds is not None:
            raise UserError("--from repeats one run: leave out --seeds, and give seed=N")
        return _repeated(asked, settings)
    config, env_config, settings = _named(options, settings)
    if asked.seeds is not None:
        return _several(asked, (config, env_config), settings)
    if asked.on != "here":
        raise UserError(f"--on={asked.on} is for several runs at once: add --seeds=1..5, or leave it out")

    def work(told: Told) -> Trained:
        return api.train_with(
            config,
            env_config,
            settings,
            run=asked.run,
            runs=Path(str(options.get("runs", asked.runs))),
            imports=asked.import_,
            progress=training(),
            on_folder=told,
        )

    return _finish(_observed(asked, work, lambda: resolve(layers_for(config, env_config, settings)).values))


def _translated(asked: menu.Train) -> tuple[Values, Values]:
    """Options and settings, with command lines that users of other codes know made into ours by the domains."""
    from twofold.settings.domains import domains, function_at

    given = {one.flag[2:]: getattr(asked, one.name) for one in menu.train().asked() if one.role == "option"}
    own = ("run", "runs", "seeds", "jobs", "on", "from", "import", "observer")
    options = {name: value for name, value in given.items() if name not in own and value not in (None, False)}
    settings = dict(asked.settings)
    if asked.from_ is not None:
        if options:
            raise UserError(
                f"--from={asked.from_} brings the settings of that run: leave out --{next(iter(options))}"
            )
        return options, settings
    for domain in domains().values():
        if domain.translate:
            options, settings = function_at(domain.translate)(options, settings)
    return options, settings


def _named(options: Values, settings: Values) -> tuple[str, str | None, Values]:
    """The presets that are meant, and the settings; a Gymnasium id may stand wherever people write one."""
    config = str(options.get("config", "td3"))
    env_config = str(options["env-config"]) if "env-config" in options else None
    asked_id = next((str(settings[key]) for key in ("env_id", "env_args.id") if key in settings), None)
    world = str(settings.get("env", ""))
    if env_config is None and _GYM_ID.fullmatch(world):  # SB3's and RL Zoo's --env
        settings, asked_id = {k: v for k, v in settings.items() if k != "env"}, world
    elif env_config is not None and _GYM_ID.fullmatch(env_config):
        env_config, asked_id = None, env_config
    if env_config is None and asked_id is not None:
        return config, "gym", {k: v for k, v in settings.items() if k != "env_id"} | {"env_args.id": asked_id}
    return config, env_config or (None if world else "pendulum"), settings


def _several(asked: menu.Train, names: tuple[str, str | None], settings: Values) -> int:
    """A run for each seed, some at a time, and a report of them."""
    from twofold.lab.commands import train_seeds

    alone = {"--run": asked.run, "--observer": asked.observer, "seed": settings.get("seed")}
    for name, value in alone.items():
        if value is not None:
            raise UserError(f"--seeds={asked.seeds} makes several runs: leave out {name}")
    if names[1] is None:
        raise UserError("--seeds needs an --env-config=NAME or .yaml file")
    both = names[0], names[1]
    return train_seeds(
        both, settings, str(asked.seeds), asked.runs, jobs=asked.jobs, on=asked.on, imports=asked.import_
    )


def _repeated(asked: menu.Train, settings: Values) -> int:
    """A new run with the settings of another, and what was typed on top."""
    from twofold import assemble
    from twofold.base.progress import training
    from twofold.settings.config import Layer, resolve
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    import_user_code(asked.import_)
    source = str(asked.from_)
    layers = [Layer(source, Run.open(Path(source)).resolved.values), Layer("command line", settings)]
    resolved = resolve(layers)
    folder = asked.run or assemble.new_folder(resolved, asked.runs, "from", None)

    def work(told: Told) -> Trained:
        made = Run.create(folder, resolved, shlex.join(sys.argv), asked.import_)
        return assemble.run_to_end(made, asked.import_, training(), told)

    return _finish(_observed(asked, work, lambda: resolved.values))


def _observed(asked: menu.Train, work: Work, values: Callable[[], Values]) -> Work:
    """The training, recorded elsewhere too where that is asked for."""
    from twofold.settings.domains import domains, function_at
    from twofold.settings.imports import import_user_code

    if asked.observer is None:
        return work
    known = {kind: place for domain in domains().values() for kind, place in domain.observers.items()}
    kind = asked.observer.partition(":")[0]
    if kind not in known:
        kinds = ", ".join(sorted(known))
        raise UserError(f"--observer={asked.observer}: write KIND:PLACE with one of the kinds {kinds}")
    import_user_code(asked.import_)
    observed, seen = function_at(known[kind]), values()

    def recorded(told: Told) -> Trained:
        trained: Trained = observed(asked.observer, seen, lambda: work(told))
        return trained

    return recorded


def resume(asked: menu.Resume) -> int:
    """A stopped run to its end."""
    from twofold import assemble
    from twofold.base.progress import training
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    import_user_code(asked.import_)
    found = Run.open(asked.run)
    return _finish(lambda told: assemble.run_to_end(found, asked.import_, training(), told))


def _finish(work: Work) -> int:
    """Run a training to its end or to a signal, and say where things are."""
    from twofold.base.installing import program
    from twofold.base.signals import Stopped

    told = Told()
    try:
        trained = work(told)
    except Stopped as stopped:
        again = f"{program()} resume {shlex.quote(str(told.folder))}" if told.folder else "the same command"
        print(printable(f"{stopped}: saved. Continue with: {again}"), file=sys.stderr)
        return stopped.exit_code
    print_scores(trained.test, "test seeds, never used for choosing")
    print(f"run        {trained.folder}")
    print(f"policy     {trained.folder / 'best.safetensors'}")
    print(f"curve      {trained.folder / 'curve.png'}")
    return 0


# ---- what is done with a policy -----------------------------------------------------------------------------------


class Policies(Protocol):
    """What commands that take a policy are asked."""

    @property
    def run(self) -> str | None: ...
    @property
    def zoo(self) -> str | None: ...
    @property
    def import_(self) -> tuple[str, ...]: ...


def _policy(asked: Policies) -> LoadedPolicy:
    """The policy of a run, of a file or of the zoo."""
    from twofold.settings.imports import import_user_code
    from twofold.store.policy_file import load_policy, zoo_path

    if (asked.run is None) == (asked.zoo is None):
        both = "both RUN and --zoo were given" if asked.run else "nothing was named"
        raise UserError(f"name one policy: a run directory, a policy file, or --zoo=NAME; {both}")
    import_user_code(asked.import_)
    return load_policy(str(asked.run) if asked.zoo is None else zoo_path(asked.zoo))


def _beside(asked: Policies, name: str) -> Path:
    """Where a result goes by itself: into the run directory, else here under a name that is free."""
    if asked.run is not None and is_folder(asked.run):
        return Path(asked.run) / name
    stem, suffix = (asked.zoo or Path(str(asked.run)).stem), Path(name).suffix
    path, n = Path(f"{stem}{suffix}"), 1
    while is_there(path):
        n += 1
        path = Path(f"{stem}_{n}{suffix}")
    return path


def evaluate(asked: menu.Eval) -> int:
    """A policy on fresh seeds."""
    from twofold import assemble

    print_scores(assemble.score(_policy(asked), asked.episodes, asked.seed), "fresh seeds")
    return 0


def play(asked: menu.Play) -> int:
    """One episode as a video or in a window."""
    from twofold.assemble import could_be, first_seed, fits, frames_per_second, world_of
    from twofold.rows.world import evaluation_names
    from twofold.show import play as shown

    if asked.human and asked.out is not None:
        raise UserError("--human opens a window and writes no video: leave out --human or --out")
    if asked.out is not None:
        shown.check_video_name(asked.out)
    policy = _policy(asked)
    mode = "human" if asked.human else "rgb_array"
    first_seed(asked.seed)
    could_be(policy)
    world, cannot = shown.viewed_world(policy.config, mode)
    if world is None:
        complain(f"rendering is impossible here ({cannot}); the episode is played without a picture")
        world = world_of(policy, evaluation_names(policy.config)[0], 1)
    fits(policy, world)
    frames, total = shown.play(world, policy.policy, asked.seed, frames=cannot is None and not asked.human)
    print(f"return     {total:.2f}")
    if frames:
        out = asked.out or _beside(asked, f"videos/best_seed{asked.seed}.mp4")
        out.parent.mkdir(parents=True, exist_ok=True)
        print(f"video      {shown.write_video(frames, out, frames_per_second(world))}")
    _record(asked, world, policy.policy)
    world.close()
    return 0


def _record(asked: menu.Play, world: World, policy: Policy) -> None:
    """The same episode as data on the page of its run, where the world can tell it so."""
    from twofold.show.panels import Recorded, write_panel

    if isinstance(world, Recorded) and asked.run is not None and is_folder(asked.run):
        told = world.recorded(policy, asked.seed)
        print(f"panel      {write_panel(Path(asked.run), f'episode_seed{asked.seed}', told)}")


def export(asked: menu.Export) -> int:
    """A policy as ONNX."""
    from twofold.learners.export import export_onnx

    policy = _policy(asked)
    difference, path = export_onnx(policy, asked.out or _beside(asked, "policy.onnx"))
    (inputs,), (outputs,) = policy.observation_space.shape or (0,), policy.action_space.shape or (0,)
    print(f"onnx       {path}")
    print(f"input      obs [rows, {inputs}] float32, as the environment gives it")
    print(f"output     action [rows, {outputs}] float32, as the environment takes it")
    print(f"checked    differs from the policy by {difference:.1e} of the action's range at most")
    return 0


# ---- others -------------------------------------------------------------------------------------------------------


def demo(asked: menu.Demo) -> int:
    """A small training from start to picture."""
    from twofold.demo import demo as shown

    return shown()


def check(asked: menu.Check) -> int:
    """What is wrong with parts of the user's."""
    from twofold import api

    options: Values = {"env-config": asked.env_config} if asked.env_config else {}
    _, env_config, settings = _named(options, asked.settings)
    named = env_config if asked.env_config or "env_args.id" in settings else None
    named = named or (None if "env" in settings else "gym")
    problems = api.check_with(asked.config, named, settings, imports=asked.import_)
    for problem in problems:
        print(f"wrong: {problem}")
    if not problems:
        print("the world keeps the contract: shapes, finite values, seeded episodes, exact resume")
        if asked.config:
            print(
                "the learner and its networks keep theirs: actions, determinism, states that come back whole"
            )
    return 1 if problems else 0
