"""12. Files of the first format load in every later version, or are refused with the version named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from harness import HERE, Driver, newest

from twofold.base.errors import CheckpointError
from twofold.store import files
from twofold.store.checkpoint import Checkpoints, FormatError, _own_checksum
from twofold.store.policy_file import load_policy, seal, unseal

DATA = HERE / "data" / "format_1"
PLAIN = HERE / "data" / "format_1_plain"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(DATA, tmp_path / "run")
    return tmp_path / "run"


def test_kept_files_are_small() -> None:
    assert 0 < sum(p.stat().st_size for p in DATA.rglob("*") if p.is_file()) < 100_000


def test_first_checkpoint_is_refused_with_its_version_and_nothing_is_lost(driver: Driver, run: Path) -> None:
    assert newest(run) == 120
    code, child = driver.run(["resume", str(run)])
    assert code == 2, child.output()
    assert "has checkpoint format 1, this version reads format 2" in child.output() and newest(run) == 120


def test_first_run_directory_can_still_be_looked_at(driver: Driver, run: Path) -> None:
    code, child = driver.run(["show", str(run)])
    assert code == 0 and "learner.expl_noise.start" in child.output(), child.output()


def test_first_policy_file_that_needs_what_is_gone_is_refused_with_its_version(run: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"has policy format 1 with learner\.normalise_obs: only twofold 0\.1"
    ):
        load_policy(run / "best.safetensors")


def test_first_policy_file_loads_and_acts_as_it_did() -> None:
    policy = load_policy(PLAIN / "best.safetensors")
    expected = json.loads((PLAIN / "actions.json").read_bytes())
    for obs, action in expected:
        np.testing.assert_allclose(policy.act(np.array(obs, np.float32)), action, rtol=1e-5)


def test_checkpoint_of_a_later_format_is_refused_with_its_version(run: Path) -> None:
    """Not taken for damaged: falling back to an older one would throw work away in silence."""
    path = run / "checkpoints" / "step_000000000120" / "MANIFEST.json"
    manifest = json.loads(path.read_bytes()) | {"format": 99}
    del manifest["blake2b"]
    path.write_bytes(files.to_json(manifest | {"blake2b": _own_checksum(manifest)}))
    with pytest.raises(FormatError, match="has checkpoint format 99, this version reads format 2"):
        Checkpoints(run / "checkpoints").load()


def test_policy_file_of_a_later_format_is_refused_with_its_version(tmp_path: Path) -> None:
    arrays, about = unseal(PLAIN / "best.safetensors")
    path = tmp_path / "later.safetensors"
    path.write_bytes(seal(arrays, about | {"format": 99}))
    with pytest.raises(FormatError, match="has policy format 99, this version reads formats 1 to 2"):
        load_policy(path)
