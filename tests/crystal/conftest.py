"""The place of the real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("TWOFOLD_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))


@pytest.fixture
def alfe() -> Path:
    """The folder of the Al-Fe structures and their potential."""
    if not (DATA / "alfe" / "AlFe.fs").exists():
        pytest.skip("the Al-Fe data are not here: set TWOFOLD_DATA")
    return DATA / "alfe"
