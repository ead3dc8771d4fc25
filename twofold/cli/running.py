"""Commands that do something: train, resume, eval, play, export, demo, check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.cli.arguments import Arguments, one_place, parse
from twofold.cli.showing import print_scores

if TYPE_CHECKING:
    from collections.abc import Callable

    from twofold.assemble import Trained
    from twofold.base.progress import Progress
    from twofold.base.values import Values
    from twofold.store.policy_file import LoadedPolicy
    from twofold.store.run import Run


def _train(argv: list[str]) -> int:
    from twofold import api, assemble
    from twofold.base.errors import UserError
    from twofold.settings.config import layers_for, resolve
    from twofold.settings.domains import domains
    from twofold.settings.imports import import_user_code

    theirs = (option for domain in domains().values() for option in domain.train_options)
    typed = parse(argv, ("config", "env-config", "run", "runs", "from", "import", "observer", *theirs))
    if typed.places:
        raise UserError(f"'{typed.places[0]}' is not a setting: write key=value, or --key=value")
    _translate(typed)
    options, imports = typed.options, typed.imports
    if "from" in options:
        import_user_code(imports)
        run = _repeated(typed, _command(argv))
        return _finish(lambda: assemble.run_to_end(run, imports, _progress(), _announce))
    names = (
        options.get("config", "td3"),
        options.get("env-config", None if "env" in typed.settings else "pendulum"),
    )

    def work() -> Trained:
        return api.train_with(
            *names,
            typed.settings,
            run=options.get("run"),
            runs=options.get("runs", "runs"),
            imports=imports,
            progress=_progress(),
            on_folder=_announce,
        )

    if "observer" not in options:
        return _finish(work)
    observed = _observer(str(options["observer"]))
    values = resolve(layers_for(*names, typed.settings)).values
    return _finish(lambda: observed(options["observer"], values, work))


def _repeated(typed: Arguments, command: str) -> Run:
    """A new run with the settings of another, and what was typed on top."""
    from twofold.assemble import new_folder
    from twofold.settings.config import Layer, resolve
    from twofold.store.run import Run

    options = typed.options
    source = Run.open(Path(options["from"]))
    layers = [Layer(options["from"], source.resolved.values), Layer("command line", typed.settings)]
    resolved = resolve(layers)
    folder = options.get("run") or new_folder(resolved, Path(options.get("runs", "runs")), "from", None)
    return Run.create(Path(folder), resolved, command)


def _observer(wanted: str) -> Callable[[str, Values, Callable[[], Trained]], Trained]:
    """What records a training elsewhere, too."""
    from twofold.base.errors import UserError
    from twofold.settings.domains import domains, function_at

    known = {kind: place for domain in domains().values() for kind, place in domain.observers.items()}
    kind = wanted.partition(":")[0]
    if kind not in known:
        raise UserError(
            f"--observer={wanted}: write KIND:PLACE with one of the kinds {', '.join(sorted(known))}"
        )
    return function_at(known[kind])


def _translate(typed: Arguments) -> None:
    """Command lines that users of other codes know, by the domains that know them."""
    from twofold.settings.domains import domains, function_at

    for domain in domains().values():
        if domain.translate:
            translate = function_at(domain.translate)
            typed.options, typed.settings = translate(typed.options, typed.settings)


def _resume(argv: list[str]) -> int:
    from twofold import assemble
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    typed = parse(argv, ("import",))
    folder = one_place(typed, "a run directory")
    import_user_code(typed.imports)
    run = Run.open(Path(folder))
    return _finish(lambda: assemble.run_to_end(run, typed.imports, _progress(), _announce))


def _finish(work: Callable[[], Trained]) -> int:
    """Run a training to its end or to a signal, and say where things are."""
    from twofold.base.signals import Stopped

    try:
        trained = work()
    except Stopped as stopped:
        print(
            f"{stopped}: saved. Go on with the same command and --run, or: twofold resume RUN",
            file=sys.stderr,
        )
        return stopped.exit_code
    print_scores(trained.test, "test, seeds never used for choosing")
    print(f"run        {trained.folder}")
    print(f"policy     {trained.folder / 'best.safetensors'}")
    print(f"curve      {trained.folder / 'curve.png'}")
    return 0


def _announce(folder: Path) -> None:
    print(f"run        {folder}", file=sys.stderr)


def _command(argv: list[str]) -> str:
    import shlex

    return shlex.join(["twofold", "train", *argv])


def _progress() -> Progress:
    from twofold.base.progress import Quiet
    from twofold.show.console import Bar

    return Bar() if sys.stderr.isatty() else Quiet()


def _policy(typed: Arguments) -> LoadedPolicy:
    from twofold.settings.imports import import_user_code
    from twofold.store.policy_file import load_policy, zoo_path

    import_user_code(typed.imports)
    if "zoo" in typed.options:
        return load_policy(zoo_path(typed.options["zoo"]))
    return load_policy(one_place(typed, "a run directory or a policy file"))


def _eval(argv: list[str]) -> int:
    from twofold import assemble
    from twofold.settings.domains import domains, function_at

    given = {word.split("=")[0].removeprefix("--") for word in argv if word.startswith("--")}
    for domain in domains().values():
        for option in given & domain.judges.keys():
            return int(function_at(domain.judges[option])(argv))
    typed = parse(argv, ("episodes", "seed", "zoo", "import"))
    policy = _policy(typed)
    scores = assemble.score(policy, _int(typed, "episodes", 100), _int(typed, "seed", 3_000_000))
    print_scores(scores, "fresh seeds")
    return 0


def _int(typed: Arguments, name: str, default: int) -> int:
    from twofold.base.errors import ConfigError
    from twofold.settings.presets import parse_value

    value = parse_value(str(typed.options.get(name, default)))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise ConfigError(f"--{name} must be a whole number, got {value!r}")
    return int(value)


def _play(argv: list[str]) -> int:
    from twofold.assemble import fits, frames_per_second, world_of
    from twofold.rows.world import evaluation_names
    from twofold.show.play import play, viewed_world, write_video

    typed = parse(argv, ("out", "human", "seed", "zoo", "import"))
    policy, seed = _policy(typed), _int(typed, "seed", 3_000_000)
    mode = "human" if "human" in typed.options else "rgb_array"
    world, cannot = viewed_world(policy.config, mode)
    if world is None:
        complain(f"rendering is impossible here ({cannot}); the episode is played without a picture")
        world = world_of(policy, evaluation_names(policy.config)[0], 1)
    fits(policy, world)
    frames, total = play(world, policy.policy, seed, frames=cannot is None and mode == "rgb_array")
    print(f"return     {total:.2f}")
    if frames:
        out = Path(typed.options.get("out", "play.mp4"))
        print(f"video      {write_video(frames, out, frames_per_second(world))}")
    world.close()
    return 0


def _export(argv: list[str]) -> int:
    from twofold.learners.export import export_onnx

    typed = parse(argv, ("out", "zoo", "import"))
    policy = _policy(typed)
    difference, path = export_onnx(policy, Path(typed.options.get("out", "policy.onnx")))
    print(f"onnx       {path}   (largest difference to the policy on random observations: {difference:.1e})")
    return 0


def _demo(argv: list[str]) -> int:
    from twofold.demo import demo

    return demo()


def _check(argv: list[str]) -> int:
    from twofold import api

    typed = parse(argv, ("config", "env-config", "import"))
    config, env = typed.options.get("config"), typed.options.get("env-config")
    named = env or (None if "env" in typed.settings else "gym")
    problems = api.check_with(config, named, typed.settings, imports=typed.imports)
    for problem in problems:
        print(f"wrong: {problem}")
    if not problems:
        print("the world keeps the contract: shapes, finite values, seeded episodes, exact resume")
        if config:
            print(
                "the learner and its networks keep theirs: actions, determinism, states that come back whole"
            )
    return 1 if problems else 0


def complain(message: str) -> None:
    """A message to the user, in red where there is a terminal."""
    red, plain = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}twofold: {message}{plain}", file=sys.stderr)


COMMANDS = {
    "train": _train,
    "resume": _resume,
    "eval": _eval,
    "play": _play,
    "export": _export,
    "demo": _demo,
    "check": _check,
}
