"""The notebook that is shipped runs from top to bottom in a real kernel, and shows what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    for package in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(package, reason="notebooks need the extra 'notebook'")
    import nbformat
    from nbclient import NotebookClient

    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", paths)
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        folder = tmp_path_factory.mktemp("notebook")
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def shown(cell: Any) -> str:
    """What a cell answered."""
    return "".join(o["data"]["text/plain"] for o in cell.outputs if o.output_type == "execute_result")


def test_every_cell_runs_and_the_last_one_proves_the_resume(executed: Any) -> None:
    answers = [shown(cell) for cell in executed.cells if cell.cell_type == "code"]
    assert answers[0] == "[]" and answers[-1] == "True"


def test_progress_is_one_output_that_is_refreshed_in_place(executed: Any) -> None:
    training = next(cell for cell in executed.cells if "progress=True" in cell.source)
    bars = [o for o in training.outputs if o.output_type == "display_data"]
    assert len(bars) == 1 and "1,500 / 1,500" in bars[0]["data"]["text/html"]


def test_what_is_shipped_shows_what_the_notebook_answers_today(executed: Any) -> None:
    """Numbers may differ between machines in their last digits; what is said of the run may not."""
    import nbformat

    shipped = nbformat.read(NOTEBOOK, as_version=4)
    pairs = zip(shipped.cells, executed.cells, strict=True)
    code = [(shown(a), shown(b)) for a, b in pairs if a.cell_type == "code"]
    assert all(bool(ours) == bool(theirs) for ours, theirs in code)
    assert code[0][0] == code[0][1] and code[-1][0] == code[-1][1]
