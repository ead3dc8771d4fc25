import json

import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.io import read, write
from crystals import rattled

from twofold.base.errors import UserError
from twofold.cli import main
from twofold.crystal.compare import compare, method, run_one, same_minimum, summary, table


def test_compare_counts_calls_and_names_the_minimum():
    atoms = rattled("Cu")
    atoms.calc = None
    outcomes = compare({"cu": atoms}, EMT, ("prior", "bfgs", "gpmin"))
    ours, bfgs, gpmin = outcomes
    assert ours.calls < bfgs.calls
    assert len(bfgs.forces) == bfgs.calls == len(bfgs.frames)
    assert all(o.converged and o.same_minimum and o.fmax <= 0.01 for o in (ours, bfgs, gpmin))
    assert "| prior | 1 |" in table(summary(outcomes))


def test_a_method_that_raises_has_failed_and_says_why():
    class Broken(EMT):
        def calculate(self, *args, **kwargs):
            raise RuntimeError("no more physics")

    outcome = run_one("cu", rattled("Cu"), "bfgs", Broken(), 0.01, 10)
    assert not outcome.converged and "no more physics" in outcome.error


def test_the_same_minimum_is_seen_through_shifts_and_borders():
    one = bulk("Cu", cubic=True)
    other = one.copy()
    other.positions += [0.7, 0.2, -9.1]
    other.positions[2] += other.cell[1]
    assert same_minimum(one, other, 0.0, 0.0)
    other.positions[1, 0] += 0.5
    assert not same_minimum(one, other, 0.0, 0.0)
    assert not same_minimum(one, one, 0.0, 0.1)


def test_an_unknown_optimiser_gets_a_hint():
    with pytest.raises(UserError, match="bfgs"):
        method("bfsg")


def test_relax_writes_the_structure_and_a_table(tmp_path, capsys):
    assert main(["relax", "Cu*2x1x1", "--rattle=0.1", "-o", str(tmp_path / "out.cif"), "--quiet"]) == 0
    assert len(read(tmp_path / "out.cif")) == 8
    assert "relaxed" in capsys.readouterr().out


def test_bad_structures_get_a_message_each_and_the_others_go_on(tmp_path, capsys):
    write(tmp_path / "good.cif", bulk("Cu", cubic=True))
    (tmp_path / "bad.cif").write_text("nothing")
    files = [str(tmp_path / "bad.cif"), "FeAl:B2", str(tmp_path / "gone.cif"), str(tmp_path / "good.cif")]
    assert main(["relax", *files, "-o", str(tmp_path / "out") + "/", "--quiet", "--optimizer=prior"]) == 1
    out, err = capsys.readouterr()
    assert out.count("FAILED") == 3 and out.count("relaxed") == 1
    assert "bad.cif" in err and "No EMT-potential for Fe" in err and "gone.cif" in err
    assert (tmp_path / "out" / "good.cif").exists()


def test_a_relaxation_that_does_not_converge_is_a_failure(capsys):
    assert main(["relax", "Cu", "--rattle=0.2", "--steps=1", "--quiet"]) == 1
    assert "NOT CONVERGED" in capsys.readouterr().out


def test_relax_can_move_the_cell(tmp_path):
    atoms = bulk("Cu", a=3.8, cubic=True)
    write(tmp_path / "a.extxyz", atoms)
    assert (
        main(["relax", str(tmp_path / "a.extxyz"), "--cell", "-o", str(tmp_path / "b.extxyz"), "--quiet"])
        == 0
    )
    assert read(tmp_path / "b.extxyz").cell.volume ** (1 / 3) == pytest.approx(3.59, abs=0.01)


def test_compare_writes_a_page_that_needs_no_network(tmp_path, capsys):
    arguments = ["Cu", "--rattle=0.1", "--seeds=2", "--methods=prior,bfgs", f"--out={tmp_path}"]
    assert main(["relax-compare", *arguments]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "http" not in page and "src=" not in page and "@DATA@" not in page
    data = page.split('type="application/json">')[1].split("</script>")[0]
    runs = json.loads(data)["runs"]
    assert {run["method"] for run in runs} == {"prior", "bfgs"} and len(runs) == 4
    assert len(runs[0]["frames"][0]) == 12
    saved = json.loads((tmp_path / "runs.json").read_text())
    assert np.mean([r["calls"] for r in saved if r["method"] == "prior"]) < 6
    assert (tmp_path / "forces.png").stat().st_size > 1000
    assert "| prior | 2 |" in capsys.readouterr().out
