"""Names and what users rated, as arrays of a policy file."""

import numpy as np

from twofold.recsys.data import Dataset, Features, Ratings
from twofold.recsys.labels import Labels
from twofold.store.checkpoint import pack, unpack


def log(pairs):
    users, items = np.array(pairs, np.int32).T
    return Ratings(
        users, items, np.full(len(pairs), 3.0, np.float32), None, ("ä", "b"), ("x", 'naïve, "é"', "")
    )


DATA = Dataset(
    "d", log([(1, 2), (0, 1)]), 1.0, 5.0, test=log([(1, 0), (1, 2)]), item_titles=("X", "N", "E"),
    item_features=Features(np.eye(3, dtype=np.float32), ("f", "g", "h")),
)  # fmt: skip


def test_labels_come_back_from_arrays_as_they_were():
    arrays, rest = pack(Labels.of(DATA).state_dict())
    found = Labels.from_state(unpack(rest, arrays))
    assert (found.users, found.items, found.titles) == (("ä", "b"), ("x", 'naïve, "é"', ""), ("X", "N", "E"))
    assert (found.low, found.high, found.digest) == (1.0, 5.0, Labels.of(DATA).digest)
    np.testing.assert_array_equal(found.features, np.eye(3))


def test_rated_items_are_those_of_both_logs_each_once():
    labels = Labels.of(DATA)
    assert [labels.rated(user).tolist() for user in (0, 1, -1, 7)] == [[1], [0, 2], [], []]


def test_no_labels_come_back_as_none():
    arrays, rest = pack(Labels().state_dict())
    found = Labels.from_state(unpack(rest, arrays))
    assert found.users == () and found.title(3) == "3"


def test_the_digest_changes_with_a_name_and_with_a_rating():
    renamed = log([(1, 2), (0, 1)])
    other = Ratings(renamed.users, renamed.items, renamed.values, None, ("a", "b"), renamed.item_names)
    digests = {Labels.of(data).digest for data in (DATA, Dataset("d", other, 1.0, 5.0, test=DATA.test))}
    assert len(digests) == 2
