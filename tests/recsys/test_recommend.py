"""Serving from the policy file alone: names, what is left out, lists that agree with one another."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from twofold import api
from twofold.base.errors import CheckpointError, UserError
from twofold.recsys.asking import Question
from twofold.recsys.loaders import load
from twofold.recsys.recommend import load_recommender
from twofold.store.policy_file import load_policy

from .conftest import SHORT

LOG = [
    (f"u{user}", f"i{item:02d}", 1 + (user * item + item) % 5)
    for user in range(12)
    for item in range(0, 20, 2)
]


def write(path, rows):
    path.write_text("user,item,rating\n" + "\n".join(f"{u},{i},{r}" for u, i, r in rows) + "\n")
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A recommender trained on a CSV; the training folder and the CSV are then taken away."""
    folder = tmp_path_factory.mktemp("shop")
    path = write(folder / "ratings.csv", LOG)
    settings = {"env_args.path": str(path), "env_args.max_turn": 6, "env_args.force_length": 4}
    settings |= {"env_args.model.gaussian.samples": 4, "env_args.model.gaussian.tune_steps": 2}
    api.train(
        "td3_rec", "ratings", run=str(folder / "run"), **(SHORT | {"trainer.test_episodes": 0} | settings)
    )
    file = folder / "policy.safetensors"
    shutil.copy(folder / "run" / "best.safetensors", file)
    shutil.rmtree(folder / "run")
    path.unlink()
    return file


def names(found):
    return [entry.name for entry in found]


def test_a_policy_file_names_items_without_data_or_training_folder(shop):
    policy = load_recommender(shop)
    found = policy.recommend(user="u5", k=5, rated=True)
    assert set(names(found)) <= {item for _, item, _ in LOG}
    assert policy.labels.low == 1 and policy.labels.high == 5
    assert policy.labels.users == tuple(f"u{user}" for user in sorted(range(12), key=lambda n: f"u{n}"))


