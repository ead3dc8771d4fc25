"""A batch on a Ray cluster has the rows of a batch here, also when a node dies."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ray_nodes import ONE_AFTER_THE_OTHER, cluster, kill_node
from test_relax_batch import OWN, comparable, relax

from twofold.crystal.table import read_rows

pytest.importorskip("ray", reason="Ray needs the extra `ray`")
pytestmark = [ONE_AFTER_THE_OTHER, pytest.mark.scale]
__all__ = ["cluster"]
METALS = ("Cu", "Ag", "Ni", "Au", "Pd", "Pt", "Al", "Cu*2x1x1", "Ag*2x1x1", "Ni*2x1x1")
SLOW = OWN.replace(
    "        super().calculate", "        import time; time.sleep(0.2)\n        super().calculate"
)


def test_a_batch_on_ray_has_the_rows_of_a_batch_here_when_a_node_dies(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(SLOW)
    words = (*METALS, "--import=own.py", "--calculator=own:make")
    killed: list[int] = []

    def kill() -> None:
        while not (rows := sum(len(read_rows(p)) for p in Path().glob("far.csv.parts/*/table.csv"))):
            time.sleep(0.05)
        killed.append(rows)
        kill_node(cluster)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    on = f"--on=ray:{cluster.address}"
    assert relax(*words, "--table=far.csv", "--out=far/", on, "--jobs=2") == 0
    killer.join(5)
    assert killed and not Path("far.csv.parts").exists()
    assert relax(*words, "--table=near.csv", "--out=far/") == 0
    assert comparable("far.csv") == comparable("near.csv")
