"""Rules that matter are executable: which part may import which."""

from __future__ import annotations

import ast
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "twofold"
DOMAINS = ("control", "recsys", "crystal", "team")
ALLOWED = {  # what each layer may import of twofold besides itself
    "core": {"store", "show"},
    "settings": {"core"},
    "store": {"core", "settings"},
    "rows": {"core", "settings"},
    "show": {"core", "settings", "store"},
    "nets": {"core", "settings"},
    "learners": {"core", "settings", "store", "nets"},
    **{domain: {"core", "settings", "store", "rows", "show", "nets", "learners"} for domain in DOMAINS},
}


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
                found.add(resolve_name(name, package) if node.level else name)
    return {".".join(name.split(".")[:2]) for name in found}


@pytest.mark.parametrize("layer", [layer for layer in ALLOWED if (ROOT / layer).is_dir()])
def test_dependencies_point_one_way(layer: str) -> None:
    imported = {p.split(".")[1] for p in packages_imported_by(ROOT / layer) if p.startswith("twofold.")}
    assert imported - ALLOWED[layer] - {layer} == set()


def test_there_is_no_utils_module() -> None:
    assert not list(ROOT.rglob("utils.py"))


def test_only_the_command_line_prints() -> None:
    for path in ROOT.rglob("*.py"):
        if path.name in ("cli.py", "commands.py", "demo.py"):
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path
