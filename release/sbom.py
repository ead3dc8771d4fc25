"""The bill of materials of a release (CycloneDX 1.6) and the licences of everything that twofold can install.

python release/sbom.py sbom > dist/twofold.cdx.json
python release/sbom.py licences > docs/licences.md
"""

from __future__ import annotations

import importlib.metadata as metadata
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("recsys", "serve", "crystal", "chgnet", "team", "lab", "export")  # what a user may ask for
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(\[[^]]*\])?[^;]*(;.*)?$")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
# What the packages themselves call their licence, as SPDX calls it.
_SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "MIT license": "MIT",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1-or-later",
    "LGPLv2.1+": "LGPL-2.1-or-later",
    "Python Software Foundation License": "PSF-2.0",
    "zlib License": "Zlib",
}


def normal(name: str) -> str:
    """A package's name as every tool compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(distribution: metadata.Distribution, extras: tuple[str, ...]) -> list[str]:
    """Names that a distribution asks for here, with these of its extras."""
    found = []
    for requirement in distribution.requires or []:
        parts = _REQUIREMENT.match(requirement)
        assert parts is not None, requirement
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", parts[3] or "")
        if extra is None or extra[1] in extras:
            found.append(normal(parts[1]))
    return found


def installed() -> dict[str, metadata.Distribution]:
    return {normal(d.metadata["Name"]): d for d in metadata.distributions() if d.metadata["Name"]}


def closure(extras: tuple[str, ...]) -> dict[str, metadata.Distribution]:
    """All packages that twofold with these extras brings, as they are installed here."""
    here = installed()
    asked = {"gymnasium": ("mujoco", "box2d")}  # extras that we name of others
    waiting, found = needed(here["twofold"], extras), dict[str, metadata.Distribution]()
    while waiting:
        name = waiting.pop()
        if name in found or name == "twofold" or name not in here:
            continue  # not there: for another system, or an extra that is not installed
        found[name] = here[name]
        waiting += needed(here[name], asked.get(name, ()))
    return dict(sorted(found.items()))


def licence(distribution: metadata.Distribution) -> str:
    """The licence as the package says it, by its SPDX name where that is known."""
    about = distribution.metadata
    said = about.get("License-Expression") or ""
    if not said:
        trove = [c.split(" :: ")[-1] for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
        words = (about.get("License") or "").strip().splitlines()
        short = words[0] if words and len(words[0]) < 60 else ""
        said = " AND ".join(trove) or short
    return _SPDX.get(said, said) or "not said in its metadata"


def pinned_hashes() -> dict[str, tuple[str, list[str]]]:
    """Version and sha256 of every package of requirements.lock."""
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if pin := _PIN.match(line):
            name = normal(pin[1])
            found[name] = (pin[2], [])
        elif digest := re.search(r"--hash=sha256:([0-9a-f]{64})", line):
            found[name][1].append(digest[1])
    return found


def component(name: str, distribution: metadata.Distribution, hashes: list[str]) -> dict[str, Any]:
    version = distribution.version
    described: dict[str, Any] = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": distribution.metadata["Name"],
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": [{"license": {"name": licence(distribution)}}],
    }
    if hashes:  # of all files of this version that may be installed, as the lock file lists them
        described["properties"] = [{"name": "twofold:sha256", "value": digest} for digest in sorted(hashes)]
    return described


def sbom() -> dict[str, Any]:
    """CycloneDX of the core and all extras for users; no time and no random number, so that it can be made again."""
    own, locked, found = installed()["twofold"], pinned_hashes(), closure(EXTRAS)
    parts = [component(name, each, locked.get(name, ("", []))[1]) for name, each in found.items()]
    references = {name: part["bom-ref"] for name, part in zip(found, parts, strict=True)}
    main = {"type": "library", "bom-ref": "twofold", "name": "twofold", "version": own.version}
    tree = [{"ref": "twofold", "dependsOn": _references(needed(own, EXTRAS), references)}]
    tree += [
        {"ref": references[name], "dependsOn": _references(needed(each, ()), references)}
        for name, each in found.items()
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main | {"licenses": [{"license": {"id": "MIT"}}]}},
        "components": parts,
        "dependencies": tree,
    }


def _references(names: list[str], known: dict[str, str]) -> list[str]:
    return sorted({known[name] for name in names if name in known})


def licences() -> str:
    """A page with the licence of every package, by whether the core needs it."""
    core, every = closure(()), closure(EXTRAS)
    lines = [
        "# Licences of what twofold uses",
        "",
        "twofold itself is under the MIT licence. It ships none of these packages: pip installs them. The table is",
        "what their own metadata say, written by `make licences`; the bill of materials of a release has the same.",
        "",
        "| package | version | licence | needed by |",
        "|---|---|---|---|",
    ]
    for name, each in every.items():
        by = "the core" if name in core else "extras"
        lines.append(f"| {each.metadata['Name']} | {each.version} | {licence(each)} | {by} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    if what == "sbom":
        print(json.dumps(sbom(), indent=1))
    elif what == "licences":
        print(licences(), end="")
    else:
        raise SystemExit("usage: python release/sbom.py sbom | licences")
