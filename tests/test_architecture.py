"""Rules that matter are executable: which part may import which, and how large things may grow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import TypeGuard

import pytest

from twofold.native.library import SOURCES
from twofold.settings.domains import domains

ROOT = Path(__file__).resolve().parent.parent / "twofold"
DOMAINS = ("control", "recsys", "crystal", "team")
BELOW_STORE = {"base", "core", "settings"}
BELOW_ASSEMBLE = BELOW_STORE | {"store", "rows", "show", "jobs", "nets", "learners"}
ALLOWED = {  # what each layer may import of twofold besides itself
    "base": set(),
    "core": {"base"},
    "sampling": {"base", "core"},
    "settings": {"base", "core"},
    "store": BELOW_STORE,
    "rows": {*BELOW_STORE, "store"},
    "show": {*BELOW_STORE, "store"},
    "jobs": {"base", "store", "show"},
    "nets": {"base", "native"},
    "native": {"base"},
    "learners": {*BELOW_STORE, "store", "nets", "native"},
    **{domain: BELOW_ASSEMBLE | {"assemble", "native"} for domain in DOMAINS},
    "lab": {*BELOW_STORE, "store", "show", "jobs"},
}
# The hour's reading: the learning loop, and TD3 on top of it with the engine that writes its equations out.
TD3 = ("td3", "config", "nets", "engine", "policy", "actor_critic")


def packages_imported_by(folder: Path) -> set[str]:
    """First two dotted parts of every import below `folder`, relative ones resolved."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        package = ".".join(path.relative_to(ROOT.parent).parent.parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                name = "." * node.level + (node.module or "")
                whole = resolve_name(name, package) if node.level else name
                found |= {whole} if whole != "twofold" else {f"twofold.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[:2]) for name in found}


@pytest.mark.parametrize("layer", ALLOWED)
def test_dependencies_point_one_way(layer: str) -> None:
    imported = {p.split(".")[1] for p in packages_imported_by(ROOT / layer) if p.startswith("twofold.")}
    assert imported - ALLOWED[layer] - {layer} == set()


@pytest.mark.parametrize(
    "part", ["base", "core", "sampling", "settings", "store", "rows", "show", "jobs", "nets", "learners"]
)
def test_no_part_of_the_house_names_a_domain(part: str) -> None:
    """Domains are found by entry points; the one default world is the exception that makes a start easy."""
    allowed = {"control/gym", "control", "control/walker"}
    for path in (ROOT / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                named = node.value.split("/")[0] in DOMAINS and " " not in node.value
                assert not named or node.value in allowed, f"{path}: {node.value}"


def test_every_domain_is_found_by_its_entry_point() -> None:
    assert set(DOMAINS) <= set(domains())


def test_there_is_no_utils_module() -> None:
    assert not list(ROOT.rglob("utils.py"))


def test_only_the_command_line_prints() -> None:
    for path in ROOT.rglob("*.py"):
        if path.parent.name == "cli" or path.name in ("command.py", "commands.py", "demo.py"):
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def lines(paths: Iterator[Path] | list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def test_the_learning_loop_can_be_read_in_an_hour() -> None:
    core = lines(ROOT.glob("core/*.py"))
    assert core <= 1_400
    assert core + lines([ROOT / "learners" / f"{name}.py" for name in TD3]) <= 1_700


def test_functions_and_files_stay_small() -> None:
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                size = (node.end_lineno or 0) - node.lineno + 1
                assert size <= 45, f"{path}: {node.name} has {size} lines"


# What other libraries do not say by a type: the only names that are asked for at run time.
ASKED = {
    ("settings/registry.py", "__qualname__"),  # a maker is a class, a function, or an object without a name
    ("settings/imports.py", "__file__"),  # modules that are built in have no file
    ("settings/schema.py", None),  # pydantic's bounds are objects of many classes, each with one attribute
    ("control/worlds.py", "mujoco_renderer"),  # of Gymnasium's MuJoCo classes, whose import loads MuJoCo
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_c_file_can_be_read(name: str) -> None:
    text = (ROOT / "native" / name).read_text().splitlines()
    assert len([line for line in text if line.strip() and not line.strip().startswith("/*")]) <= 430
    assert max(map(len, text)) <= 120


def test_nothing_is_asked_for_by_getattr_where_two_parts_meet() -> None:
    """A seam is a type: `hasattr` and `getattr(thing, "name", default)` are contracts that no checker sees."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = (
                    node.args[1].value
                    if len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
                    else None
                )
                defaulted = node.func.id == "getattr" and (len(node.args) == 3 or name is not None)
                if node.func.id == "hasattr" or defaulted:
                    found.add((path.relative_to(ROOT).as_posix(), name))
    assert found == ASKED


ANYS = 25  # lines that name `Any`: fewer is better, more is a seam without a type


def test_any_stands_only_where_something_foreign_forces_it_and_says_what() -> None:
    """The reason is a comment that begins with `Any:`, on the line or in the comment above it."""
    count = 0
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        for number in sorted({node.lineno for node in ast.walk(ast.parse(text)) if names_any(node)}):
            count += 1
            assert "# Any: " in reason(text.splitlines(), number), f"{path}:{number}: say why it is Any"
    assert count <= ANYS


def names_any(node: ast.AST) -> TypeGuard[ast.expr]:
    """Whether a part of the code is `Any`, or a text that stands for a type with it, such as "list[Any]"."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.search(r"\[\S*\bAny\b", node.value) is not None
    return isinstance(node, ast.Name) and node.id == "Any"


def reason(lines: list[str], number: int) -> str:
    """The line of this number with the comment that stands directly above it."""
    first = number - 1
    while lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return "\n".join(lines[first:number])
