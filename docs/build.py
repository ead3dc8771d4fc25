"""Pages that are made when the site is built: settings, results, decisions, the notebook; and links between places."""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RESULTS = ROOT / "benchmarks" / "results"
# Pages of the repository that stand elsewhere in the site.
ELSEWHERE = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
_LINK = re.compile(r"\]\((?!\w+:|#|<)([^)\s#]+)(#[^)]*)?\)")


def generated() -> dict[str, str]:
    """Every made page by its place in the site."""
    pages = {
        "reference/commands.md": commands_page(),
        "reference/settings.md": settings_page(),
        "decisions/index.md": decisions_page(),
        "tutorials/notebook.md": notebook_page(ROOT / "examples" / "first_steps.ipynb"),
        "results/index.md": _index().results_index(),
    }
    pages |= {f"results/{path.relative_to(RESULTS)}": path.read_text() for path in RESULTS.glob("*/*.md")}
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        pages[ELSEWHERE[name]] = (ROOT / name).read_text()
    return pages


def _index() -> ModuleType:
    """benchmarks/index.py, which is no package."""
    spec = importlib.util.spec_from_file_location("benchmarks_index", ROOT / "benchmarks" / "index.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("benchmarks/index.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- commands ---------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """What every command says of itself."""
    from twofold.cli import help, menu

    os.environ["COLUMNS"] = "80"
    groups = menu.all_commands()
    known = [one for group in groups.values() for one in group]
    lines = [
        "# Commands",
        "",
        "Made from the declarations in the code; `twofold COMMAND --help` prints the same.",
        "",
    ]
    lines += [
        "`twofold completion bash >> ~/.bashrc` completes commands, options, presets and run directories.",
        "",
    ]
    for heading, group in groups.items():
        lines += [f"## {heading or 'For every domain'}", ""]
        for command in [one for one in group if not one.when]:
            variants = [one for one in known if one.name == command.name and one.when]
            lines += [f"### {command.name}", "", "```text", help.of(command, variants), "```", ""]
    return "\n".join(lines)


# ---- settings ---------------------------------------------------------------------------------------------------


def settings_page() -> str:
    """Every setting of every part, as it is declared."""
    from twofold.core.replay import ReplayConfig
    from twofold.core.trainer import TrainerConfig
    from twofold.settings.config import RunSettings
    from twofold.settings.registry import learners, networks, worlds

    lines = [
        "# Settings",
        "",
        "Made from the declarations in the code. `twofold show --explain` prints those of one combination, "
        "`twofold show --schema` a JSON schema for editors. A bare name is enough where it is unique; other names "
        "that work are listed under *also*.",
        "",
        *_section("Of the run", RunSettings, ""),
        *_section("trainer", TrainerConfig, "trainer."),
        *_section("replay", ReplayConfig, "replay."),
    ]
    for title, registry, prefix in (
        ("learner.name", learners, "learner."),
        ("networks.name", networks, "networks."),
        ("env", worlds, "env_args."),
    ):
        for name in registry.names():
            entry = registry.get(name)
            lines += [*_section(f"{title}={name}", entry.config, prefix, entry.doc)]
    return "\n".join(lines) + "\n"


def _section(title: str, cls: type, prefix: str, about: str = "") -> Iterator[str]:
    from twofold.settings.schema import REQUIRED, schema_of, type_name

    yield from (f"## {title}", "", *([about, ""] if about else []))
    yield from ("| setting | type | default | meaning |", "|---|---|---|---|")
    for setting in schema_of(cls, prefix).all.values():
        default = "required" if setting.default is REQUIRED else f"`{_default(setting.default)}`"
        meaning = "; ".join(
            filter(None, [setting.meaning, setting.bounds, setting.unit and f"in {setting.unit}"])
        )
        also = f" *also {', '.join(setting.aliases)}*" if setting.aliases else ""
        cells = f"`{setting.path}`", _cell(type_name(setting.type)), _cell(default), _cell(meaning) + also
        yield f"| {' | '.join(cells)} |"
    yield ""


def _default(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:_}"
    return repr(value) if isinstance(value, str) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# ---- decisions, the notebook -------------------------------------------------------------------------------------


def decisions_page() -> str:
    """The decisions in their order."""
    paths = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    titles = [(path.name, path.read_text().partition("\n")[0].removeprefix("# ")) for path in paths]
    about = "What was decided, what it was weighed against, and what it cost."
    return (
        "\n".join(["# Decisions", "", about, "", *(f"- [{title}]({name})" for name, title in titles)]) + "\n"
    )


def notebook_page(path: Path) -> str:
    """A notebook as a page: its text, its code, and what the cells answered when it was last run."""
    cells = json.loads(path.read_text())["cells"]
    shown = "\n\n".join(
        "".join(cell["source"]) if cell["cell_type"] == "markdown" else _code(cell) for cell in cells
    )
    return f"{shown}\n\nThe notebook is `examples/{path.name}`; a test runs it in a real kernel.\n"


def _code(cell: dict[str, Any]) -> str:
    answers = [f"```python\n{''.join(cell['source'])}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:
            answers.append("".join(data["text/html"]))
        elif "text/plain" in data:
            answers.append(f"```text\n{''.join(data['text/plain'])}\n```")
    return "\n\n".join(answers)


# ---- links between the repository's places and the site's ----------------------------------------------------------


def relinked(text: str, page: str, source: str) -> str:
    """The text of a page with links as the site has them; `source` is the page's place in the repository."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        place = _place(target)
        if target.startswith("twofold/"):  # a source file has no page: the link only names it
            return f'](# "{target}")'
        if place is None:
            return f"]({found[1]}{found[2] or ''})"
        return f"]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{found[2] or ''})"

    return _LINK.sub(link, text)


def _place(target: str) -> str | None:
    """Where the site has a file of the repository; None where the link may stay as it is."""
    if target in ELSEWHERE:
        return ELSEWHERE[target]
    if target in ("benchmarks/results", "benchmarks/results/README.md"):
        return "results/index.md"
    if target.startswith("benchmarks/results/"):
        return target.removeprefix("benchmarks/")
    if target == "docs/decisions":
        return "decisions/index.md"
    return target.removeprefix("docs/") if target.startswith("docs/") else None


def source_of(page: str) -> str:
    """Where the text of a page stands in the repository."""
    back = {there: here for here, there in ELSEWHERE.items() if here != "README.md"}
    if page in back:
        return back[page]
    return f"benchmarks/{page}" if page.startswith("results/") else f"docs/{page}"


# ---- what mkdocs calls --------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    for path in RESULTS.glob("*/*"):
        if path.suffix in (".png", ".gif", ".svg", ".csv", ".json"):
            place = f"results/{path.relative_to(RESULTS)}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return relinked(markdown, page.file.src_uri, source_of(page.file.src_uri))


if __name__ == "__main__":
    for name, content in generated().items():
        sys.stdout.write(f"{name}: {len(content):,} characters{os.linesep}")
