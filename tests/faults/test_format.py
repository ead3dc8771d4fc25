"""12. Files of the first format load in every later version, or are refused with the version named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from harness import HERE, Driver, newest

from twofold.store import files
from twofold.store.checkpoint import Checkpoints, FormatError, _own_checksum
from twofold.store.policy_file import load_policy, seal, unseal

DATA = HERE / "data" / "format_1"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(DATA, tmp_path / "run")
    return tmp_path / "run"


def test_kept_files_are_small() -> None:
    assert 0 < sum(p.stat().st_size for p in DATA.rglob("*") if p.is_file()) < 100_000


def test_first_checkpoint_loads_and_its_run_goes_on(driver: Driver, run: Path) -> None:
    assert newest(run) == 120
    code, child = driver.run(["resume", str(run)])
    assert code == 0, child.output()
    assert "going on from step 120" in child.output() and newest(run) == 160


def test_first_policy_file_loads_and_acts_as_it_did(run: Path) -> None:
    policy = load_policy(run / "best.safetensors")
    expected = json.loads((DATA / "actions.json").read_bytes())
    for obs, action in expected:
        np.testing.assert_allclose(policy.act(np.array(obs, np.float32)), action, rtol=1e-5)


def test_checkpoint_of_a_later_format_is_refused_with_its_version(run: Path) -> None:
    """Not taken for damaged: falling back to an older one would throw work away in silence."""
    path = run / "checkpoints" / "step_000000000120" / "MANIFEST.json"
    manifest = json.loads(path.read_bytes()) | {"format": 99}
    del manifest["blake2b"]
    path.write_bytes(files.to_json(manifest | {"blake2b": _own_checksum(manifest)}))
    with pytest.raises(FormatError, match="has checkpoint format 99, this version reads format 1"):
        Checkpoints(run / "checkpoints").load()


def test_policy_file_of_a_later_format_is_refused_with_its_version(run: Path, tmp_path: Path) -> None:
    arrays, about = unseal(run / "best.safetensors")
    path = tmp_path / "later.safetensors"
    path.write_bytes(seal(arrays, about | {"format": 99}))
    with pytest.raises(FormatError, match="has policy format 99, this version reads format 1"):
        load_policy(path)
