"""Users who were never seen: what their histories tell of what they take, and lists after extreme histories."""

import numpy as np
import pytest

from twofold import api
from twofold.recsys.labels import Labels
from twofold.recsys.recommend import load_recommender
from twofold.recsys.strangers import NEWEST, Strangers
from twofold.recsys.taking import Taking

from .conftest import SHORT

SPACE, DISNEY = ([f"{kind}{n:02d}" for n in range(12)] for kind in ("space", "disney"))


def labels(taken: np.ndarray, low: float = 1.0, high: float = 5.0) -> Labels:
    """Of who rated what [users, items]."""
    return Labels(
        low=low,
        high=high,
        rated_ends=np.cumsum(taken.sum(axis=1)),
        rated_items=np.nonzero(taken)[1].astype(np.int32),
    )


def test_likeness_is_the_cosine_of_who_rated_both():
    taken = np.random.default_rng(0).random((30, 9)) < 0.4
    both = taken.T.astype(float) @ taken
    norms = np.sqrt(np.maximum(np.diag(both), 1))
    expected = 0.75 * both[4] / (norms[4] * norms) + both[7] / (norms[7] * norms)
    expected[[4, 7]] = 0
    found = Strangers(labels(taken), 9).scores([4, 7], [4.0, 5.0])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_only_the_newest_of_a_long_history_tell_what_comes_next():
    taken = np.random.default_rng(1).random((30, 20)) < 0.4
    strangers = Strangers(labels(taken), 20)
    long = [0, *range(5, 5 + NEWEST)]
    found, short = (strangers.scores(some, [5.0] * len(some)) for some in (long, long[1:]))
    assert found[0] == 0 and np.array_equal(found[1:], short[1:])


def test_where_all_ratings_are_alike_every_item_of_a_history_counts():
    taken = np.ones((3, 4), bool)
    assert Strangers(labels(taken, 1.0, 1.0), 4).scores([0], [1.0]).tolist() == [0, 1, 1, 1]


def test_lists_of_strangers_have_the_unit_of_the_others_and_silence_means_the_average():
    taken = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]], bool)
    usual = Taking(np.array([[2, 3], [2, 3], [0, 1], [0, 1]]), np.array([[0.6, 0.1]] * 3 + [[0.5, 0.4]]))
    found = Strangers(labels(taken), 4)
    items, scores = found.lists(usual, np.array([0, -1, -1]), {1: ([2], [5.0]), 2: ([2], [1.0])})
    assert items[0].tolist() == [2, 3] and scores[0].tolist() == [0.6, 0.1]
    assert items[1, 0] == 3 and scores[1] == pytest.approx([0.6, 0.0])
    assert items[2].tolist() == [0, 1] and scores[2].tolist() == [0.5, 0.4]  # what is hated tells nothing


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Half of the users rate mostly films of space and like them, the others mostly Disney's."""
    folder = tmp_path_factory.mktemp("films")
    rng = np.random.default_rng(0)
    lines = ["user,item,rating"]
    for user in range(40):
        own, other = (SPACE, DISNEY) if user % 2 else (DISNEY, SPACE)
        rated = [(name, rng.integers(4, 6)) for name in rng.choice(own, 8, replace=False)]
        rated += [(name, rng.integers(1, 3)) for name in rng.choice(other, 2, replace=False)]
        lines += [f"u{user},{name},{rating}" for name, rating in rated]
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")
    settings = {"env_args.path": str(folder / "ratings.csv"), "env_args.reward": "both"}
    settings |= {"env_args.max_turn": 12, "env_args.model.factorised.samples": 10}
    api.train(
        "td3_rec", "ratings", run=str(folder / "run"), **(SHORT | {"trainer.test_episodes": 0} | settings)
    )
    return load_recommender(folder / "run")


@pytest.mark.parametrize("by", ["policy", "taken", "rating"])
@pytest.mark.parametrize("loved, hated", [(DISNEY, SPACE), (SPACE, DISNEY)])
def test_five_films_of_one_kind_hated_and_four_of_the_other_loved_give_a_sensible_list(
    films, by, loved, hated
):
    history = [*((name, 1) for name in hated[:5]), *((name, 5) for name in loved[:4])]
    found = films.recommend(history=history, k=5, by=by)
    assert {entry.name for entry in found} <= set(loved[4:]), by
    assert all(1 <= entry.expected_rating <= 5 for entry in found)
