"""Only regular files are opened; whatever else lies there is one line, at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from twofold.base import regular
from twofold.base.errors import CheckpointError
from twofold.store import files
from twofold.store.whole import whole

Make = Callable[[Path], object]
ODD: dict[str, tuple[Make, str]] = {
    "a pipe": (os.mkfifo, "a pipe"),
    "a directory": (Path.mkdir, "a directory|Is a directory"),
    "a link": (lambda path: path.symlink_to("elsewhere"), "symbolic link: refused"),
    "nothing": (lambda path: None, "No such file"),
}


@pytest.mark.parametrize("make, words", ODD.values(), ids=ODD.keys())
def test_what_is_no_regular_file_is_refused_without_waiting(make: Make, words: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    make(tmp_path / "file")
    with pytest.raises(CheckpointError, match=words):
        regular.read_regular(tmp_path / "file")
    with pytest.raises(CheckpointError, match=words):
        regular.open_to_write(tmp_path / "file", os.O_WRONLY)


def test_a_device_has_no_end_and_is_refused() -> None:
    with pytest.raises(CheckpointError, match="a device, not a regular file"):
        regular.read_regular("/dev/zero", follow=True)


def test_a_file_that_the_user_named_may_be_a_link_but_only_to_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "trap").symlink_to("/dev/zero")
    assert regular.read_regular(tmp_path / "link", follow=True) == b"x"
    with pytest.raises(CheckpointError, match="a device"):
        regular.read_regular(tmp_path / "trap", follow=True)


def test_a_second_name_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "treasure").write_text("untouched")
    os.link(tmp_path / "treasure", tmp_path / "log")
    with pytest.raises(CheckpointError, match="hard link"):
        regular.open_to_write(tmp_path / "log", os.O_WRONLY)
    assert (tmp_path / "treasure").read_text() == "untouched"


def test_a_file_above_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "giant").touch()
    os.truncate(tmp_path / "giant", 10 << 30)
    with pytest.raises(CheckpointError, match="10,737,418,240 bytes, more than 1,000"):
        regular.read_regular(tmp_path / "giant", 1_000)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/below"])
def test_names_that_no_file_can_have_are_one_line_or_absent(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    try:
        assert not regular.is_there(tmp_path / name)
    except CheckpointError as error:
        assert "\0" not in str(error) and "\n" not in str(error)


def test_lines_are_read_one_by_one_and_a_half_written_one_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\n\ntwo\nthr")
    assert list(regular.lines_of(tmp_path / "log", 100)) == [b"one", b"two"]


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular, "MAX_LINE_BYTES", 10)
    (tmp_path / "log").write_bytes(b"short\n" + b"x" * 50)
    with pytest.raises(CheckpointError, match="a line of more than 10 bytes"):
        list(regular.lines_of(tmp_path / "log", 1_000))


def test_a_folder_of_very_many_files_is_not_walked_through(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).touch()
    assert regular.files_below(tmp_path, most=4) == [tmp_path / name for name in "abcd"]
    with pytest.raises(CheckpointError, match="more than 3"):
        regular.files_below(tmp_path, most=3)


def test_links_are_not_walked_into(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to(tmp_path)
    assert regular.files_below(tmp_path) == []


def test_text_that_is_not_utf8_is_said_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"abc\xff")
    with pytest.raises(CheckpointError, match=r"not UTF-8 text \(byte 3\)"):
        regular.read_text(tmp_path / "text")
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfabc")
    assert regular.read_text(tmp_path / "text") == "abc"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_file_that_opens_and_cannot_be_read_is_named() -> None:
    with pytest.raises(CheckpointError, match="cannot read /proc/self/mem: Input/output error"):
        regular.open_regular("/proc/self/mem")


@pytest.mark.parametrize("write", [files.replace_bytes, lambda path, content: _by_whole(path, content)])
def test_a_pipe_or_device_is_never_replaced_by_a_file(
    write: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="is a pipe, not a regular file: refused"):
        write(tmp_path / "pipe", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"] and (tmp_path / "pipe").is_fifo()


def _by_whole(path: Path, content: bytes) -> None:
    with whole(path) as place:
        place.write_bytes(content)


def test_a_file_that_claims_to_be_empty_is_read_up_to_the_limit() -> None:
    with pytest.raises(CheckpointError, match="more than 100 bytes"):
        regular.read_regular("/proc/cpuinfo", 100)
