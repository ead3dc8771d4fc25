"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twofold.usage import HELP, USAGE


@dataclass
class Arguments:
    """What was typed: places, options of the command, and settings."""

    places: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def parse(argv: list[str], options: tuple[str, ...]) -> Arguments:
    """Split a command line; a key of `options` is the command's, every other one is a setting."""
    from twofold.settings.presets import parse_value

    found, rest = Arguments(), list(argv)
    while rest:
        word = rest.pop(0)
        if word == "with":
            continue
        if word.startswith("--"):
            key, equals, text = word[2:].partition("=")
            if (
                not equals
                and rest
                and not rest[0].startswith("--")
                and "=" not in rest[0]
                and rest[0] != "with"
            ):
                text = rest.pop(0)
            elif not equals:
                text = "true"
        elif "=" in word:
            key, _, text = word.partition("=")
        else:
            found.places.append(word)
            continue
        if key.replace("_", "-") in options:
            _add_option(found.options, key.replace("_", "-"), text)
        else:
            found.settings[key] = parse_value(text)
    return found


def _add_option(options: dict[str, Any], key: str, text: str) -> None:
    if key == "import":
        options[key] = (*options.get(key, ()), text)
    else:
        options[key] = text


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code. A user's mistake is one message, never a traceback."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help", "help"):
        lines = "".join(f"  {name:<16} {line}\n" for name, (_, line) in _domain_commands().items())
        print(USAGE.format(domains=lines))
        return 0
    if argv[0] == "--version":
        from twofold import __version__

        print(f"twofold {__version__}")
        return 0
    from twofold.base.errors import UserError

    try:
        return _dispatch(argv[0], argv[1:])
    except UserError as error:
        if "--debug" in argv:
            raise
        _complain(str(error))
        return 2
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130


def _complain(message: str) -> None:
    red, plain = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}twofold: {message}{plain}", file=sys.stderr)


def _domain_commands() -> dict[str, tuple[str, str]]:
    """The commands that the domains bring: name -> ('module:function', one line of help)."""
    from twofold.settings.domains import domains

    return {name: command for domain in domains().values() for name, command in domain.commands.items()}


def _dispatch(command: str, argv: list[str]) -> int:
    from twofold.base.errors import UserError
    from twofold.settings.schema import nearest
    from twofold.show.console import set_up_logging

    known = {name: globals()[f"_{name}"] for name in HELP}
    theirs = _domain_commands()
    if command not in known and command not in theirs:
        hint = nearest(command, [*known, *theirs])
        raise UserError(
            f"no command '{command}'" + (f"; did you mean '{hint}'?" if hint else "; see twofold --help")
        )
    set_up_logging(terminal=sys.stderr.isatty(), debug="--debug" in argv)
    if command in theirs:
        import importlib

        module, function = theirs[command][0].split(":")
        return int(getattr(importlib.import_module(module), function)(argv))
    if "--help" in argv or "-h" in argv:
        print(HELP[command])
        return 0
    return int(known[command](argv))


# ---- the commands -------------------------------------------------------------------------------------------------


def _train(argv: list[str]) -> int:
    from twofold import api, assemble
    from twofold.base.errors import UserError
    from twofold.settings.config import Layer, layers_for, resolve
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    typed = parse(argv, ("config", "env-config", "run", "runs", "from", "import", *_TEAM_OPTIONS))
    if typed.places:
        raise UserError(f"'{typed.places[0]}' is not a setting: write key=value, or --key=value")
    _translate(typed)
    options, imports = typed.options, typed.options.get("import", ())
    if "from" in options:
        import_user_code(imports)
        source = Run.open(Path(options["from"]))
        resolved = resolve(
            [Layer(options["from"], source.resolved.values), Layer("command line", typed.settings)]
        )
        folder = options.get("run") or assemble.new_folder(
            resolved, Path(options.get("runs", "runs")), "from", None
        )
        run = Run.create(Path(folder), resolved, _command(argv))
        return _finish(lambda: assemble.run_to_end(run, imports, _progress(), _announce))
    names = options.get("config", "td3"), options.get("env-config", "pendulum")

    def work() -> Any:
        return api.train(
            *names,
            run=options.get("run"),
            runs=options.get("runs", "runs"),
            imports=imports,
            progress=_progress(),
            on_folder=_announce,
            **typed.settings,
        )

    if "observer" not in options:
        return _finish(work)
    from twofold.team.observers import observed

    values = resolve(layers_for(*names, typed.settings)).values
    return _finish(lambda: observed(options["observer"], values, work))


