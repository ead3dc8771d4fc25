"""A release in dist/: the wheel, built twice with the same bytes, the sources, the bill of materials, checksums.

python release/dist.py [FOLDER]
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from zipfile import ZipFile

sys.path.insert(0, str(Path(__file__).resolve().parent))

from sbom import ROOT, sbom

_WHEEL = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]


def committed(folder: Path) -> str:
    """Unpack the last commit into a folder; the time of the commit, which is the time of everything in the wheel."""
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    when = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(when, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()


def wheel(folder: Path) -> Path:
    """Build the wheel of the last commit in a folder of its own, with the setuptools that is installed."""
    source, made = folder / "source", folder / "made"
    source.mkdir(parents=True)
    # Where the C engine was compiled must not be inside of it.
    flags = f"{os.environ.get('CFLAGS', '')} -g0 -ffile-prefix-map={source}=."
    when = committed(source)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": when, "PYTHONHASHSEED": "0", "CFLAGS": flags}
    subprocess.run([*_WHEEL, str(made), "."], cwd=source, env=environment, check=True, umask=0o022)
    (found,) = made.glob("*.whl")
    return found


def sources(folder: Path) -> Path:
    """The sources of the last commit as an archive; the wheel that is built from them has the files of the wheel."""
    source, made = folder / "source", folder / "made"
    source.mkdir(parents=True)
    made.mkdir()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": committed(source)}
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(made)!r})"
    subprocess.run(
        [sys.executable, "-c", build], cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    (found,) = made.glob("*.tar.gz")
    return found


def check_sources(archive: Path, made: Path, folder: Path) -> None:
    """Refuse sources from which another wheel would be built."""
    built = folder / "from_sources"
    subprocess.run([*_WHEEL, str(built), str(archive)], check=True, umask=0o022)
    (other,) = built.glob("*.whl")
    names = [
        {name for name in ZipFile(path).namelist() if not name.endswith(".so")} for path in (made, other)
    ]
    if missing := names[0] ^ names[1]:
        raise SystemExit(f"{archive.name} builds another wheel: {sorted(missing)[:5]}")


def wheel_twice(folder: Path) -> Path:
    """The wheel, after a second one in another place came out with the same bytes."""
    first, second = wheel(folder / "first"), wheel(folder / "second" / "elsewhere")
    if first.name != second.name or first.read_bytes() != second.read_bytes():
        raise SystemExit(f"{first.name} is not reproducible: two builds of the same commit differ")
    return first


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="twofold-dist-") as folder:
        made = wheel_twice(Path(folder))
        (target / made.name).write_bytes(made.read_bytes())
        archive = sources(Path(folder) / "sources")
        check_sources(archive, made, Path(folder))
        (target / archive.name).write_bytes(archive.read_bytes())
    bill = target / f"{'-'.join(made.name.split('-')[:2])}.cdx.json"
    bill.write_text(json.dumps(sbom(), indent=1) + "\n")
    files = [target / made.name, target / archive.name, bill]
    sums = "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files)
    (target / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
