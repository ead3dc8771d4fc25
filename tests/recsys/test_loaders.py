import csv
import sys

import numpy as np
import pytest

from twofold.base.errors import MissingPackage, UserError
from twofold.recsys.loaders import load


def write(path, text):
    path.write_text(text)
    return path


def test_a_csv_is_read_by_its_header_in_any_order(tmp_path):
    path = write(tmp_path / "my.csv", "rating,timestamp,user,item\n4,10,u1,a\n2,11,u2,b\n")
    data = load("ratings", path)
    assert data.train.user_names == ("u1", "u2")
    assert list(data.train.values) == [4.0, 2.0]
    assert list(data.train.times) == [10.0, 11.0]
    assert (data.low, data.high) == (2.0, 4.0)


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(UserError, match="no column for the rating"):
        load("ratings", write(tmp_path / "my.csv", "user,item,stern\n1,2,3\n"))


def test_a_missing_path_says_which_setting_to_give(tmp_path):
    with pytest.raises(UserError, match=r"env_args\.path"):
        load("coat", tmp_path / "nowhere")


def test_feature_tables_beside_the_file_are_read(tmp_path):
    path = write(tmp_path / "my.csv", "user,item,rating\n1,a,3\n1,b,4\n")
    write(tmp_path / "my.items.csv", "item,red,price\nb,1,2.5\na,0,1\n")
    features = load("ratings", path).item_features
    assert features.names == ("red", "price")
    np.testing.assert_array_equal(features.values, [[0, 1], [1, 2.5]])
    assert features.describe(0) == ["price"]


def test_parquet_is_read_like_a_csv(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"user": ["a", "a", "b"], "item": ["x", "y", "x"], "rating": [5.0, 3.0, 4.0]}
    parquet.write_table(pa.table(columns), tmp_path / "my.parquet")
    rows = "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    text = load("ratings", write(tmp_path / "my.csv", f"user,item,rating\n{rows}\n"))
    binary = load("ratings", tmp_path / "my.parquet")
    for name in ("users", "items", "values"):
        np.testing.assert_array_equal(getattr(binary.train, name), getattr(text.train, name))


def test_parquet_asks_for_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingPackage, match="pyarrow"):
        load("ratings", write(tmp_path / "my.parquet", "PAR1"))


def test_yahoo_test_pairs_share_the_ids_of_the_train_file(tmp_path):
    write(tmp_path / "ydata-train.txt", "1\t5\t5\n2\t6\t1\n")
    write(tmp_path / "ydata-test.txt", "2\t5\t3\n9\t5\t3\n")
    data = load("yahoo", tmp_path)
    assert (list(data.test.users), list(data.test.items)) == ([1], [0])


def test_movielens_100k_has_titles_and_genres(tmp_path):
    write(tmp_path / "u.data", "1\t2\t5\t100\n2\t1\t3\t200\n")
    flags = ["0"] * 19
    lines = []
    for number, title, genre in ((1, "Toy", 3), (2, "Gold", 7)):
        own = flags.copy()
        own[genre] = "1"
        lines.append("|".join([str(number), title, "", "", "", *own]))
    write(tmp_path / "u.item", "\n".join(lines))
    data = load("movielens", tmp_path)
    assert data.item_titles == ("Toy", "Gold")
    assert data.categories.tolist() == [[3], [7]]


def test_movielens_1m_is_split_at_double_colons(tmp_path):
    write(tmp_path / "ratings.dat", "1::7::5::100\n2::8::1::100\n")
    write(tmp_path / "movies.dat", "7::A (1999)::Drama|War\n8::B (2000)::War\n")
    data = load("movielens", tmp_path)
    assert data.item_features.names == ("Drama", "War")
    assert data.categories.tolist() == [[0, 1], [1, -1]]


def test_recbole_atomic_files_are_read(tmp_path):
    write(tmp_path / "ml.inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t2\t4\t5\n")
    write(
        tmp_path / "ml.item", "item_id:token\tmovie_title:token_seq\tclass:token_seq\n2\tGold\tAction War\n"
    )
    data = load("movielens", tmp_path)
    assert data.item_titles == ("Gold",)
    assert data.item_features.names == ("Action", "War")


def test_kuairec_clips_watch_ratios_and_reads_categories(tmp_path):
    header = "user_id,video_id,play_duration,watch_ratio\n"
    write(tmp_path / "big_matrix.csv", header + "1,10,3,0.5\n1,11,3,80\n")
    write(tmp_path / "small_matrix.csv", header + "1,11,3,7\n")
    with (tmp_path / "item_categories.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["video_id", "feat"], ["10", "[1, 2]"], ["11", "[3]"]])
    data = load("kuairec", tmp_path)
    assert list(data.train.values) == [0.5, 5.0]
    assert list(data.test.values) == [5.0]
    assert data.categories.tolist() == [[1, 2], [3, -1]]


def test_kuairand_reads_clicks_and_tags(tmp_path):
    header = "user_id,video_id,date,time_ms,is_click\n"
    write(tmp_path / "log_standard_4_08_to_4_21_pure.csv", header + "1,10,0,5,1\n2,11,0,6,0\n")
    write(tmp_path / "log_random_4_22_to_5_08_pure.csv", header + "1,11,0,7,1\n")
    with (tmp_path / "video_features_basic_pure.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["video_id", "tag"], ["10", "39,12"], ["11", ""]])
    data = load("kuairand", tmp_path)
    assert list(data.train.values) == [1.0, 0.0]
    assert data.categories.tolist() == [[39, 12], [-1, -1]]


def test_coat_has_the_published_sizes(coat_folder):
    data = load("coat", coat_folder)
    assert (data.users, data.items, len(data.train), len(data.test)) == (290, 300, 6960, 4640)
    assert data.truth.values.mean() == pytest.approx(2.2337, abs=1e-4)
    assert data.item_features.describe(0)[0] == "gender:men"
