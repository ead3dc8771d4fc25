"""Pictures are drawn wherever the command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_DRAWS = """
import os
from twofold.show.style import new_figure, to_bytes
assert to_bytes(new_figure()[0], "png").startswith(b"\\x89PNG")
assert os.environ["MPLBACKEND"] == "no such backend"
"""


def test_a_backend_that_is_not_there_is_not_needed() -> None:
    house = str(Path(__file__).resolve().parents[2])
    around = {**os.environ, "PYTHONPATH": house, "MPLBACKEND": "no such backend"}
    subprocess.run([sys.executable, "-c", _DRAWS], env=around, check=True)
