"""Partner sets, seats and mixed teams, on a tiny foraging world."""

import json

import numpy as np
import pytest

from twofold import api
from twofold.base import tree
from twofold.base.errors import CheckpointError, ConfigError, UserError
from twofold.cli import main
from twofold.rows.check import check_world
from twofold.team.crossplay import cross_play, kind_of, meet
from twofold.team.partners import gather_population, make_population, split_partners
from twofold.team.pymarl import translate
from twofold.team.seating import Group, Seating
from twofold.team.sets import parse_team, read_partners
from twofold.team.worlds import partnered as world_of_partners
from twofold.team.worlds.partnered import PartneredConfig, groups_for
from twofold.team.worlds.space import shape_of

pytest.importorskip("lbforaging")
TINY = {
    "env_args.id": "Foraging-5x5-2p-1f-v3", "env_args.time_limit": 8, "networks.hidden": 8, "trainer.steps": 320,
    "trainer.rows": 2, "trainer.eval_every": 200, "trainer.eval_episodes": 2, "trainer.eval_rows": 2,
    "trainer.tensorboard": False, "replay.batch_size": 4, "replay.buffer_size": 50, "trainer.test_episodes": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def partner_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets") / "tiny"
    make_population(folder, "lbf", algorithms=["iql", "vdn"], seeds=[0, 1], checkpoints=2, settings=TINY)
    return split_partners(read_partners(folder), test_algorithms=["vdn"], test_seeds=[])


def partnered(partner_set, rows=3, purpose="train", **settings):
    cfg = PartneredConfig(partners=str(partner_set.folder), **settings)
    return world_of_partners.partnered(cfg, rows=rows, purpose=purpose)


def test_a_population_holds_algorithms_times_seeds_times_checkpoints(partner_set):
    assert [p.name for p in partner_set.partners][:4] == ["iql_s0_c1", "iql_s0_c2", "iql_s1_c1", "iql_s1_c2"]
    assert len(partner_set.partners) == 8 and len(partner_set.about.version) == 12


def test_a_set_gathered_from_runs_holds_their_best_policies(tmp_path):
    runs = [tmp_path / "first", tmp_path / "second", tmp_path / "other"]
    for run, config, settings in zip(
        runs, ("iql", "vdn", "vdn"), ({}, {}, {"env_args.time_limit": 9}), strict=True
    ):
        api.train(config, "lbf", run=run, **(TINY | settings | {"seed": 3}))
    with pytest.raises(UserError, match="another world"):
        gather_population(tmp_path / "mine", runs)
    assert not (tmp_path / "mine").exists()

    made = gather_population(tmp_path / "mine", runs[:2])
    assert [(p.name, p.algorithm) for p in made.partners] == [("iql_s3_c1", "iql"), ("vdn_s3_c1", "vdn")]
    assert made.partners[0].file.read_bytes() == (runs[0] / "best.safetensors").read_bytes()
    assert made.about.world == "team/lbf" and made.about.world_args["time_limit"] == 8
    with pytest.raises(UserError, match="already"):
        gather_population(tmp_path / "mine", runs[:2])


def test_the_split_tells_homologues_from_others(partner_set):
    assert set(partner_set.train) == {"iql_s0_c1", "iql_s0_c2", "iql_s1_c1", "iql_s1_c2"}
    assert (
        kind_of(partner_set, "vdn_s0_c1") == "non-homologue" and kind_of(partner_set, "iql_s0_c1") == "train"
    )


def test_a_split_that_leaves_nobody_is_refused(partner_set):
    with pytest.raises(ConfigError, match="nobody"):
        split_partners(partner_set, test_algorithms=["iql", "vdn"], test_seeds=[])


def test_a_changed_partner_file_is_noticed(partner_set, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(partner_set.folder, copy, ignore=shutil.ignore_patterns("runs"))
    shutil.copy(copy / "iql_s0_c1.safetensors", copy / "vdn_s0_c1.safetensors")
    with pytest.raises(CheckpointError, match="not the file"):
        read_partners(copy)


def test_the_learners_world_keeps_the_contract_and_resumes_with_its_partners(partner_set):
    world = partnered(partner_set)
    shape = shape_of(world.single_observation_space)
    assert (shape.agents, shape.others, shape.obs) == (1, 1, 9 + 2)
    assert check_world(world, steps=40) == []


def test_training_and_test_partners_do_not_meet(partner_set):
    for which, algorithm in (("train", "iql"), ("test", "vdn")):
        assert {p.algorithm for p in groups_for(partner_set, which, "", 1, 2)[0]} == {algorithm}


def test_the_learner_sees_its_own_seat_and_its_partners_actions(partner_set):
    world = partnered(partner_set, rows=8)
    obs, _ = world.reset(seed=list(range(8)))
    seats = world.seating.order[:, 0]
    assert (obs["obs"][:, 0, -2:].argmax(-1) == seats).all() and set(seats) == {0, 1}
    whole = world._obs["obs"]
    assert (obs["obs"][np.arange(8), 0, :-2] == whole[np.arange(8), seats]).all()
    after, *_ = world.step(np.zeros((8, 1), int))
    partner = world.seating.policies[0]
    assert (
        after["others"].shape == (8, 1)
        and (after["others"][:, 0] == partner.last_action[np.arange(8), 1 - seats]).all()
    )


def test_seats_are_counted_against_the_world(partner_set):
    with pytest.raises(ConfigError, match="the team has 2 seats"):
        partnered(partner_set, team="2iql")
    with pytest.raises(ConfigError, match="no train partner of the algorithm 'qmix'"):
        partnered(partner_set, team="1qmix")
    assert partnered(partner_set, team="1iql").seating.groups == [Group(1, (0, 1, 2, 3))]


def test_every_seat_is_played_by_its_owner():
    class Always:
        def __init__(self, action):
            self.action = action

        def act(self, obs):
            return np.full((2, 4), self.action)

        def reset(self, rows):
            pass

    seating = Seating(
        [Always(5), Always(7)], [Group(2, (0,)), Group(1, (1,))], agents=4, free=1, rows=2, rotate=True
    )
    for row in range(2):
        seating.deal(row, 10 + row)
    joint = seating.fill({}, np.array([[1], [1]]))
    assert sorted(joint[0].tolist()) == [1, 5, 5, 7] and joint[0, seating.order[0, 0]] == 1


def test_mixed_team_names_are_read():
    assert parse_team("4iql3qmix1iql_omg") == [(4, "iql"), (3, "qmix"), (1, "iql_omg")]
    with pytest.raises(ConfigError, match="not a mixed team"):
        parse_team("iql4")


def test_a_mixed_team_becomes_a_training_with_partners():
    typed = {
        "multi-algs": "true",
        "config": "2iql1iql_omg",
        "train-alg": "iql_omg",
        "env-config": "skirmish",
        "partners": "SET",
    }
    options, settings = translate(
        typed, {"env_args.map_name": "3m", "mac": "multi_module_mac", "obs_is_state": True}
    )
    assert options == {"config": "iql_omg", "env-config": "partnered"}
    assert settings["env_args.world"] == "team/skirmish" and settings["env_args.world_args.map_name"] == "3m"
    assert (settings["env_args.team"], settings["env_args.seats"], settings["obs_is_state"]) == (
        "2iql",
        1,
        True,
    )


def test_a_mixed_team_of_the_wrong_size_is_refused():
    typed = {
        "multi-algs": "true",
        "config": "4iql3qmix1iql_omg",
        "train-alg": "iql_omg",
        "env-config": "skirmish",
        "partners": "SET",
    }
    with pytest.raises(ConfigError, match="has 8 members, this world has 3 agents"):
        translate(typed, {"env_args.map_name": "3m"})
    with pytest.raises(ConfigError, match="not in the team"):
        translate(typed | {"train-alg": "vdn"}, {})


def test_meeting_is_the_same_for_the_same_seeds(partner_set):
    first, second = partner_set.partners[0].load(), partner_set.partners[4].load()
    world = (partner_set.about.world, partner_set.about.world_args)
    one, two = (meet(world, first, second, episodes=4, seed=9) for _ in range(2))
    assert tree.equal(one, two) and one.rewards.shape == (4, 8)
    assert np.allclose(one.rewards.sum(-1), one.metrics["return"])


def test_cross_play_gives_a_matrix_with_intervals_and_curves(partner_set):
    policies = {p.name: p.load() for p in partner_set.partners[:2]}
    played = cross_play(partner_set, policies, episodes=3, seed=0, metric="foraged")
    assert played.mean.shape == (2, 8) and (played.low <= played.mean).all()
    assert played.curves["iql_s0_c1 with train"].shape == (12, 8)
    assert played.kinds == ["train"] * 4 + ["non-homologue"] * 4
    assert cross_play(partner_set, policies, episodes=1, seed=0).metric == "return"
    with pytest.raises(UserError, match="this world has return"):
        cross_play(partner_set, policies, episodes=1, seed=0, metric="battle_won")


@pytest.mark.parametrize("config", ["iql", "iql_am", "iql_omg"])
def test_opponent_models_train_with_partners_and_are_evaluated_with_both_kinds(
    partner_set, config, tmp_path, capsys
):
    settings = {key: value for key, value in TINY.items() if not key.startswith("env_args")}
    settings |= {"env_args.partners": str(partner_set.folder)}
    trained = api.train(config, "partnered", run=tmp_path / "run", **settings)
    worlds = {
        json.loads(line)["world"]
        for line in (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    }
    assert worlds == {"train_partners", "test_partners"}
    out = tmp_path / "out"
    arguments = [str(trained.folder), f"--partners={partner_set.folder}", "--episodes=2", f"--out={out}"]
    assert main(["eval", *arguments]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "adaptation.png",
        "cross_play.csv",
        "cross_play.png",
    ]
    assert len((out / "cross_play.csv").read_text().splitlines()) == 1 + 8


def test_the_command_line_makes_splits_and_shows(partner_set, capsys):
    assert main(["partners", "split", str(partner_set.folder), "--test-algs=vdn"]) == 0
    assert main(["partners", "show", str(partner_set.folder)]) == 0
    assert "non-homologue" in capsys.readouterr().out


def test_a_signal_ends_making_partners_with_its_exit_code_and_the_same_command_goes_on(
    tmp_path, capsys, monkeypatch
):
    import signal

    import torch

    threads = []

    def stopped(self):
        threads.append(torch.get_num_threads())
        if self.steps >= 100:
            signal.raise_signal(signal.SIGINT)
        return collect(self)

    from twofold.core.trainer import Trainer

    collect = Trainer._collect
    typed = ["make", str(tmp_path / "set"), "--env-config=lbf", "--algs=iql", "--seeds=0", "threads=1"]
    typed += [f"{key}={value}" for key, value in TINY.items()]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_collect", stopped)
        assert main(["partners", *typed]) == 128 + signal.SIGINT
    assert "SIGINT" in capsys.readouterr().err and set(threads) == {1}
    assert main(["partners", *typed]) == 0
    assert [p.name for p in read_partners(tmp_path / "set").partners] == ["iql_s0_c1"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"train": "everybody"}, "train must be a list"),
        ({"about": {"world_args": {}}}, "about.world"),
        ({"more": 1}, "more"),
        ({"format": 9}, "format 9"),
    ],
)
def test_a_partner_list_that_is_not_as_it_must_be_is_refused(partner_set, tmp_path, change, told):
    record = json.loads((partner_set.folder / "partners.json").read_text()) | change
    (tmp_path / "partners.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=told):
        read_partners(tmp_path)


def test_drawing_leaves_the_callers_matplotlib_alone(partner_set, tmp_path):
    import sys

    from twofold.team.crossplay import draw_adaptation, draw_cross_play

    policies = {p.name: p.load() for p in partner_set.partners[:1]}
    played = cross_play(partner_set, policies, episodes=2, seed=0)
    before = set(sys.modules)
    draw_cross_play(played, tmp_path / "table.png")
    draw_adaptation(played.curves, tmp_path / "curves.png")
    assert "matplotlib.pyplot" not in set(sys.modules) - before
    assert (tmp_path / "table.png").stat().st_size > 1000 < (tmp_path / "curves.png").stat().st_size


def test_partners_play_in_their_own_world_unless_another_is_named(partner_set):
    own = partnered(partner_set)
    assert shape_of(own.single_observation_space).limit == 8
    longer = partnered(partner_set, world_args={"time_limit": 11})
    assert shape_of(longer.single_observation_space).limit == 11


def test_without_a_split_there_are_no_test_partners(partner_set, tmp_path, caplog):
    import logging
    import shutil

    from twofold.rows.world import evaluation_names
    from twofold.settings.config import load

    def names(folder):
        return evaluation_names(load("iql", "partnered", env_args={"partners": str(folder)}).config)

    whole = tmp_path / "whole"
    shutil.copytree(partner_set.folder, whole, ignore=shutil.ignore_patterns("runs"))
    record = json.loads((whole / "partners.json").read_text()) | {"train": [], "test": []}
    (whole / "partners.json").write_text(json.dumps(record))
    assert names(whole) == ("train_partners",)
    assert names(partner_set.folder) == ("train_partners", "test_partners")
    with pytest.raises(ConfigError, match="no test partners"):
        read_partners(whole).split("test")
    logging.getLogger("twofold").propagate = True
    with caplog.at_level("INFO", "twofold"):
        partnered(partner_set)
        partnered(read_partners(whole))
    assert "4 of the train split (iql)" in caplog.text and "8 of the whole set" in caplog.text


def test_a_mixed_team_without_test_partners_of_its_kind_is_evaluated_with_those_it_met(partner_set, caplog):
    from twofold.rows.world import evaluation_names
    from twofold.settings.config import load

    given = {"partners": str(partner_set.folder), "team": "1iql"}
    assert evaluation_names(load("iql", "partnered", env_args=given).config) == ("train_partners",)
    assert "has no test partner of iql" in caplog.text
