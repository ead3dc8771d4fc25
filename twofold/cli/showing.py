"""Commands that only look: show, list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twofold.base.errors import UserError
from twofold.base.regular import is_there
from twofold.cli import menu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twofold.core.protocols import Summary
    from twofold.settings.config import Resolved
    from twofold.settings.registry import Learners, Networks, Worlds
    from twofold.store.run import Run


def show(asked: menu.Show) -> int:
    """A run: where it stands, and its settings; without a run, the settings that `train` would take."""
    from twofold.settings.config import layers_for, resolve
    from twofold.settings.imports import import_user_code
    from twofold.store.run import Run

    import_user_code(asked.import_)
    if asked.explain == "all" and asked.run is not None and not is_there(asked.run):
        asked = replace(asked, run=None, explain=str(asked.run))  # `--explain learner`, in two words
    if asked.run is not None:
        _refuse_beside_run(asked)
        run = Run.open(asked.run)
        _show_progress(run)
        _show_settings(run.resolved, everything=asked.all)
        return 0
    resolved = resolve(layers_for(asked.config or "td3", asked.env_config or "pendulum", asked.settings))
    if asked.explain or asked.schema:
        return _explain(resolved, asked)
    _show_settings(resolved, everything=True)
    return 0


def _refuse_beside_run(asked: menu.Show) -> None:
    """A run has its own settings: nothing that was typed beside it may be passed over."""
    given: dict[str, object] = {
        "--config": asked.config,
        "--env-config": asked.env_config,
        "--explain": asked.explain,
    }
    given |= {"--schema": asked.schema} | {k: v for k, v in asked.settings.items() if k != "debug"}
    for name, value in given.items():
        if value:
            raise UserError(f"{asked.run} has its own settings: leave out {name}, or leave out the run")


def _show_settings(resolved: Resolved, *, everything: bool) -> None:
    """Those that a layer set, and with `everything` those that are built in."""
    from twofold.settings.config import plain

    rows = sorted(
        plain(resolved.values).items(), key=lambda row: (_rank(resolved.origin.get(row[0], "")), row[0])
    )
    chosen = [(key, value) for key, value in rows if everything or resolved.origin.get(key) != "built in"]
    for key, value in chosen:
        print(f"{key:<34} {value!s:<28} {resolved.origin.get(key, '')}")
    if len(chosen) < len(rows):
        print(f"{len(rows) - len(chosen)} more are at their defaults (--all shows them)")


def _rank(layer: str) -> int:
    """What the user typed comes first, what nobody set last."""
    known = {"command line": 0, "default.yaml": 3, "built in": 4}
    return known.get(layer, 1 if layer.startswith("algs/") else 2)


def _explain(resolved: Resolved, asked: menu.Show) -> int:
    """Every setting with its meaning, or a JSON schema for editors."""
    import json

    from twofold.settings.explain import explained, json_schema

    if asked.schema:
        print(json.dumps(json_schema(resolved.config), indent=1))
    else:
        print(explained(resolved.config, "true" if asked.explain == "all" else str(asked.explain)))
    return 0


def _show_progress(run: Run) -> None:
    from twofold.base.foreign_json import names, number, read_json
    from twofold.base.messages import printable
    from twofold.store.records import evaluations

    path = run.folder / "provenance.json"
    for key, value in names(read_json(path), path).items():
        print(printable(f"{key:<34} {value}"))
    steps = run.checkpoints.steps()
    print(f"{'checkpoints at steps':<34} {steps or 'none yet'}")
    log = run.folder / "evaluations.jsonl"
    for record in evaluations(log, newest=5):
        score = names(record.get("return"), log)
        mean, std = (number(score.get(name), log, finite=False) for name in ("mean", "std"))
        print(printable(f"step {record['step']:<10} {record['world']:<18} return {mean:.2f}, sd {std:.2f}"))
    if (scores := run.test_scores()) is not None:
        print_scores(scores, "test seeds")
    print()


def list_all(asked: menu.List) -> int:
    """Everything that can be named, domain by domain; with a word, only what has it in name or description."""
    from twofold.base.errors import MissingPackage
    from twofold.settings.domains import domains
    from twofold.settings.imports import import_user_code
    from twofold.settings.presets import Kind, presets
    from twofold.settings.registry import learners, networks, worlds
    from twofold.store.policy_file import zoo_names

    import_user_code(asked.import_)
    word = (asked.word or "").lower()
    registries: dict[str, Worlds | Learners | Networks] = {
        "worlds": worlds,
        "learners": learners,
        "networks": networks,
    }
    kinds: tuple[tuple[str, Kind], ...] = (("--env-config", "envs"), ("--config", "algs"))
    found: list[tuple[str, str, list[tuple[str, str]]]] = []
    for domain in domains().values():
        heading = f"{domain.name}: {domain.about}"
        try:
            domain.load()
        except MissingPackage as error:
            heading += f"\n  ({error})"
        found += [(heading, title, rows) for title, rows in _parts(registries, f"{domain.name}/").items()]
        for option, kind in kinds:
            own = [preset for preset in presets(kind) if preset.domain == domain.name]
            rows = [(p.name, p.about + (f"  [with {', '.join(p.worlds)}]" if p.worlds else "")) for p in own]
            found.append((heading, option, rows))
    found += [("for every domain", title, rows) for title, rows in _parts(registries, "").items()]
    found.append(("trained policies", "--zoo", [(name, "") for name in zoo_names()]))
    return _print_list(found, word)


def _parts(
    registries: Mapping[str, Worlds | Learners | Networks], prefix: str
) -> dict[str, list[tuple[str, str]]]:
    """The registered parts of one domain, or those that belong to none."""
    return {
        title: [
            (name, registry.get(name).doc)
            for name in registry.names()
            if (name.startswith(prefix) if prefix else "/" not in name)
        ]
        for title, registry in registries.items()
    }


def _print_list(found: list[tuple[str, str, list[tuple[str, str]]]], word: str) -> int:
    """Headings and rows, of the rows only those with the word; nothing found is an error."""
    last, shown = "", 0
    for heading, title, rows in found:
        chosen = [row for row in rows if word in " ".join(row).lower()]
        if not chosen:
            continue
        if heading != last:
            print(heading)
        print(f"  {title}")
        for name, about in chosen:
            print(f"    {name:<22} {about}".rstrip())
        last, shown = heading, shown + len(chosen)
    if not shown:
        raise UserError(f"nothing has '{word}' in its name or description; twofold list shows all")
    return 0


def print_scores(scores: Mapping[str, Mapping[str, Summary]], where: str) -> None:
    """Mean, standard deviation and interval of every metric in every world, in lines that fit 80 columns."""
    counts = {int(s["episodes"]) for metrics in scores.values() for s in metrics.values()}
    if not counts:
        return
    print(f"{max(counts)} episodes, {where}")
    print(f"{'':<30} {'mean':>10} {'sd':>10}   95 % interval")
    for world, metrics in scores.items():
        for name, s in metrics.items():
            interval = f"[{s['low']:.2f}, {s['high']:.2f}]"
            print(f"{world:<14} {name:<15} {s['mean']:10.2f} {s['std']:10.2f}   {interval}")