def test_another_process_another_folder_and_another_hash_seed_give_the_same_names(shop, tmp_path):
    ask = (
        "import sys; from twofold.recsys.recommend import load_recommender as load;"
        "print([(e.name, round(e.value, 5)) for e in load(sys.argv[1]).recommend(user='u5', k=5, rated=True)])"
    )
    env = os.environ | {"PYTHONHASHSEED": "77", "TWOFOLD_RUNS": str(tmp_path / "runs")}
    command = [sys.executable, "-c", ask, str(shop)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = load_recommender(shop).recommend(user="u5", k=5, rated=True)
    assert done.stdout == f"{[(entry.name, round(entry.value, 5)) for entry in here]}\n"
    assert not list(tmp_path.iterdir())  # nothing was fitted or written


CHANGES = {
    "a row of a new item": [*LOG, ("u5", "a00", 3)],
    "a row of a new user": [("a0", "i00", 3), *LOG],
    "reordered": LOG[::-1],
    "renamed": [(user, item.replace("i18", "x18"), rating) for user, item, rating in LOG],
}


def test_the_same_names_after_any_change_of_the_data_in_another_process_and_folder(shop, tmp_path):
    ask = (
        "import sys; from pathlib import Path; from twofold.recsys.loaders import load;"
        "from twofold.recsys.recommend import load_recommender\n"
        "names = lambda: [(e.name, round(e.value, 5)) for e in policy.recommend(user='u5', k=9, rated=True)]\n"
        "for today in sys.argv[1:]:\n"
        "    policy = load_recommender('policy.safetensors'); print(names())\n"
        "    policy.update(load('ratings', Path(today)).train); print(names())\n"
    )
    shutil.copy(shop, tmp_path / "policy.safetensors")
    files = [write(tmp_path / f"{change}.csv", rows).name for change, rows in CHANGES.items()]
    env = os.environ | {"PYTHONHASHSEED": "5"}
    command = [sys.executable, "-c", ask, *files]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = [
        (e.name, round(e.value, 5)) for e in load_recommender(shop).recommend(user="u5", k=10, rated=True)
    ]
    renamed = [entry for entry in here if entry[0] != "i18"]
    after = [renamed if change == "renamed" else here for change in CHANGES]
    assert done.stdout.splitlines() == [str(found[:9]) for left in after for found in (here, left)]


def test_a_changed_catalogue_is_mapped_by_name(shop, tmp_path):
    policy = load_recommender(shop)
    before = names(policy.recommend(user="u5", k=10, rated=True))
    rows = [row for row in LOG if row[1] != before[0]] + [("a0", "a00", 3), ("u5", "i07", 4)]
    changes = policy.update(load("ratings", write(tmp_path / "now.csv", rows[::-1])).train)
    assert changes.new == ("a00", "i07") and changes.gone == (before[0],)
    assert "2 items are new and cannot be recommended yet: a00, i07" in changes.text()
    assert names(policy.recommend(user="u5", k=9, rated=True)) == before[1:10]


def test_what_a_user_rated_since_is_left_out_by_name(shop, tmp_path):
    policy = load_recommender(shop)
    rows = [*LOG, ("somebody new", "i04", 5)]
    policy.update(load("ratings", write(tmp_path / "now.csv", rows)).train)
    assert "i04" not in names(policy.recommend(user="somebody new", k=9))


def test_items_that_a_user_rated_are_left_out_unless_asked_for(run):
    policy = load_recommender(run)
    rated = {str(item) for item in policy.labels.rated(17).tolist()}
    assert len(rated) == 10
    left = names(policy.recommend(user="17", k=24))
    assert len(left) == 14 and not rated & set(left)
    assert len(policy.recommend(user="17", k=24, rated=True)) == 24


def test_all_items_of_a_long_history_are_left_out(run):
    policy = load_recommender(run)
    history = [str(item) for item in range(20)]  # an episode has 12 turns
    assert set(names(policy.recommend(history=history, k=24))) == {"20", "21", "22", "23"}
    assert len(policy.recommend(history=history, k=24, repeats=True)) > 4


def test_a_used_up_catalogue_is_said(run):
    with pytest.raises(UserError, match="nothing is left"):
        load_recommender(run).recommend(history=[str(item) for item in range(24)])


def test_a_history_changes_the_recommendations(run):
    policy = load_recommender(run)
    liked = policy.recommend(history=[("3", 5), ("4", 1)], k=10)
    assert len(liked) == 10 and not {entry.item for entry in liked} & {3, 4}
    values = [entry.value for entry in liked]
    assert values == sorted(values, reverse=True)


def test_a_longer_list_begins_with_the_shorter_one(run):
    policy = load_recommender(run)
    assert names(policy.recommend(k=5)) == names(policy.recommend(k=20))[:5]
    assert names(policy.recommend(k=12)) == names(policy.recommend(k=24))[:12]
    assert len(set(names(policy.recommend(k=24)))) == 24


def test_the_first_item_is_what_the_policy_shows(run):
    policy = load_recommender(run)
    asked = [policy._asked(Question(user, repeats=True, rated=True)) for user in range(20)]
    obs = policy._obs(np.arange(20), asked)
    shown = policy.loaded.learner.policy(explore=False, rows=20, rng=np.random.default_rng(0)).act(obs)
    found = policy.recommend_many([str(user) for user in range(20)], k=3, rated=True)
    np.testing.assert_array_equal(policy.catalogue.item_vectors[found.items[:, 0]], shown)


def test_many_users_at_once_get_what_each_gets_alone(run):
    policy = load_recommender(run)
    users = ["17", "nobody", None, "3"]
    histories = [[("3", 5), ("4", 1), "7"], [], [("3", 2)], [(str(n), 4) for n in range(15)]]
    found = policy.recommend_many(users, 4, histories)
    assert found.known.tolist() == [True, False, False, True]
    for row, (user, history) in enumerate(zip(users, histories, strict=True)):
        alone = policy.recommend(history, 4, user)
        assert [entry.item for entry in alone] == found.items[row].tolist()
        assert [entry.value for entry in alone] == pytest.approx(found.values[row].tolist(), abs=1e-5)


def test_lists_that_run_out_are_padded(run):
    found = load_recommender(run).recommend_many(["17"], k=30)
    assert (found.items[0] >= 0).sum() == 14 and found.items.shape == (1, 30)


def test_an_unknown_user_is_reported(run, caplog):
    policy = load_recommender(run)
    assert not policy.knows("nobody") and policy.knows("17")
    with caplog.at_level("WARNING", "twofold"):
        assert len(policy.recommend(user="nobody", history=["1"], k=3)) == 3
    assert "user 'nobody' is not in the data" in caplog.text


def test_bad_questions_are_named(run):
    policy = load_recommender(run)
    with pytest.raises(UserError, match=r"item '3': the rating 9 is not in 1\.\.5"):
        policy.recommend(history=[("3", 9)])
    with pytest.raises(UserError, match="no item 'hat'"):
        policy.recommend(history=["hat"])
    with pytest.raises(UserError, match="k must be at least 1"):
        policy.recommend(k=0)
    with pytest.raises(UserError, match="2 users and 1 histories"):
        policy.recommend_many(["1", "2"], histories=[[]])


def test_reasons_are_features_that_the_user_is_expected_to_like(run):
    found = load_recommender(run).recommend(user="3", k=10)
    assert any(entry.reasons for entry in found)
    assert not any("(-" in reason for entry in found for reason in entry.reasons)


def test_expected_ratings_stay_on_the_scale(run):
    found = load_recommender(run).recommend_many([str(user) for user in range(20)], k=10)
    assert found.expected[found.items >= 0].min() >= 1 and found.expected.max() <= 5


def test_a_loaded_policy_acts_on_one_observation(run):
    loaded = load_policy(run)
    obs = {name: space.sample() * 0 for name, space in loaded.observation_space.spaces.items()}
    obs["items"] -= 1
    assert loaded.act(obs).shape == loaded.action_space.shape


def test_a_policy_without_names_is_refused(run, tmp_path):
    from twofold.store import files
    from twofold.store.policy_file import seal, unseal

    arrays, about = unseal(run / "best.safetensors")
    del about["rest"]["chooser"]["labels"]
    arrays = {name: array for name, array in arrays.items() if "labels" not in name}
    about["arrays"] = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    files.replace_bytes(tmp_path / "old.safetensors", seal(arrays, about))
    with pytest.raises((CheckpointError, UserError), match="train it again"):
        load_recommender(tmp_path / "old.safetensors")


def test_another_ranking_is_served_by_name(shop):
    policy = load_recommender(shop)
    liked = policy.recommend(user="u5", k=4, rated=True, by="rating")
    expected = policy.catalogue.item_factors @ policy.catalogue.user_factors[policy._user("u5")]
    assert [entry.item for entry in liked] == np.argsort(-expected, kind="stable")[:4].tolist()
    counted = policy.recommend(k=4, by="count")
    counts = policy.popularity()
    assert [counts[entry.item] for entry in counted] == sorted(counts, reverse=True)[:4]
    with pytest.raises(UserError, match="reward=both"):
        policy.recommend(user="u5", by="taken")
