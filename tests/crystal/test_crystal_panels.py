"""Relaxations as data for a page."""

import pytest
from ase.calculators.emt import EMT
from crystals import rattled

from twofold.base.errors import UserError
from twofold.cli import main
from twofold.crystal.compare import Outcome, compare
from twofold.crystal.panels import trajectory_panel
from twofold.show.panels import read_panel


def test_a_path_has_a_frame_an_energy_and_a_force_for_every_call():
    atoms = rattled("Cu")
    atoms.calc = None
    (outcome,) = compare({"cu": atoms}, EMT, ("bfgs",))
    panel = trajectory_panel(outcome)
    assert len(panel.frames) == outcome.calls == len(panel.values["energy (eV)"])
    assert len(panel.frames[0]) == 3 * len(atoms)
    assert panel.values["largest force (eV/Å)"][-1] <= 0.01


def test_a_method_that_failed_has_no_path():
    with pytest.raises(UserError, match="no more physics"):
        trajectory_panel(Outcome("cu", "bfgs", 0, 0.0, 0.0, 0.0, False, error="no more physics"))


def test_relax_compare_puts_the_path_on_the_page_of_a_run(tmp_path):
    words = [
        "Cu*2x1x1",
        "--rattle=0.05",
        "--methods=bfgs",
        f"--out={tmp_path / 'out'}",
        f"--panel={tmp_path}",
    ]
    assert main(["relax-compare", *words]) == 0
    assert read_panel(tmp_path / "panels" / "relaxation.json")["kind"] == "trajectory"
