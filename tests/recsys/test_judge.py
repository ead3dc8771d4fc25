"""Hidden ratings as judges, by hand."""

import numpy as np
import pytest

from twofold.recsys.data import Dataset, Ratings
from twofold.recsys.judge import difference, errors, hidden_items, judge, of_policy, of_scores
from twofold.recsys.peers import ease_weights, item_knn, popularity_by_count, sasrec, sequences
from twofold.recsys.recommend import load_recommender
from twofold.recsys.standings import aligned, said
from twofold.recsys.truth import Matrix


def log(rows, users=3, items=5, times=None):
    user, item, value = np.array(rows).T
    names = tuple(map(str, range(users))), tuple(map(str, range(items)))
    return Ratings(user.astype(np.int32), item.astype(np.int32), value.astype(np.float32), times, *names)


TRAIN = log([(0, 0, 5), (0, 1, 3), (1, 0, 4), (2, 2, 1)])
DATA = Dataset("d", TRAIN, 1.0, 5.0, test=log([(0, 2, 4), (1, 1, 5), (1, 3, 2)]))


def test_recall_and_ndcg_of_a_known_list():
    found = judge(lambda users, k: np.array([[2, 3], [1, 4]])[:, :k], DATA, k=2)
    assert found["recall@2"].values.tolist() == [1.0, 0.5]
    first, second = 1.0, 1 / np.log2(3)
    assert found["ndcg@2"].values.tolist() == pytest.approx([1.0, first / (first + second)])
    assert found["coverage"].mean == 4 / 5


def test_rated_items_are_left_out_of_lists():
    lists = of_scores(popularity_by_count(TRAIN), TRAIN)(np.array([0, 1]), 5)
    assert lists.tolist() == [[2, 3, 4, -1, -1], [1, 2, 3, 4, -1]]


def test_only_liked_items_may_count():
    users, targets = hidden_items(DATA, liked=4)
    assert users.tolist() == [0, 1] and [own.tolist() for own in targets] == [[2], [1]]


def test_errors_of_expected_ratings():
    table = np.full((3, 5), 3.0, np.float32)
    found = errors(Matrix(table), DATA)
    assert found["rmse"].mean == pytest.approx(np.sqrt((1 + 4 + 1) / 3))


def test_the_last_rating_of_each_user_is_hidden():
    times = np.array([3.0, 1.0, 2.0, 9.0])
    train, test = log([(0, 0, 5), (0, 1, 3), (0, 2, 4), (2, 2, 1)], times=times).without_last()
    assert test.items.tolist() == [0] and train.items.tolist() == [1, 2, 2]


def test_a_split_by_time_hides_what_came_later():
    times = np.array([1.0, 2.0, 3.0, 4.0])
    train, test = log([(0, 0, 5), (0, 1, 3), (1, 0, 4), (2, 2, 1)], times=times).before(0.25)
    assert train.items.tolist() == [0, 1, 0] and test.users.tolist() == [2]


def test_ease_solves_its_equations():
    """B minimises |X - X B|^2 + ridge |B|^2 with a zero diagonal: the gradient is zero off the diagonal."""
    x = np.zeros((3, 5))
    x[TRAIN.users, TRAIN.items] = 1
    weights = ease_weights(TRAIN, ridge=0.5).astype(np.float64)
    gradient = x.T @ (x @ weights - x) + 0.5 * weights
    assert np.abs(gradient[~np.eye(5, dtype=bool)]).max() < 1e-6 and (np.diag(weights) == 0).all()


def test_neighbours_are_those_rated_by_the_same_users():
    scores = item_knn(TRAIN)(np.array([1]))
    assert scores[0].tolist() == pytest.approx([0, 1 / np.sqrt(2), 0, 0, 0])


def test_sasrec_learns_what_follows_what():
    rows = [(user, (user + step) % 5, 3) for user in range(10) for step in range(4)]
    made = log(rows, users=10, times=np.tile(np.arange(4.0), 10))
    scores = sasrec(made, steps=60, window=4, width=16)(np.arange(10))
    assert (scores.argmax(axis=1) == (np.arange(10) + 4) % 5).mean() > 0.8


def test_sequences_are_in_the_order_of_time():
    items, starts = sequences(log([(1, 0, 1), (0, 3, 1), (0, 1, 1)], times=np.array([0.0, 5.0, 2.0])))
    assert items.tolist() == [1, 3, 0] and starts.tolist() == [0, 2, 3, 3]


def test_a_policy_is_judged_without_what_is_hidden_and_with_what_is_not(run):
    policy = load_recommender(run)
    rated = [(0, int(item), 3) for item in policy.labels.rated(0)]
    lists = of_policy(policy, log(rated[:-1], users=20, items=24))(np.array([0]), 24)
    assert set(lists[0].tolist()) - {-1} == set(range(24)) - {item for _, item, _ in rated[:-1]}


def test_a_difference_is_said_with_its_interval():
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 4.0, 5.0, 7.0])
    assert difference(one, other) == pytest.approx((-2.25, 3.182 * 0.5 / 2))
    assert (
        said("mine", "EASE", one, other, 1) == "mine 2.5 is below the best other, EASE 4.8, by 2.2 [1.5, 3.0]"
    )
    assert "is level with" in said("mine", "EASE", one, one + np.array([1, -1, 1, -1]), 1)


def test_tables_line_up_and_begin_with_the_best():
    rows = {"a": {"return": {"mean": 1.0, "half": 0.0}}, "mine": {"return": {"mean": 22.5, "half": 1.5}}}
    lines = aligned(rows, ("return", "length"), ("mine",)).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[2].startswith("| > mine | 22.50 ± 1.50 |")
