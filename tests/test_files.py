"""A file appears complete and in one step, or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pairframe import files, system
from pairframe.errors import OutputError
from pairframe.plain_json import exact, parse, plain


@pytest.mark.parametrize("flush", [True, False])
def test_a_new_file_replaces_the_old_one_at_the_end(tmp_path: Path, flush: bool) -> None:
    path = tmp_path / "table.bin"
    path.write_bytes(b"old")
    with files.new_file(path, flush=flush) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "table.bin"
    path.write_bytes(b"old")

    def fail_halfway() -> None:
        with files.new_file(path) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_has_no_nan_and_no_infinity() -> None:
    values = (float("nan"), float("inf"), float("-inf"), 1.5)
    assert plain({"a": values}) == {"a": [None, "inf", "-inf", 1.5]}
    assert [exact(value) for value in values] == ["NaN", "Infinity", "-Infinity", 1.5]
    assert [float(exact(value)) for value in values[1:]] == list(values[1:])


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "{", "", "9" * 5_000, b"\xff"], ids=range(6))
def test_every_text_that_is_not_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse(text)


@pytest.mark.parametrize("name", ["\0", "a\0b", "\ud800"])
def test_a_name_that_the_system_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(OutputError, match=r"a path that the system allows, got '.*\\"):
        files.checked_path(name, OutputError)
    assert files.checked_path("mäß ke.tif", OutputError) == Path("mäß ke.tif")


@pytest.mark.skipif(not system.IS_UNIX, reason="a test of the Unix side")
def test_a_lock_is_held_until_its_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    one, other = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    system.lock(one)
    with pytest.raises(BlockingIOError):
        system.lock(other)
    os.close(one)
    system.lock(other)
    system.close_and_remove(other, path)
    assert not path.exists()


@pytest.mark.skipif(not system.IS_UNIX, reason="elsewhere pipes are no files")
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a pipe"])
def test_only_a_regular_file_is_opened(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a pipe":
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    with pytest.raises(OSError, match="not a regular file"):
        files.open_regular(path)
    (tmp_path / "regular").write_bytes(b"content")
    with files.open_regular(tmp_path / "regular") as stream:
        assert stream.read() == b"content"
    with pytest.raises(IsADirectoryError):
        files.open_regular(tmp_path)


def test_what_dead_writers_left_is_removed_but_not_what_is_locked(tmp_path: Path) -> None:
    (tmp_path / ".tmp-file").touch()
    (tmp_path / ".tmp-folder").mkdir()
    (tmp_path / ".tmp-folder/x").touch()
    (tmp_path / ".tmp-folder.lock").touch()
    with files.new_folder(tmp_path) as folder, files.new_file(tmp_path / "new") as stream:
        stream.write(b"x")
        files.remove_dead_temporaries(tmp_path, time.time() + 10)
        assert folder.is_dir()
        assert len(list(tmp_path.iterdir())) == 3  # the folder, its lock and the new file
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
