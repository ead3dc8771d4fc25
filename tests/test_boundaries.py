"""Files and JSON of others come through one door each: nothing else in the package opens or parses them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "twofold"
CALLS = {"open", "safe_open", "load_file", "save_file"}
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "open", "exists", "is_file", "is_dir"}
FUNCTIONS = {
    *(f"json.{name}" for name in ("load", "loads")),
    *(
        f"np.{name}"
        for name in ("load", "loadtxt", "genfromtxt", "fromfile", "memmap", "save", "savez", "savetxt")
    ),
    *(f"yaml.{name}" for name in ("load", "safe_load", "load_all", "safe_load_all")),
    *(f"torch.{name}" for name in ("load", "save")),
    *(f"pyarrow.{name}" for name in ("input_stream", "memory_map", "OSFile")),
    *(f"parquet.{name}" for name in ("read_table", "write_table")),
    *(f"os.{name}" for name in ("open", "listdir")),
    *(f"os.path.{name}" for name in ("exists", "isfile", "isdir")),
    *(f"shutil.{name}" for name in ("copy", "copy2", "copyfile")),
}
ALLOWED = {
    ("base/regular.py", "os.open"): "the door itself",
    ("base/foreign_json.py", "json.loads"): "the reader of JSON itself",
    ("store/files.py", "os.open"): "of a folder, to make its names durable",
    ("cli/__init__.py", "os.open"): "of /dev/null, where a pipe is gone",
    ("cli/parser.py", "os.path.exists"): "says no to what cannot be looked at",
    ("cli/completion.py", "entry.is_dir"): "asked by the shell: whatever fails there offers nothing",
    ("cli/completion.py", "(entry / 'config.json').exists"): "as above",
    ("base/installing.py", "called.exists"): "of the command that was called",
    ("base/installing.py", "metadata.distribution('twofold').read_text"): "of our own installation",
    ("base/installing.py", "json.loads"): "as above",
    ("base/installing.py", "(folder / 'pyproject.toml').is_file"): "as above",
    ("native/library.py", "file.is_file"): "of the package's own library",
    ("native/library.py", "file.read_bytes"): "of the package's own sources",
    ("recsys/loaders.py", "np.loadtxt"): "of a stream that came through the door",
    ("recsys/export.py", "np.savez"): "into memory, which the door then writes",
}
OWN = ("Run.", "cls.", "files.", "zipfile.", "webbrowser.")  # methods of ours that have such names


def uses(path: Path) -> set[str]:
    """Calls of a source file that open, look for or parse a file."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    named = {name for node in calls if (name := ast.unparse(node.func)) in CALLS | FUNCTIONS}
    return named | {ast.unparse(node.func) for node in calls if _is_method(node)}


def _is_method(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in METHODS:
        return False
    asked = node.func.attr in ("exists", "is_file", "is_dir") and bool(node.args + node.keywords)
    return not asked and not ast.unparse(node.func).startswith(OWN)


def test_only_the_boundary_modules_open_and_parse_files() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in sorted(ROOT.rglob("*.py"))
        for name in uses(path)
    }
    assert found - ALLOWED.keys() == set()


def test_no_exception_outlives_its_reason() -> None:
    for place, name in ALLOWED:
        assert name in uses(ROOT / place)


@pytest.mark.parametrize(
    "line",
    [
        "open('x')",
        "path.open()",
        "json.loads(x)",
        "Path(x).read_text()",
        "(folder / 'x').exists()",
        "np.load(f)",
        "yaml.safe_load(f)",
        "os.open(x, 0)",
        "folder.is_dir()",
    ],
)
def test_the_search_finds_what_it_looks_for(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(line)
    assert len(uses(tmp_path / "x.py")) == 1


def test_what_a_directory_lists_may_be_asked_for_its_kind(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("entry.is_dir(follow_symlinks=False)")
    assert uses(tmp_path / "x.py") == set()
