"""Who judges simulated episodes where data brings no true users."""

import numpy as np

from twofold.recsys.completed import JudgeErrors, joined, judge_config, judge_errors, whole
from twofold.recsys.prepare import judge_folder, prepare
from twofold.recsys.user_model import load


def own_ratings(tmp_path, config, **changes):
    rng = np.random.default_rng(0)
    taste, kind = rng.normal(size=(30, 2)), rng.normal(size=(20, 2))
    lines = [
        f"{user},{item},{np.clip(round(3 + taste[user] @ kind[item]), 1, 5)}"
        for user in range(30)
        for item in rng.permutation(20)[:12]
    ]
    path = tmp_path / "my.csv"
    path.write_text("user,item,rating\n" + "\n".join(lines))
    return config(data="ratings", path=str(path), split="random", **changes)


def test_the_judge_has_seen_all_ratings_and_the_model_that_trains_has_not(tmp_path, config):
    data, model, _ = prepare(own_ratings(tmp_path, config))
    assert len(whole(data)) == len(data.train) + len(data.test) == 360
    off = [
        np.square(table.at(data.test.users, data.test.items) - data.test.values).mean()
        for table in (data.truth, model.mean)
    ]
    assert off[0] < off[1]
    assert data.truth.values.min() >= 1 and data.truth.values.max() <= 5
    assert (data.truth.values != np.round(data.truth.values)).any()


def test_the_judge_is_kept_and_read_again(tmp_path, config):
    cfg = own_ratings(tmp_path, config)
    data, *_ = prepare(cfg)
    kept = load(judge_folder(data, cfg.model))
    np.testing.assert_array_equal(kept.mean.values, data.truth.values)
    assert judge_config(data, cfg.model).fit_seed != cfg.model.fit_seed


def test_both_errors_are_on_ratings_that_neither_has_seen(tmp_path, config):
    cfg = own_ratings(tmp_path, config)
    data, model, _ = prepare(cfg)
    found = judge_errors(data, cfg.model, model.mean)
    assert found.ratings == len(data.test) // 2
    assert 0.3 < found.judge < 2 and 0.3 < found.model < 2


def test_a_judge_who_is_worse_is_said_to_be_so():
    assert "no better" in JudgeErrors(1.0, 0.9, 10).text()
    assert "no better" not in JudgeErrors(0.9, 1.0, 10).text()


def test_two_logs_are_joined_row_by_row(tmp_path, config):
    data, *_ = prepare(own_ratings(tmp_path, config))
    both = joined(data.train, data.test)
    assert both.values.tolist() == [*data.train.values.tolist(), *data.test.values.tolist()]
