import numpy as np
import pytest
import torch

from twofold.base.errors import ConfigError
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.seen import Seen
from twofold.recsys.trackers import BODIES, Tracker, dropped


def seen(turn, length=10):
    items = torch.full((1, length), -1, dtype=torch.int32)
    items[0, :turn] = torch.arange(turn) + 5
    ratings = torch.zeros(1, length)
    ratings[0, :turn] = torch.arange(turn) * 1.0
    one = torch.tensor([[turn]], dtype=torch.int32)
    return Seen({"items": items, "ratings": ratings, "turn": one, "block": one * 0, "user": one * 0})


def test_the_newest_items_come_last_and_absent_ones_are_marked():
    items, ratings, there = seen(2).last(4)
    assert items.tolist() == [[-1, -1, 5, 6]]
    assert ratings.tolist() == [[0, 0, 0, 1]]
    assert there.tolist() == [[False, False, True, True]]


def test_only_the_window_is_looked_at():
    assert seen(9).last(3)[0].tolist() == [[11, 12, 13]]


def inputs(window, batch=3, width=4):
    rng = np.random.default_rng(0)
    vectors = torch.from_numpy(rng.normal(size=(batch, window, width)).astype(np.float32))
    ratings = torch.from_numpy(rng.normal(size=(batch, window)).astype(np.float32))
    return vectors, ratings


@pytest.mark.parametrize("handle", ["no", "cat", "cat2", "mul"])
@pytest.mark.parametrize("name", list(BODIES))
def test_trackers_ignore_what_stands_where_no_item_is(name, handle):
    cfg = ItemNetConfig(tracker=name, window_size=5, reward_handle=handle, embedding_dim=8)
    tracker = Tracker(cfg, 4, torch.Generator().manual_seed(0))
    vectors, ratings = inputs(5)
    there = torch.tensor([[False, False, True, True, True]] * 3)
    ratings = ratings * there
    before = tracker(vectors, ratings, there)
    vectors[:, :2] = 99.0
    assert before.shape == (3, tracker.outputs)
    torch.testing.assert_close(tracker(vectors, ratings, there), before)


@pytest.mark.parametrize("name", list(BODIES))
def test_trackers_see_items_and_ratings(name):
    cfg = ItemNetConfig(tracker=name, window_size=5, embedding_dim=8)
    tracker = Tracker(cfg, 4, torch.Generator().manual_seed(0))
    vectors, ratings = inputs(5)
    there = torch.ones(3, 5, dtype=torch.bool)
    vectors.requires_grad_()
    ratings.requires_grad_()
    tracker(vectors, ratings, there).square().sum().backward()
    assert (vectors.grad[:, -1] != 0).any()
    assert (ratings.grad[:, -1] != 0).any()


@pytest.mark.parametrize("name", list(BODIES))
def test_an_empty_history_gives_a_finite_state(name):
    cfg = ItemNetConfig(tracker=name, window_size=4, embedding_dim=8)
    tracker = Tracker(cfg, 4, torch.Generator().manual_seed(0))
    vectors, ratings = inputs(4)
    state = tracker(vectors, ratings * 0, torch.zeros(3, 4, dtype=torch.bool))
    assert torch.isfinite(state).all()


def test_rows_of_a_batch_do_not_touch_each_other():
    cfg = ItemNetConfig(tracker="gru", window_size=4, embedding_dim=8)
    tracker = Tracker(cfg, 4, torch.Generator().manual_seed(0))
    vectors, ratings = inputs(4)
    there = torch.ones(3, 4, dtype=torch.bool)
    whole = tracker(vectors, ratings, there)
    torch.testing.assert_close(tracker(vectors[1:2], ratings[1:2], there[1:2]), whole[1:2])


def test_dropout_leaves_out_the_given_share_and_keeps_the_mean():
    kept = dropped(torch.ones(200, 500), 0.25, np.random.default_rng(0))
    assert kept.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert (kept == 0).float().mean().item() == pytest.approx(0.25, abs=0.005)
    assert kept.mean().item() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("name", ["sasrec", "caser"])
def test_dropout_is_drawn_only_where_a_generator_is_given(name):
    cfg = ItemNetConfig(tracker=name, window_size=5, embedding_dim=8, dropout_rate=0.5)
    tracker = Tracker(cfg, 4, torch.Generator().manual_seed(0))
    given = (*inputs(5), torch.ones(3, 5, dtype=torch.bool))
    assert torch.equal(tracker(*given), tracker(*given))
    one, same, other = (tracker(*given, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, tracker(*given))


@pytest.mark.parametrize("settings", [{"dropout_rate": 1.0}, {"dropout_rate": -0.1}, {"dropout_rate": 0.1}])
def test_a_dropout_that_cannot_be_is_refused(settings):
    with pytest.raises(ConfigError, match="dropout_rate"):
        ItemNetConfig(**({"tracker": "avg" if settings["dropout_rate"] == 0.1 else "sasrec"} | settings))
