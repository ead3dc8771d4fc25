"""Standings made by jobs are the standings of one process, to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_nodes import ONE_AFTER_THE_OTHER, cluster, kill_node

from twofold.cli import main
from twofold.recsys import evaluations, parts
from twofold.recsys.config import UsersConfig
from twofold.recsys.evaluations import Evaluation, Evaluator, episodes_of
from twofold.recsys.menu import Standings
from twofold.recsys.parts import Kept, folder_of, make_part
from twofold.recsys.standings import in_this_process, standings
from twofold.settings.config import layers_for, own_settings, resolve

from .conftest import SMALL

__all__ = ["cluster"]
WORDS = [f"{key}={value}" for key, value in SMALL.items()]


def users(**changes: object) -> UsersConfig:
    """The users that the run was trained with."""
    layers = layers_for("td3_rec", "synthetic_users", SMALL | changes)
    return own_settings(UsersConfig, resolve(layers).config.env_args)


@pytest.fixture
def evaluator(run: Path) -> Evaluator:
    return Evaluator(users(), [run], 2)


def figures(out: Path) -> Any:
    record = json.loads(out.with_suffix(".json").read_text())
    return {key: value for key, value in record.items() if key != "provenance"}


def stand(run: Path, out: Path, *more: str) -> int:
    argv = ["standings", str(run), "--env-config=synthetic_users", f"--out={out}", "--seeds=2"]
    return main([*argv, *more, *WORDS])


def test_jobs_make_the_figures_of_one_process(run: Path, tmp_path: Path, capsys: Any) -> None:
    assert stand(run, tmp_path / "near") == 0
    near = capsys.readouterr().out
    assert stand(run, tmp_path / "far", "--jobs=2") == 0
    assert capsys.readouterr().out == near
    assert figures(tmp_path / "far") == figures(tmp_path / "near")
    assert not (tmp_path / "far.parts").exists()


def test_every_evaluation_comes_back_from_its_file_as_it_was(evaluator: Evaluator, tmp_path: Path) -> None:
    kept = Kept(tmp_path, evaluator)
    results = in_this_process(evaluator)
    for one, result in results.items():
        kept.write(one, result)
        read = kept.read(one)
        assert list(read) == list(result)
        for name, arrays in result.items():
            assert list(read[name]) == list(arrays)
            for key, array in arrays.items():
                assert read[name][key].dtype == array.dtype and np.array_equal(read[name][key], array)
    assert len({kept.path(one) for one in results}) == len(results) == len(evaluator.plan)


def test_a_part_makes_what_is_missing_and_nothing_else(
    run: Path, evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Standings(places=(run,), seeds=2, out=tmp_path / "table", part="1/4")
    make_part(asked, evaluator)
    kept, share = Kept(folder_of(asked), evaluator), evaluator.plan[1::4]
    assert sorted(kept.folder.iterdir()) == sorted(kept.path(one) for one in share)
    kept.path(share[0]).write_bytes(b"torn")
    made: list[Evaluation] = []
    real = Evaluator.made
    monkeypatch.setattr(Evaluator, "made", lambda self, one: (made.append(one), real(self, one))[1])
    make_part(asked, evaluator)
    assert made == [share[0]] and all(kept.whole(one) for one in share)


def test_what_was_made_of_something_else_is_not_taken(
    run: Path, evaluator: Evaluator, tmp_path: Path
) -> None:
    kept, one = Kept(tmp_path, evaluator), Evaluation("FB")
    kept.write(one, evaluator.made(one))
    assert kept.whole(one)
    for other in (
        Evaluator(users(), [run], 3),
        Evaluator(users(), [], 2),
        Evaluator(users(**{"env_args.max_turn": 11}), [run], 2),
    ):
        assert not Kept(tmp_path, other).whole(one)


def test_pieces_of_users_are_put_together_in_their_order(
    run: Path, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = dict(episodes_of(in_this_process(evaluator), "FB"))
    monkeypatch.setattr(evaluations, "_TOGETHER", 7)
    several = Evaluator(users(), [run], 2)
    assert len([one for one in several.plan if one.mode == "FB" and one.run == 0]) == 3
    pieces = dict(episodes_of(in_this_process(several), "FB"))
    assert list(pieces) == list(whole)
    for name in ("popularity", "greedy user model with belief", "oracle *", "td3_rec"):
        assert np.array_equal(pieces[name]["items"], whole[name]["items"]), name
    drawn = pieces["random"]["items"][:, 0]
    assert not np.array_equal(drawn[:6], drawn[7:13]), "the second piece draws other items than the first"


def test_an_order_of_users_is_served_alike_in_one_process_and_by_itself() -> None:
    cfg = users(**{"env_args.stream": True})
    evaluator = Evaluator(cfg, [], 2)
    stream = [one for one in evaluator.plan if one.mode == evaluations.STREAMED]
    assert [one.seed for one in stream] == [0, 1]
    alone = Evaluator(cfg, [], 2).made(stream[1])
    together = in_this_process(evaluator)[stream[1]]
    assert {n: {k: float(v) for k, v in got.items()} for n, got in alone.items()} == {
        n: {k: float(v) for k, v in got.items()} for n, got in together.items()
    }


def test_what_is_wrong_is_said_before_users_are_prepared(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(evaluations, "prepare", None)
    for more, message in (
        ([f"--out={tmp_path / 'a'}", "--on=moon"], "--on=moon: write ray:auto"),
        ([f"--out={tmp_path / 'a'}", "--on=ray:127.0.0.1:1"], "ray"),
        (["--jobs=2"], "add --out=NAME"),
        ([f"--out={tmp_path / 'a'}", "--jobs=0"], "--jobs"),
    ):
        assert main(["standings", str(run), "--env-config=synthetic_users", *more, *WORDS]) == 2
        told = capsys.readouterr().err
        assert message in told and len(told.strip().splitlines()) == 1, told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", ["4/4", "x/4", "3", "-1/4", "0/0"])
def test_a_part_that_there_is_not_is_refused(
    part: str, run: Path, evaluator: Evaluator, tmp_path: Path
) -> None:
    asked = Standings(places=(run,), seeds=2, out=tmp_path / "table", part=part)
    with pytest.raises(parts.UserError, match="write K/N"):
        make_part(asked, evaluator)


@pytest.mark.scale
def test_parts_that_fail_say_why_and_what_is_made_is_kept(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    real = parts.Parts._argv
    monkeypatch.setattr(parts.Parts, "_argv", lambda self, part: (*real(self, part)[:-1], "/no/such/run"))
    assert stand(run, tmp_path / "far", "--jobs=2") == 1
    assert "failed     twofold: no run /no/such/run" in capsys.readouterr().err
    assert not (tmp_path / "far.json").exists()
    monkeypatch.undo()
    assert stand(run, tmp_path / "far", "--jobs=2") == 0
    found = standings(users(), [run], 2)
    assert figures(tmp_path / "far")["table"] == found.simulated


@pytest.mark.scale
@ONE_AFTER_THE_OTHER
def test_standings_on_ray_have_the_figures_of_one_process_when_a_node_dies(
    cluster: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="Ray needs the extra `ray`")
    monkeypatch.chdir(tmp_path)
    killed: list[int] = []
    real = parts.Part.reached

    def reached(self: parts.Part) -> int:
        made = len(list(self.folder.glob("*.safetensors")))
        if made and not killed:
            killed.append(made)
            kill_node(cluster)
        return real(self)

    monkeypatch.setattr(parts.Part, "reached", reached)
    assert stand(run, tmp_path / "far", "--jobs=2", f"--on=ray:{cluster.address}") == 0
    assert killed
    assert stand(run, tmp_path / "near") == 0
    assert figures(tmp_path / "far") == figures(tmp_path / "near")
