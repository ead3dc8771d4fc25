"""A population made by jobs is the population made by one process, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jobs.test_jobs import Silent
from ray_nodes import ONE_AFTER_THE_OTHER, cluster
from test_partners import TINY

from twofold.cli import main
from twofold.team.members import Member, train_members
from twofold.team.partners import Population, make_population

pytest.importorskip("lbforaging", reason="the world needs the extra `team`")
__all__ = ["cluster"]


def population(folder: Path) -> Population:
    return Population(folder, "lbf", ["iql", "vdn"], [0], 2, TINY)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "alone"
    make_population(folder, "lbf", algorithms=["iql", "vdn"], seeds=[0], checkpoints=2, settings=TINY)
    return folder


def test_jobs_make_the_policies_of_one_process(alone: Path, tmp_path: Path, capsys: Any) -> None:
    typed = [f"{key}={json.dumps(value)}" for key, value in TINY.items()]
    words = ["partners", "make", str(tmp_path / "set"), "--env-config=lbf", "--algs=iql,vdn", "--seeds=0"]
    assert main([*words, "--checkpoints=2", "--jobs=2", *typed]) == 0
    assert content(tmp_path / "set") == content(alone) and len(content(alone)) == 4
    ours, theirs = (json.loads((f / "partners.json").read_text()) for f in (tmp_path / "set", alone))
    assert ours == theirs
    assert main([*words, "--checkpoints=2", "--jobs=2", *typed]) == 0  # nothing is left to do


def test_how_far_a_member_is_can_be_told_from_its_files(alone: Path, tmp_path: Path) -> None:
    done, new = Member(population(alone), "iql", 0), Member(population(tmp_path), "iql", 0)
    assert done.finished() and done.reached() == done.steps == TINY["trainer.steps"]
    assert not new.finished() and new.reached() == 0
    assert new.folder.name == "c1" and done.folder.name == "c2"


def test_what_is_wrong_is_said_before_the_first_is_trained(tmp_path: Path, capsys: Any) -> None:
    words = ["partners", "make", str(tmp_path / "set"), "--env-config=lbf", "--jobs=2"]
    for more, message in (
        (["--algs=iql,vdm"], "vdm"),
        (["--on=moon"], "--on=moon: write ray:auto"),
        (["--algs="], "--algs"),
    ):
        assert main([*words, *more]) == 2
        told = capsys.readouterr().err
        assert message in told and len(told.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.scale
@ONE_AFTER_THE_OTHER
def test_a_population_on_ray_is_the_same(cluster: Any, alone: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray needs the extra `ray`")
    wanted = population(tmp_path / "set")
    assert train_members(wanted, Silent(), jobs=2, on=f"ray:{cluster.address}").done
    wanted.write()
    assert content(tmp_path / "set") == content(alone)
