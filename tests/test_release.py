"""What is released: pinned by hashes, listed with its licences, the same bytes when it is built again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "release"))

import sbom  # noqa: E402

PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if not line.startswith("#")
)


def test_every_locked_package_has_hashes_and_the_version_of_the_constraints() -> None:
    wanted = {sbom.normal(name): version for name, version in PINS.items()}
    locked = sbom.pinned_hashes()
    assert len(locked) > 80 and all(hashes for _, hashes in locked.values())
    locked_at = {name: version.removesuffix("+cpu") for name, (version, _) in locked.items()}
    assert locked_at == {name: wanted.get(name, locked_at[name]) for name in locked}
    assert locked.keys() - wanted.keys() == {"setuptools"}  # an extra of ours needs another one


def test_the_lock_names_no_place_and_holds_all_that_a_developer_needs() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"https?://|file:|--index|--find-links|--extra-index", text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [
        *project["dependencies"],
        *(r for name in ("test", "dev", "recsys", "team") for r in extras[name]),
    ]
    names = {sbom.normal(re.split(r"[\[<>=; ]", requirement)[0]) for requirement in asked} - {"twofold"}
    assert names <= sbom.pinned_hashes().keys()


def test_the_bill_of_materials_lists_every_package_with_version_licence_and_hashes() -> None:
    bill = sbom.sbom()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    parts = {part["name"].lower(): part for part in bill["components"]}
    assert {"torch", "numpy", "gymnasium", "safetensors", "pydantic"} <= parts.keys()
    for name, part in parts.items():
        assert part["purl"].startswith("pkg:pypi/") and part["version"], name
        assert part["licenses"][0]["license"]["name"], name
    assert parts["numpy"]["properties"] and json.dumps(bill) == json.dumps(sbom.sbom())
    known = {"twofold", *(part["bom-ref"] for part in bill["components"])}
    assert {ref for edge in bill["dependencies"] for ref in (edge["ref"], *edge["dependsOn"])} <= known


def test_the_page_of_licences_has_a_line_for_every_package_of_the_core() -> None:
    page = (ROOT / "docs" / "licences.md").read_text()
    for name, distribution in sbom.closure(()).items():
        assert f"| {distribution.metadata['Name']} |" in page, name


@pytest.mark.slow
def test_two_builds_of_the_same_commit_are_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    subprocess.run([sys.executable, str(ROOT / "release" / "dist.py"), str(tmp_path)], check=True)
    assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == 2
