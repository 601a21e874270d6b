"""Killed, starved of space or without rights: a writer leaves the old result or the new one, never a mixture."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.results_equal import differences, unsolved_result

import pairframe as pf
from pairframe.errors import StoreError
from pairframe.results import ResultStore

OLD, NEW = unsolved_result(5), unsolved_result(8)


class Writers:
    """The other side of `crash_writer.py`."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("crash_writer.py")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, mode: str, out: Path, number: int = 0) -> int:
        assert self.process.stdin
        self.process.stdin.write(f"{mode} {out} {number}\n")
        self.process.stdin.flush()
        return int(self.line())

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def run(self, mode: str, out: Path, number: int = 0) -> str:
        self.start(mode, out, number)
        answer = self.line()
        assert self.line() == "ended"
        return answer

    def kill(self, out: Path, moment: str, delay_s: float) -> None:
        """Start a writer and kill it `delay_s` after it started, began to write maps, or replaced the table."""
        before = table_id(out)
        pid = self.start("save", out)
        reached = {
            "started": lambda: True,
            "writing": lambda: any(out.rglob(".tmp-*")),
            "committed": lambda: table_id(out) != before,
        }[moment]
        give_up_at = time.monotonic() + 120
        while not reached():
            assert time.monotonic() < give_up_at, "the writer does nothing"
            time.sleep(0.0005)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        assert self.line() == "ended"


def table_id(out: Path) -> int:
    table = out / "results.parquet"
    return table.stat().st_ino if table.exists() else 0


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    writers = Writers()
    yield writers
    assert writers.process.stdin
    assert writers.process.stdout
    writers.process.stdin.close()
    writers.process.stdout.close()
    assert writers.process.wait(60) == 0


def whose(out: Path) -> str:
    result = pf.load(out)
    return next(name for name, known in (("old", OLD), ("new", NEW)) if not differences(result, known))


@pytest.mark.parametrize("kills", [8, pytest.param(30, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_a_complete_result_or_none(writers: Writers, tmp_path: Path, kills: int) -> None:
    start = time.monotonic()
    OLD.save(tmp_path / "timed")
    save_s = time.monotonic() - start
    rng = np.random.default_rng(7)
    seen = {"old": 0, "new": 0, "absent": 0}
    interrupted = 0
    for attempt in range(kills):
        out = tmp_path / str(attempt)
        moment, is_fresh = ("started", "writing", "committed", "committed")[attempt % 4], attempt % 3 == 0
        if not is_fresh:
            OLD.save(out)
        writers.kill(out, moment, rng.uniform(0.0, save_s) * (0.1 if moment == "writing" else 1.0))
        try:
            seen[whose(out)] += 1
        except StoreError:
            assert is_fresh, "a result was lost"
            assert moment != "committed", "a committed result was lost"
            seen["absent"] += 1
        groups = list(out.glob("maps.zarr/*.zarr.zip"))
        interrupted += len(groups) != 1 or any(out.rglob(".tmp-*"))
        NEW.save(out, overwrite=True)  # the next writer needs no help, and cleans up
        assert whose(out) == "new"
        assert not list(out.rglob(".tmp-*"))
    print(f"{kills} kills, {interrupted} of them in the middle of writing; found afterwards: {seen}")
    assert interrupted > 0 or kills < 30


@pytest.mark.parametrize("limit", [10, 100, 1000, 4000, 12_000])
def test_a_full_disk_is_an_error_and_the_old_result_stays(writers: Writers, tmp_path: Path, limit: int) -> None:
    OLD.save(tmp_path / "old")
    before = sorted(tmp_path.rglob("*"))
    for out in (tmp_path / "old", tmp_path / "fresh"):
        answer = writers.run("limit", out, limit)
        assert answer.startswith("StoreWriteError: expected a folder to write results to, got")
        assert "File too large" in answer
        assert answer.endswith("To fix: free some space, or choose another folder")
    assert whose(tmp_path / "old") == "old"
    left = [path for path in sorted((tmp_path / "old").rglob("*")) if path not in before]
    assert left == []
    with pytest.raises(StoreError):
        pf.load(tmp_path / "fresh")
    NEW.save(tmp_path / "fresh")
    assert whose(tmp_path / "fresh") == "new"


def test_enough_space_is_enough(writers: Writers, tmp_path: Path) -> None:
    assert writers.run("limit", tmp_path / "out", 200_000) == "saved"
    assert ResultStore(tmp_path / "out").pair_ids() == ["pair"]


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up rights needs the rights of root")
def test_a_folder_that_may_not_be_written_is_an_error(writers: Writers, tmp_path: Path) -> None:
    OLD.save(tmp_path / "old")
    answer = writers.run("nobody", tmp_path / "old")
    assert answer.startswith("StoreWriteError")
    assert "Permission denied" in answer
    assert "change the permissions" in answer
    assert whose(tmp_path / "old") == "old"
