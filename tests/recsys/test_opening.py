"""Data files of any kind: read, or refused in one line that names the file, within bounded memory and time."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from twofold.base.errors import UserError
from twofold.recsys import opening
from twofold.recsys.loaders import load
from twofold.recsys.prepare import read_truth, stamp_of
from twofold.recsys.reading import read_ratings
from twofold.recsys.user_model import FILE
from twofold.recsys.user_model import load as load_model
from twofold.store.policy_file import seal

pytest.importorskip("pyarrow")
ROWS = "".join(f"{u},{i},{(u * i) % 5 + 1}\n" for u in range(8) for i in range(6))
GOOD = "user,item,rating\n" + ROWS
READ: dict[str, bytes] = {
    "r.csv": GOOD.encode(),
    "bom.csv": b"\xef\xbb\xbf" + GOOD.encode(),
    "utf16.csv": GOOD.encode("utf-16"),
    "latin.csv": GOOD.encode() + "é,1,3\n".encode("latin-1"),
    "r.csv.gz": gzip.compress(GOOD.encode()),
    "packed_without_saying_so.csv": gzip.compress(GOOD.encode()),
    "says_packed_and_is_not.csv.gz": GOOD.encode(),
    "r.csv.bz2": bz2.compress(GOOD.encode()),
    "tabs.csv": GOOD.replace(",", "\t").encode(),
    "old_mac.csv": GOOD.replace("\n", "\r").encode(),
    "long_id.csv": GOOD.encode() + b"9" * 5_000 + b",1,3\n",
    "long_field.csv": GOOD.encode() + b"x" * 200_000 + b",1,3\n",
    "moments.csv": b"user,item,rating,timestamp\n1,2,3,9999-12-31T23:59:59-23:59\n2,1,4,0001-01-01\n1,3,3,1e300\n",
}
REFUSED: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", "is empty"),
    "binary.csv": (bytes(range(256)) * 40, "empty.csv|zero bytes|no column"),
    "zeros.csv": (bytes(10_000), "zero bytes"),
    "utf16_without_mark.csv": (GOOD.encode("utf-16-be"), "zero bytes"),
    "utf32.csv": (GOOD.encode("utf-32"), "zero bytes"),
    "torn.csv.gz": (gzip.compress(GOOD.encode())[:-20], "torn.csv.gz cannot be read"),
    "zip.csv": (b"PK\x03\x04rest", "zip archive: unpack it"),
    "header_only.csv": (b"user,item,rating", "header_only.csv"),
    "absurd.csv": (b"user,item,rating\n1,1,1e308\n2,2,-1e308\n", "2 x out of range"),
    "empty.parquet": (b"", "empty.parquet cannot be read"),
    "text.parquet": (GOOD.encode(), "text.parquet cannot be read"),
    "noise.parquet": (b"PAR1" + bytes(100) + b"PAR1", "noise.parquet cannot be read"),
}


@pytest.mark.parametrize("name", READ)
def test_ratings_are_read_whatever_they_are_wrapped_in(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(READ[name])
    found, _, _ = read_ratings(tmp_path / name)
    assert len(found) >= 3 and np.isfinite(found.values).all()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_of_ratings_is_refused_by_name(name: str, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=words) as refused:
        read_ratings(tmp_path / name)
    assert name in str(refused.value)


ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "r.items.csv"])
@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
def test_what_is_no_file_does_not_hang(make: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    if name == "r.items.csv":  # lies beside a good one
        (tmp_path / "r.csv").write_text(GOOD)
    make(tmp_path / name)
    with pytest.raises(UserError, match="not a regular file"):
        load("ratings", tmp_path / ("r.csv" if name == "r.items.csv" else name))


def test_a_small_file_that_unpacks_to_very_much_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_FREE", 100_000)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"user,item,rating\n" + b"1,1,1\n" * 3_000_000))
    with pytest.raises(UserError, match=r"bomb.csv.gz unpacks to more than [\d,]+ bytes"):
        read_ratings(tmp_path / "bomb.csv.gz")


def test_a_small_parquet_that_claims_very_many_rows_is_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    zeros = pyarrow.array(np.zeros(2_000_000, np.int8))
    table = pyarrow.table({"user": zeros, "item": zeros, "rating": zeros})
    parquet.write_table(table, tmp_path / "bomb.parquet", compression="zstd")
    size = (tmp_path / "bomb.parquet").stat().st_size
    assert size * 20 < 2_000_000
    with pytest.raises(UserError, match=f"claims 2,000,000 rows in {size:,} bytes"):
        read_ratings(tmp_path / "bomb.parquet")


@pytest.mark.parametrize("kind", ["coat", "yahoo", "movielens", "kuairec", "kuairand"])
def test_folders_of_published_data_that_are_not_are_one_line(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        load(kind, tmp_path)
    for name in (
        "train.ascii",
        "user_features_map.txt",
        "u.data",
        "x.inter",
        "big_matrix.csv",
        "a-train.txt",
    ):
        (tmp_path / name).write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match=str(tmp_path)):
        load(kind, tmp_path)


def test_a_folder_of_very_many_files_is_not_walked_through() -> None:
    with pytest.raises(UserError, match=r"more than|cannot look"):
        stamp_of(Path("/"))


def header(shape: object, dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


ARRAYS = {
    "a million million": (header((10**6, 10**6)), "must hold 8 x 6"),
    "objects": (header((8, 6), "|O"), "must hold 8 x 6"),
    "less than it says": (header((8, 6)), "cannot be read"),
    "nothing": (b"", "cannot be read"),
    "no numbers": (header((8, 6)) + np.full(48, np.nan).tobytes(), "must hold finite"),
}


@pytest.mark.parametrize("content, words", ARRAYS.values(), ids=ARRAYS.keys())
def test_true_ratings_that_are_not_are_refused_before_memory_is_asked_for(
    content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "r.csv").write_text(GOOD)
    (tmp_path / "t.npy").write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_truth(tmp_path / "t.npy", load("ratings", tmp_path / "r.csv"))


ABOUT = {"format": 2, "user_model": "gaussian", "noise": 1.0, "report": {}}
MODELS = {
    "no tables": ({}, ABOUT),
    "a list of tables": ({}, ABOUT | {"tables": []}),
    "a table that is a number": ({}, ABOUT | {"tables": {"mean": 5}}),
    "no noise": (
        {"mean": np.zeros((2, 2), np.float32)},
        ABOUT | {"tables": {"mean": {"dense": True}}, "noise": "x"},
    ),
    "tables of two sizes": (
        {"mean": np.zeros((2, 2), np.float32), "world0": np.zeros((3, 2), np.float32)},
        ABOUT | {"tables": {"mean": {"dense": True}, "world0": {"dense": True}}},
    ),
    "no numbers": (
        {"mean": np.full((2, 2), np.nan, np.float32)},
        ABOUT | {"tables": {"mean": {"dense": True}}},
    ),
}


@pytest.mark.parametrize("arrays, about", MODELS.values(), ids=MODELS.keys())
def test_a_foreign_user_model_is_refused(arrays: dict, about: dict, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(seal(arrays, about))
    with pytest.raises(UserError, match="is damaged"):
        load_model(tmp_path)