_TEAM_OPTIONS = ("multi-algs", "train-alg", "partners", "observer")


def _translate(typed: Arguments) -> None:
    """PyMARL's command line for the team's algorithms."""

    import importlib

    from twofold.settings.domains import domains

    for domain in domains().values():
        if domain.translate:
            module, function = domain.translate.split(":")
            options, settings = typed.options, typed.settings
            typed.options, typed.settings = getattr(importlib.import_module(module), function)(
                options, settings
            )


def _resume(argv: list[str]) -> int:
    from twofold import assemble
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    typed = parse(argv, ("import",))
    folder = _place(typed, "a run directory")
    import_user_code(typed.options.get("import", ()))
    run = Run.open(Path(folder))
    return _finish(lambda: assemble.run_to_end(run, typed.options.get("import", ()), _progress(), _announce))


def _finish(work: Any) -> int:
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
    _print_scores(trained.test, "test, seeds never used for choosing")
    print(f"run        {trained.folder}")
    print(f"policy     {trained.folder / 'best.safetensors'}")
    print(f"curve      {trained.folder / 'curve.png'}")
    return 0


def _announce(folder: Path) -> None:
    print(f"run        {folder}", file=sys.stderr)


def _command(argv: list[str]) -> str:
    import shlex

    return shlex.join(["twofold", "train", *argv])


def _progress() -> Any:
    from twofold.core.progress import Quiet
    from twofold.show.console import Bar

    return Bar() if sys.stderr.isatty() else Quiet()


def _place(typed: Arguments, what: str) -> str:
    from twofold.base.errors import UserError

    if typed.settings:
        raise UserError(f"unknown option '{next(iter(typed.settings))}' for this command; see --help")
    if len(typed.places) != 1:
        raise UserError(f"give exactly one place: {what}; got {len(typed.places)}")
    return typed.places[0]


def _policy(typed: Arguments) -> Any:
    from twofold.settings.imports import import_user_code
    from twofold.store.policy_file import load_policy, zoo_path

    import_user_code(typed.options.get("import", ()))
    if "zoo" in typed.options:
        return load_policy(zoo_path(typed.options["zoo"]))
    return load_policy(_place(typed, "a run directory or a policy file"))


def _eval(argv: list[str]) -> int:
    from twofold import assemble

    if any(word.split("=")[0] == "--partners" for word in argv):
        from twofold.team.commands import eval_partners

        return eval_partners(argv)
    typed = parse(argv, ("episodes", "seed", "zoo", "import"))
    policy = _policy(typed)
    scores = assemble.score(policy, _int(typed, "episodes", 100), _int(typed, "seed", 3_000_000))
    _print_scores(scores, "fresh seeds")
    return 0


def _int(typed: Arguments, name: str, default: int) -> int:
    from twofold.base.errors import ConfigError
    from twofold.settings.presets import parse_value

    value = parse_value(str(typed.options.get(name, default)))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise ConfigError(f"--{name} must be a whole number, got {value!r}")
    return int(value)


def _print_scores(scores: dict[str, Any], where: str) -> None:
    for world, metrics in scores.items():
        for name, s in metrics.items():
            interval = f"95 % interval [{s['low']:.2f}, {s['high']:.2f}]"
            count = f"({s['episodes']:.0f} episodes, {where})"
            print(f"{world:<10} {name:<12} {s['mean']:10.2f} ± {s['std']:.2f}  {interval}  {count}")


def _play(argv: list[str]) -> int:
    from twofold.assemble import fits, world_of
    from twofold.rows.world import evaluation_names
    from twofold.show.play import play, viewed_world, write_video

    typed = parse(argv, ("out", "human", "seed", "zoo", "import"))
    policy, seed = _policy(typed), _int(typed, "seed", 3_000_000)
    mode = "human" if "human" in typed.options else "rgb_array"
    world, cannot = viewed_world(policy.config, mode)
    if world is None:
        _complain(f"rendering is impossible here ({cannot}); the episode is played without a picture")
        world = world_of(policy, evaluation_names(policy.config.env)[0], 1)
    fits(policy, world)
    frames, total = play(world, policy.policy, seed, frames=cannot is None and mode == "rgb_array")
    print(f"return     {total:.2f}")
    if frames:
        fps = world.envs[0].metadata.get("render_fps", 30) if hasattr(world, "envs") else 10
        print(f"video      {write_video(frames, Path(typed.options.get('out', 'play.mp4')), int(fps))}")
    world.close()
    return 0


