import numpy as np
import pytest

from twofold.base.errors import ConfigError, UserError
from twofold.recsys.config import UsersConfig
from twofold.recsys.prepare import model_folder, prepare
from twofold.recsys.quit import CategoryCount, CloseByChance, CloseTable, Never
from twofold.recsys.worlds import make
from twofold.settings.config import load


@pytest.mark.parametrize(
    "env", ["coat", "ratings", "synthetic_users", "movielens", "yahoo", "kuairec", "kuairand"]
)
@pytest.mark.parametrize("alg", ["td3_rec", "td3_rec_reference"])
def test_every_preset_resolves(env, alg):
    assert load(alg, env).config.env == "recsys/users"


def test_settings_go_by_the_names_of_the_reference():
    settings = {
        "actor-lr": 1e-3,
        "update-actor-freq": 3,
        "remap_eps": 0.5,
        "which_tracker": "gru",
        "explore_eps": 0.3,
    }
    found = load("td3_rec_reference", "synthetic_users", **settings).config
    assert (found.learner.actor_lr, found.learner.policy_delay, found.learner.expl_noise.start) == (
        1e-3,
        3,
        0.3,
    )
    assert (found.networks.remap_eps, found.networks.tracker) == (0.5, "gru")


def test_quit_true_may_be_written_as_yaml_reads_it():
    assert load("td3_rec", "synthetic_users", **{"env_args.quit": True}).config.env_args.quit == "true"
    with pytest.raises(ConfigError, match="quit must be one of"):
        UsersConfig(quit=False)


def test_training_with_the_model_never_touches_the_true_rule(config):
    world = make(config(), rows=2, purpose="train")
    assert isinstance(world.feelings.quit_rule, CloseByChance)
    leaking = make(config(quit="true"), rows=2, purpose="train")
    assert isinstance(leaking.feelings.quit_rule, CloseTable)
    assert (
        make(config(), rows=2, purpose="FB").feelings.quit_rule.close.sum()
        == leaking.feelings.quit_rule.close.sum()
    )


def test_an_item_of_a_large_catalogue_has_no_more_close_ones_than_of_a_small_one(config):
    def rule(**settings):
        return make(config(posterior=False, **settings), rows=1, purpose="train").feelings.quit_rule

    wide = rule(close_share=0.5, chance_share=0.25, close_items=100)  # 24 items: 12 close ones are few enough
    capped = rule(close_share=0.5, chance_share=0.25, close_items=3)  # a quarter of both shares
    pairs = np.triu_indices(24, 1)
    assert wide.known.close[0][pairs].mean() == pytest.approx(0.5, abs=0.01) and wide.share == 0.25
    assert capped.known.close[0][pairs].mean() == pytest.approx(0.125, abs=0.01) and capped.share == 0.25 / 4
    with pytest.raises(ConfigError, match="close_items"):
        UsersConfig(close_items=0)


def test_held_out_worlds_are_not_trained_on(config):
    trained = make(config(held_out=0.5), rows=1, purpose="train").feelings.tables
    kept = make(config(held_out=0.5), rows=1, purpose="held_out").feelings.tables
    assert (len(trained), len(kept)) == (2, 2)
    assert not any(np.array_equal(a.values, b.values) for a in trained for b in kept)


def test_one_mean_world_can_be_asked_for(config):
    data, model, _ = prepare(config(posterior=False))
    tables = make(config(posterior=False), rows=1, purpose="train").feelings.tables
    assert len(tables) == 1
    np.testing.assert_array_equal(tables[0].values, model.mean.values)
    assert data.name == "synthetic"


def test_the_category_family_counts_categories(config):
    assert isinstance(
        make(config(quit_family="category", quit="true"), rows=1, purpose="FB").feelings.quit_rule,
        CategoryCount,
    )


def test_a_fitted_model_is_kept_and_found_again(config):
    cfg = config()
    data, *_ = prepare(cfg)
    assert (model_folder(data, cfg.model) / "user_model.safetensors").exists()


def test_a_named_model_that_is_missing_says_how_to_make_it(config, tmp_path):
    with pytest.raises(UserError, match="twofold fit --run"):
        make(config(user_model=str(tmp_path / "none")), rows=1, purpose="FB")


def test_an_unknown_purpose_is_refused(config):
    with pytest.raises(UserError, match="held_out, FB, NX_0, NX_10"):
        make(config(), rows=1, purpose="NX_3")


def test_own_ratings_get_true_users_by_completion(tmp_path, config):
    rng = np.random.default_rng(0)
    lines = [
        f"{user},{item},{rng.integers(1, 6)}" for user in range(12) for item in range(9) if rng.random() < 0.7
    ]
    path = tmp_path / "my.csv"
    path.write_text("user,item,rating\n" + "\n".join(lines))
    cfg = config(data="ratings", path=str(path))
    data, *_ = prepare(cfg)
    assert data.truth.shape == (12, 9)
    assert len(data.train) + len(data.test) == len(lines)
    assert make(cfg, rows=2, purpose="FB").items == 9


def test_categories_with_a_model_that_knows_none_are_refused():
    with pytest.raises(ConfigError, match="quit=true or none"):
        UsersConfig(quit_family="category")


def test_a_share_of_the_pairs_is_too_close_whatever_the_data(config):
    rule = make(config(leave_share=0.1), rows=1, purpose="FB").feelings.quit_rule
    assert rule.close[0][np.triu_indices(24, 1)].mean() == pytest.approx(0.1, abs=0.02)


def test_own_true_ratings_are_taken_by_name(tmp_path, config):
    path = tmp_path / "my.csv"
    path.write_text(
        "user,item,rating\n" + "\n".join(f"{u},{i},{1 + (u + i) % 5}" for u in range(12) for i in range(9))
    )
    truth = tmp_path / "truth.csv"
    truth.write_text(
        "item,user,rating\n" + "\n".join(f"{i},{u},{u / 4 + 1}" for i in range(9) for u in range(11, -1, -1))
    )
    cfg = config(data="ratings", path=str(path), truth=str(truth))
    assert prepare(cfg).data.truth.values[:, 3].tolist() == [u / 4 + 1 for u in range(12)]
    np.save(tmp_path / "truth.npy", np.ones((9, 12)))
    with pytest.raises(UserError, match="12 x 9 finite ratings"):
        prepare(config(data="ratings", path=str(path), truth=str(tmp_path / "truth.npy")))
    truth.write_text("user,item,rating\n1,2,3\n")
    with pytest.raises(UserError, match="lacks 107 of the 12 x 9 pairs"):
        prepare(cfg)


def test_policies_are_chosen_with_close_pairs_that_training_does_not_expect(config):
    rule = make(config(quit="model"), rows=2, purpose="held_out").feelings.quit_rule
    assert rule == CloseByChance(Never(), config().close_share)
    assert make(config(quit="model"), rows=2, purpose="train").feelings.quit_rule != rule
    assert isinstance(make(config(quit="none"), rows=2, purpose="held_out").feelings.quit_rule, Never)
    assert isinstance(make(config(quit="true"), rows=2, purpose="held_out").feelings.quit_rule, CloseTable)


def test_only_who_cannot_leave_is_said_to_stay(config):
    worlds = {
        name: make(config(), rows=2, purpose=name) for name in ("train", "held_out", "FB", "NX_0", "NX_10")
    }
    told = {name: world.reset(seed=[1, 2])[0]["stays"].tolist() for name, world in worlds.items()}
    assert told.pop("NX_10") == [[1], [1]]
    assert all(stays == [[0], [0]] for stays in told.values())
