"""Local processes: they die, are interrupted and killed, and nothing is lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from helpers.cohort_cases import (
    CONFIG,
    DeadlyJob,
    check_every_pair_once,
    rows_of,
    rows_of_a_full_disk,
    write_frame,
    write_pairs,
    write_table,
)

import pairframe as pf
from pairframe.cohort import run_cohort
from pairframe.cohort.inputs.sources import read_tasks
from pairframe.cohort.run.chunks import cut_into_chunks
from pairframe.cohort.run.local_executor import LocalExecutor
from pairframe.cohort.run.mark import RunMark
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.errors import WorkerError
from pairframe.results import ResultStore

PROGRAM = Path(__file__).with_name("cohort_program.py")


@contextmanager
def program(manifest: Path, out: Path, *address: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a process group of its own; killed as a whole at the end, if it is still there."""
    process = subprocess.Popen(
        [sys.executable, PROGRAM, manifest, out, *address],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        kill_group(process)
        process.communicate(timeout=60)


def kill_group(process: subprocess.Popen[str]) -> None:
    """The run and its workers, also those that outlived it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def workers_of(pid: int) -> list[int]:
    """Children that do the work: all but Python's own helper."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        lines = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    except OSError:
        return []
    return [child for child, line in lines.items() if b"spawn_main" in line]


def n_groups(out: Path) -> int:
    return len(list((out / "maps.zarr").glob("[!.]*.zarr.zip")))


def wait_until(out: Path, n: int, process: subprocess.Popen[str]) -> None:
    """Until so many maps are written, or the run has ended."""
    give_up_at = time.monotonic() + 240
    while n_groups(out) < n and process.poll() is None:
        assert time.monotonic() < give_up_at, "the run does nothing"
        time.sleep(0.02)


def kill_workers(process: subprocess.Popen[str], out: Path, most: int, after_pairs: int) -> int:
    """Kill a worker whenever so many more pairs are done, until the run ends. Returns the number of workers killed."""
    rng = np.random.default_rng(3)
    killed = 0
    wait_until(out, after_pairs, process)
    while process.poll() is None:
        # One that is at work: in the middle of a new interpreter there is nothing to lose.
        workers = workers_of(process.pid)
        if workers and killed < most:
            os.kill(int(rng.choice(workers)), signal.SIGKILL)
            killed += 1
            wait_until(out, n_groups(out) + int(rng.integers(1, 2 * after_pairs + 1)), process)
        else:
            time.sleep(0.02)
    return killed


def wait_for_rows(out: Path, n: int, process: subprocess.Popen[str]) -> None:
    """Until the table has so many rows, or the run has ended."""
    give_up_at = time.monotonic() + 240
    while process.poll() is None and not (ResultStore(out).exists() and len(ResultStore(out).pair_ids()) >= n):
        assert time.monotonic() < give_up_at, "the run keeps nothing"
        time.sleep(0.02)


def wait_for_the_end_of(pids: list[int]) -> None:
    give_up_at = time.monotonic() + 60
    while any(b"spawn_main" in command_of(pid) for pid in pids):
        assert time.monotonic() < give_up_at, "workers go on without their run"
        time.sleep(0.02)


def command_of(pid: int) -> bytes:
    """Nothing when it is gone, or dead and not yet buried."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_pair_that_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    write_pairs(tmp_path, 3)
    rows: list[dict[str, object]] = [
        {"pair_id": name, "source": "a0000.png", "target": "b0000.png"} for name in ("deadly 1", "x", "deadly 2", "y")
    ]
    tasks = read_tasks(write_table(tmp_path / "m.csv", rows))
    with RunMark(tmp_path) as mark:
        queue = WorkQueue([tuple(tasks[:2]), tuple(tasks[2:])])
        job = DeadlyJob(CONFIG, tmp_path, mark.token)
        found = {row["pair_id"]: row for row in rows_of(LocalExecutor(job, 2), queue)}
    assert {name: row["status"] for name, row in found.items()} == {
        "deadly 1": "failed", "x": "converged", "deadly 2": "failed", "y": "converged"
    }  # fmt: skip
    row = found["deadly 1"]
    assert row["error"] == "WorkerError: the worker process ended during this pair: it was killed by signal 9"
    assert row["work_key"] is None, "the next run tries it again"
    assert row["source"] == "a0000.png"


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_run_with_advice(tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path / "masks", 2)
    script = tmp_path / "unguarded.py"
    script.write_text(
        f"from pairframe.cohort import run_cohort\nrun_cohort({str(manifest)!r}, {str(tmp_path / 'out')!r}, jobs=1)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1
    assert "WorkerError: expected worker processes that start, got 3 in a row" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr


@pytest.mark.parametrize("n_pairs", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_killed_workers_lose_nothing(tmp_path: Path, n_pairs: int) -> None:
    folder, out, bad = tmp_path / "masks", tmp_path / "out", [5]
    manifest = write_pairs(folder, n_pairs, bad=bad)
    with program(manifest, out) as process:
        killed = kill_workers(process, out, most=n_pairs // 4, after_pairs=3)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1, said  # one mask is broken
    assert killed > 0
    run_again_and_check(manifest, out, folder, n_pairs, bad)


@pytest.mark.slow
def test_killed_workers_change_no_answer_of_a_series(tmp_path: Path) -> None:
    """Pairs that share masks share self-problems and start from each other; a new worker begins somewhere in between."""
    folder, out = tmp_path / "masks", tmp_path / "out"
    for s in range(4):
        for t in range(41):
            write_frame(folder / f"s{s}" / f"t{t:02d}.png", 5 + 0.37 * s + 0.05 * t, 0.3 * t)
    with program(folder, out) as process:
        killed = kill_workers(process, out, most=20, after_pairs=4)
    assert killed > 3
    run_cohort(folder, out, CONFIG, jobs=2)  # pairs that were killed twice
    store, tasks = ResultStore(out), read_tasks(folder)
    assert store.pair_ids() == [task.pair_id for task in tasks]
    assert (store.table().status == "converged").all()
    for task in tasks:
        found, expected = store.load(task.pair_id), pf.compare(task.source.spec, task.target.spec, CONFIG)
        np.testing.assert_allclose(found.mass_created, expected.mass_created, rtol=0, atol=1e-5)
        np.testing.assert_allclose(found.velocity_field, expected.velocity_field, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_local_chaos_loses_nothing(tmp_path: Path) -> None:
    """Workers are killed every few pairs, then the run itself, then one worker has a full disk, 1 % of the masks are
    broken; at the end everything is there."""
    folder, out, n_pairs, bad = tmp_path / "masks", tmp_path / "out", 600, [*range(7, 600, 50)]  # of 1200 masks
    manifest = write_pairs(folder, n_pairs, bad=bad)
    rng = np.random.default_rng(9)
    killed = 0

    def kill_a_worker(process: subprocess.Popen[str], spared: int = 0) -> None:
        """And wait for 5 to 24 more pairs: counted in pairs, the storm is as dense on a fast machine as on a slow one."""
        nonlocal killed
        workers = [worker for worker in workers_of(process.pid) if worker != spared]
        if workers:
            os.kill(int(rng.choice(workers)), signal.SIGKILL)
            killed += 1
            wait_until(out, n_groups(out) + int(rng.integers(5, 25)), process)
        else:
            time.sleep(0.02)

    with program(manifest, out) as process:
        wait_until(out, 5, process)
        while n_groups(out) < 200 and process.poll() is None:
            kill_a_worker(process)
        workers = workers_of(process.pid)
        process.kill()  # the run alone: its workers find out by themselves
        assert process.wait(60) == -signal.SIGKILL, "it had ended before"
        wait_for_the_end_of(workers)

    with program(manifest, out) as process:
        wait_until(out, n_groups(out) + 20, process)
        full = workers_of(process.pid)[0]
        # The kernel then says "File too large" of all maps; of this one process, as if it had a disk of its own.
        resource.prlimit(full, resource.RLIMIT_FSIZE, (1000, 1000))
        while process.poll() is None:
            kill_a_worker(process, spared=full)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1, said
    refused = rows_of_a_full_disk(out)
    assert refused, "the disk was not full"
    table = ResultStore(out).table()
    assert sorted(table.pair_id) == [f"p{k:04d}" for k in range(n_pairs)]
    broken = [f"p{k:04d}" for k in bad]
    left = int((table.work_key.isna() & ~table.pair_id.isin(broken)).sum())  # refused, or its worker was killed twice

    with program(manifest, out) as process:
        said, _ = process.communicate(timeout=400)
    assert process.returncode == 1, said
    assert f"{left} done" in said
    assert f"{n_pairs - len(bad) - left} skipped (already done), {len(bad)} failed" in said
    assert killed > 3
    assert not rows_of_a_full_disk(out)
    print(f"{killed} workers killed, {len(refused)} pairs refused by the full disk; the last run said: {said}")
    check_every_pair_once(out, folder, n_pairs, bad, checked=n_pairs)
    errors = ResultStore(out).table().set_index("pair_id").error
    assert all(f"b{k:04d}.png" in errors[f"p{k:04d}"] for k in bad)


def run_again_and_check(manifest: Path, out: Path, folder: Path, n_pairs: int, bad: list[int]) -> None:
    run_cohort(manifest, out, CONFIG, jobs=2)  # pairs that were killed twice
    check_every_pair_once(out, folder, n_pairs, bad)


@pytest.mark.slow
def test_a_run_that_is_killed_as_a_whole_goes_on_where_it_was(tmp_path: Path) -> None:
    folder, out, bad = tmp_path / "masks", tmp_path / "out", [7]
    manifest = write_pairs(folder, 60, bad=bad)
    for stop_at in (1, 12, 25, 40):
        with program(manifest, out) as process:
            wait_for_rows(out, stop_at, process)
    rows_before = len(ResultStore(out).pair_ids()) if ResultStore(out).exists() else 0
    with program(manifest, out) as process:
        said, _ = process.communicate(timeout=400)
    assert process.returncode == 1, said
    assert rows_before > 0, "nothing was kept before the last run"
    assert f"{rows_before} skipped" in said or f"{rows_before - 1} skipped" in said  # one of them may be the bad one
    check_every_pair_once(out, folder, 60, bad)


def test_ctrl_c_finishes_the_running_pairs_and_the_same_command_goes_on(tmp_path: Path) -> None:
    folder, out, n_pairs = tmp_path / "masks", tmp_path / "out", 80  # enough that Ctrl-C comes before the end
    manifest = write_pairs(folder, n_pairs)
    with program(manifest, out) as process:
        wait_until(out, 2, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "run the same command again to resume" in said
    kept = ResultStore(out).pair_ids()
    assert 2 <= len(kept) < n_pairs
    assert n_groups(out) == len(kept), "a pair was cut off in the middle"
    assert not list(out.glob(".tmp-*"))
    summary = run_cohort(manifest, out, CONFIG, jobs=2)
    assert (summary.done, summary.skipped, summary.failed) == (n_pairs - len(kept), len(kept), 0)
    check_every_pair_once(out, folder, n_pairs, checked=3)


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2, 0.4])
def test_ctrl_c_while_workers_start_is_quiet(tmp_path: Path, after_s: float) -> None:
    manifest = write_pairs(tmp_path / "masks", 30)
    with program(manifest, tmp_path / "out") as process:
        while not workers_of(process.pid) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(after_s)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said, said


def test_workers_that_all_fail_to_start_end_the_run(tmp_path: Path) -> None:
    tasks = read_tasks(write_pairs(tmp_path, 2))
    chunks = cut_into_chunks(tasks, 1, CONFIG)
    assert isinstance(chunks, list)
    queue = WorkQueue(chunks)

    class Unsendable:
        """Cannot be taken apart on the other side."""

        def __reduce__(self) -> tuple[object, ...]:
            return os._exit, (3,)

    with pytest.raises(WorkerError, match=r"3 in a row that ended first \(exit code 3\)"):
        rows_of(LocalExecutor(Unsendable(), 1), queue)  # type: ignore[arg-type]
    left = [chunk for chunk in (queue.take(), queue.take(), queue.take()) if chunk is not None]
    assert [task for chunk in left for task in chunk] == list(tasks)
