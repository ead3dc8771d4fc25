"""Commands that only look: show, list."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twofold.cli.arguments import Arguments, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twofold.core.protocols import Summary
    from twofold.settings.registry import Learners, Networks, Worlds
    from twofold.store.run import Run


def _show(argv: list[str]) -> int:
    from twofold.base.messages import printable
    from twofold.settings.config import layers_for, plain, resolve
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    typed = parse(argv, ("config", "env-config", "import", "explain", "schema"))
    import_user_code(typed.imports)
    if "explain" in typed.options or "schema" in typed.options:
        return _explain(typed)
    if typed.places:
        run = Run.open(Path(typed.places[0]))
        resolved = run.resolved
    else:
        names = typed.options.get("config", "td3"), typed.options.get("env-config", "pendulum")
        resolved = resolve(layers_for(*names, typed.settings))
    for key, value in sorted(plain(resolved.values).items()):
        print(printable(f"{key:<34} {value!s:<28} {resolved.origin.get(key, '')}"))
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


def _show_progress(run: Run) -> None:
    from twofold.base.foreign_json import names, number, read_json
    from twofold.base.messages import printable
    from twofold.store.records import evaluations

    print()
    path = run.folder / "provenance.json"
    for key, value in names(read_json(path), path).items():
        print(printable(f"{key:<34} {value}"))
    steps = run.checkpoints.steps()
    print(f"{'checkpoints at steps':<34} {steps or 'none yet'}")
    log = run.folder / "evaluations.jsonl"
    for record in evaluations(log, newest=5):
        score = names(record.get("return"), log)
        mean, std = (number(score.get(name), log, finite=False) for name in ("mean", "std"))
        print(printable(f"step {record['step']:<10} {record['world']:<18} return {mean:.2f} ± {std:.2f}"))
    if (scores := run.test_scores()) is not None:
        print_scores(scores, "test")


def _list(argv: list[str]) -> int:
    from twofold.base.errors import MissingPackage
    from twofold.settings.domains import domains
    from twofold.settings.imports import import_user_code
    from twofold.settings.presets import Kind, presets
    from twofold.settings.registry import learners, networks, worlds
    from twofold.store.policy_file import zoo_names

    import_user_code(parse(argv, ("import",)).imports)
    registries: dict[str, Worlds | Learners | Networks] = {
        "worlds": worlds,
        "learners": learners,
        "networks": networks,
    }
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


def _list_parts(registries: Mapping[str, Worlds | Learners | Networks], prefix: str) -> None:
    """The registered parts of one domain, or those that belong to none."""
    for title, registry in registries.items():
        own = [n for n in registry.names() if (n.startswith(prefix) if prefix else "/" not in n)]
        if own:
            print(f"  {title}")
        for name in own:
            print(f"    {name:<22} {registry.get(name).doc}")


def print_scores(scores: Mapping[str, Mapping[str, Summary]], where: str) -> None:
    for world, metrics in scores.items():
        for name, s in metrics.items():
            interval = f"95 % interval [{s['low']:.2f}, {s['high']:.2f}]"
            count = f"({s['episodes']:.0f} episodes, {where})"
            print(f"{world:<10} {name:<12} {s['mean']:10.2f} ± {s['std']:.2f}  {interval}  {count}")


COMMANDS = {"show": _show, "list": _list}
