"""Files as people have them."""

import gzip

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra `recsys` is not installed")

from twofold.base.errors import UserError
from twofold.recsys.loaders import ratings
from twofold.recsys.reading import ColumnsConfig, encoding_of, read_ratings

BODY = "1,10,4.5,100\n2,20,3,200\n1,20,1,300\n"


def written(tmp_path, text, name="ratings.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    "header",
    ["userId,movieId,rating,timestamp", "User ID,Item-Id,Stars,Date", "uid:token,iid:token,value:float,ts"],
)
def test_headers_are_understood_in_any_spelling(tmp_path, header):
    log, report, _ = read_ratings(written(tmp_path, f"{header}\n{BODY}"))
    assert (log.user_names, log.item_names) == (("1", "2"), ("10", "20"))
    assert log.values.tolist() == [4.5, 3.0, 1.0] and log.times.tolist() == [100, 200, 300]
    assert report.total == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_marks_and_encodings_of_spreadsheets_are_read(tmp_path, encoding):
    text = "user;item;rating\r\nJosé;Café;4\r\nJosé;Zoë;2\r\n"
    log, report, _ = read_ratings(written(tmp_path, text, encoding=encoding))
    assert (log.user_names, log.item_names) == (("José",), ("Café", "Zoë")) and report.rows == 2


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "ratings.csv.gz"
    path.write_bytes(gzip.compress(f"userId,movieId,rating,timestamp\n{BODY}".encode()))
    data = ratings(path)
    assert len(data.train) == 3 and data.name == "ratings" and data.high == 4.5


def test_columns_can_be_named(tmp_path):
    path = written(tmp_path, "wer,was,wie\na,x,3\n")
    with pytest.raises(UserError, match=r"env_args\.columns\.user=NAME"):
        read_ratings(path)
    log, *_ = read_ratings(path, ColumnsConfig(user="wer", item="was", rating="wie"))
    assert log.item_names == ("x",)
    with pytest.raises(UserError, match="no column 'wo'"):
        read_ratings(path, ColumnsConfig(user="wo"))


def test_bad_rows_are_reported_with_their_lines(tmp_path):
    rows = [
        "user,item,rating,time",
        "a,x,3,1",
        ",x,3,1",
        "a,y,lots,1",
        "a",
        "a,x,5,soon",
        "",
        "b,x,2,2020-01-02",
    ]
    text = "\n".join([*rows, "b,y,1,1,9", "b,z,nan,1"])
    log, report, _ = read_ratings(written(tmp_path, text))
    assert report.lines == {
        "too few columns": [5],
        "too many columns": [9],
        "missing id": [3],
        "not a number": [4, 10],
        "duplicate pair": [2],
        "time not understood": [6],
    }
    assert log.values.tolist() == [5.0, 2.0]
    assert np.isnan(log.times[0]) and log.times[1] == 1577923200.0


def test_quotes_commas_and_line_breaks_stay_inside_a_name(tmp_path):
    log, *_ = read_ratings(written(tmp_path, 'user,item,rating\nu,"a, ""b""\nc",3\nu,d,4\n'))
    assert log.item_names == ('a, "b"\nc', "d")


def test_titles_and_genres_lie_beside(tmp_path):
    path = written(tmp_path, f"userId,movieId,rating,timestamp\n{BODY}")
    written(
        tmp_path,
        'movieId,title,genres,year\n10,"Ran, the film",Action|War,1985\n20,Fargo,Crime,1996\n',
        "movies.csv",
    )
    data = ratings(path)
    assert data.item_titles == ("Ran, the film", "Fargo")
    assert data.item_features.names == ("genres:Action", "genres:Crime", "genres:War", "year")
    assert data.item_features.values.tolist() == [[1, 0, 1, 1985], [0, 1, 0, 1996]]


def test_titles_may_stand_in_the_log_itself(tmp_path):
    data = ratings(written(tmp_path, "user,item,rating,title\na,1,3,One\nb,2,4,Two\n"))
    assert data.item_titles == ("One", "Two")


def test_an_empty_file_is_named(tmp_path):
    with pytest.raises(UserError, match="is empty"):
        read_ratings(written(tmp_path, ""))
    with pytest.raises(UserError, match="no row after the first line"):
        read_ratings(written(tmp_path, "user,item,rating\n"))


def test_a_letter_cut_off_by_the_end_of_the_file_is_not_taken_for_utf8(tmp_path):
    path = tmp_path / "r.csv"
    path.write_bytes("user,item,rating\na,Zoë,4\nb,x,3,".encode() + "ë".encode()[:1])
    assert encoding_of(path) == "cp1252"


def test_a_table_of_other_items_is_left_out_and_said(tmp_path, caplog):
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n900,Heat,Crime\n")
    data = ratings(written(tmp_path, f"user,item,rating,time\n{BODY}"))
    assert data.item_features is None and data.item_titles is None
    assert "movies.csv: no id of its first column is in the ratings" in caplog.text
