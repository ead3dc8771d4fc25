import numpy as np
import pytest

from twofold.base.errors import UserError
from twofold.recsys.data import Dataset, category_table, dominant_categories, from_matrix, table

ROWS = [
    (2, ["a", "x", "3"]),
    (3, ["", "x", "3"]),
    (4, ["a", "y", "nan"]),
    (5, ["b", "x", "9"]),
    (6, ["a", "x", "4"]),
    (7, ["b"]),
    (8, ["b", "y", "two"]),
    (9, ["b", "y", "5"]),
]


def test_every_unusable_row_is_reported_with_its_line():
    _, report = table(ROWS, "log.csv", bounds=(1, 5))
    assert report.rows == 8
    assert report.lines == {
        "missing id": [3],
        "not a number": [4, 8],
        "out of range": [5],
        "duplicate pair": [2],
        "too few columns": [7],
    }


def test_the_report_says_how_many_which_lines_and_what_was_done():
    _, report = table(ROWS, "log.csv", bounds=(1, 5))
    assert "8 rows, 6 not used as they stand" in report.text()
    assert "2 x not a number (left out): lines 4, 8" in report.text()
    assert "1 x duplicate pair (the last one kept): lines 2" in report.text()


def test_the_last_of_two_ratings_of_a_pair_is_kept():
    ratings, _ = table(ROWS, "log.csv", bounds=(1, 5))
    assert ratings.user_names == ("a", "b")
    assert dict(zip(zip(ratings.users, ratings.items, strict=True), ratings.values, strict=True)) == {
        (0, 0): 4.0,
        (1, 1): 5.0,
    }


def test_a_log_without_a_usable_row_is_an_error():
    with pytest.raises(UserError, match="no usable rating"):
        table([(1, ["", "x", "3"])], "log.csv")


def test_numeric_names_are_ordered_by_size():
    ratings, _ = table([(1, ["10", "1", "3"]), (2, ["9", "1", "3"])], "log.csv")
    assert ratings.user_names == ("9", "10")


def test_a_split_keeps_every_rating_once():
    log = from_matrix(np.arange(1, 21).reshape(4, 5))
    first, second = log.split(0.25, np.random.default_rng(0))
    assert (len(first), len(second)) == (15, 5)
    assert sorted([*first.values, *second.values]) == sorted(log.values)


def test_zeros_of_a_matrix_are_not_ratings():
    log = from_matrix(np.array([[0, 3], [2, 0]]))
    assert list(zip(log.users, log.items, log.values, strict=True)) == [(0, 1, 3.0), (1, 0, 2.0)]


def test_dominant_categories_make_up_the_asked_share_of_liked_ratings():
    matrix = np.array([[5, 5, 5, 0], [5, 5, 0, 4], [5, 0, 0, 1]])
    data = Dataset("tiny", from_matrix(matrix), 1, 5, categories=category_table([[0], [0], [1], [2]]))
    assert set(dominant_categories(data, 0.7, 4.0)) == {0}
    assert set(dominant_categories(data, 0.8, 4.0)) == {0, 1}


def test_names_of_one_size_have_one_order():
    rows = [(line, ["7", name, "3"]) for line, name in enumerate(("007", "7", "07"))]
    assert table(rows, "x")[0].item_names == table(rows[::-1], "x")[0].item_names == ("007", "07", "7")