def _show(argv: list[str]) -> int:
    from twofold.settings.config import layers_for, plain, resolve
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    typed = parse(argv, ("config", "env-config", "import", "explain", "schema"))
    import_user_code(typed.options.get("import", ()))
    if "explain" in typed.options or "schema" in typed.options:
        return _explain(typed)
    if typed.places:
        run = Run.open(Path(typed.places[0]))
        resolved = run.resolved
    else:
        names = typed.options.get("config", "td3"), typed.options.get("env-config", "pendulum")
        resolved = resolve(layers_for(*names, typed.settings))
    for key, value in sorted(plain(resolved.values).items()):
        print(f"{key:<34} {value!s:<28} {resolved.origin.get(key, '')}")
    if typed.places:
        _show_progress(run)
    return 0


def _explain(typed: Arguments) -> int:
    """Every setting with its meaning, or a JSON schema for editors."""
    import json

    from twofold.settings.config import layers_for, resolve
    from twofold.settings.explain import explained, json_schema

    names = typed.options.get("config", "td3"), typed.options.get("env-config", "pendulum")
    config = resolve(layers_for(*names, typed.settings)).config
    if "schema" in typed.options:
        print(json.dumps(json_schema(config), indent=1))
    else:
        print(explained(config, typed.options["explain"]))
    return 0


def _show_progress(run: Any) -> None:
    from twofold.store import files

    print()
    for key, value in files.read_json(run.folder / "provenance.json").items():
        print(f"{key:<34} {value}")
    steps = run.checkpoints.steps()
    print(f"{'checkpoints at steps':<34} {steps or 'none yet'}")
    for record in run.evaluations.read()[-5:]:
        mean = record["return"]["mean"]
        print(
            f"step {record['step']:<10} {record['world']:<18} return {mean:.2f} ± {record['return']['std']:.2f}"
        )
    if (scores := run.test_scores()) is not None:
        _print_scores(scores, "test")


def _list(argv: list[str]) -> int:
    from twofold.base.errors import MissingPackage
    from twofold.settings.domains import domains
    from twofold.settings.presets import Kind, presets
    from twofold.settings.registry import learners, networks, worlds
    from twofold.store.policy_file import zoo_names

    registries = {"worlds": worlds, "learners": learners, "networks": networks}
    for domain in domains().values():
        print(f"{domain.name}: {domain.about}")
        try:
            domain.load()
        except MissingPackage as error:
            print(f"  ({error})")
        _list_parts(registries, f"{domain.name}/")
        kinds: tuple[tuple[str, Kind], ...] = (("--env-config", "envs"), ("--config", "algs"))
        for option, kind in kinds:
            print(f"  {option}")
            for preset in presets(kind):
                if preset.domain == domain.name:
                    made_for = f"  [with {', '.join(preset.worlds)}]" if preset.worlds else ""
                    print(f"    {preset.name:<22} {preset.about}{made_for}")
    print("for every domain")
    _list_parts(registries, "")
    print(f"--zoo (trained policies)\n    {', '.join(zoo_names())}")
    return 0


def _list_parts(registries: dict[str, Any], prefix: str) -> None:
    """The registered parts of one domain, or those that belong to none."""
    for title, registry in registries.items():
        own = [n for n in registry.names() if (n.startswith(prefix) if prefix else "/" not in n)]
        if own:
            print(f"  {title}")
        for name in own:
            print(f"    {name:<22} {registry.get(name).doc}")


def _plot(argv: list[str]) -> int:
    from twofold.base.errors import UserError
    from twofold.show.plot import draw_curves

    typed = parse(argv, ("out", "metric", "world", "mean"))
    if not typed.places:
        raise UserError("give at least one run directory")
    folders = [Path(place) for place in typed.places]
    out = Path(typed.options.get("out", folders[0] / "curve.png" if len(folders) == 1 else "curves.png"))
    world, metric = typed.options.get("world"), typed.options.get("metric", "return")
    print(f"curve      {draw_curves(folders, out, world=world, metric=metric, mean='mean' in typed.options)}")
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

    typed = parse(argv, ("env-config", "import"))
    name = typed.options.get("env-config", "gym")
    problems = api.check_env(name, imports=typed.options.get("import", ()), **typed.settings)
    for problem in problems:
        print(f"wrong: {problem}")
    if not problems:
        print("the world keeps the contract: shapes, finite values, seeded episodes, exact resume")
    return 1 if problems else 0
