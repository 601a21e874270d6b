"""Workers that end early end quietly: one clear error, no tracebacks of other processes around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from pairframe.engines.grid import compiling
from pairframe.errors import WorkerError
from pairframe.parallel.in_order import in_order
from pairframe.parallel.parcel import Parcel
from pairframe.parallel.processes import QUIET, standing_pool, worker_pool


def test_more_work_for_a_pool_that_lost_a_worker_is_a_clear_error() -> None:
    def go_on_after_a_death() -> None:
        with worker_pool(1) as pool:
            pool.submit(os._exit, 9).exception()
            pool.submit(os.getpid)

    with pytest.raises(WorkerError, match=r"died unexpectedly \(exit code 9\).*jobs=1 needs no processes") as caught:
        go_on_after_a_death()
    assert caught.value.__suppress_context__, "the pool's own message says less"


def test_a_killed_worker_is_named_by_its_exit_code_among_those_the_pool_ended() -> None:
    def kill_one_of_two() -> None:
        with worker_pool(2) as pool:
            sleeping = pool.submit(time.sleep, 60)
            pool.submit(os.kill, pool.submit(os.getpid).result(), signal.SIGKILL)
            sleeping.result()

    with pytest.raises(WorkerError, match=r"\(exit code -9; it may have run out of memory\)"):
        kill_one_of_two()


def test_a_dead_worker_is_an_error_of_the_results_that_it_owed() -> None:
    with pytest.raises(WorkerError, match=r"died unexpectedly \(exit code 7\)"):
        list(in_order(_exit, iter(range(4)), 4, 2))


def test_standing_workers_serve_several_calls_and_are_replaced_when_one_dies() -> None:
    def worker() -> int:
        with standing_pool(1) as pool:
            return pool.submit(os.getpid).result()

    first = worker()
    assert worker() == first != os.getpid()

    def lose_it() -> None:
        with standing_pool(1) as pool:
            pool.submit(os._exit, 3).result()

    with pytest.raises(WorkerError, match=r"died unexpectedly \(exit code 3\)"):
        lose_it()
    assert worker() != first


def test_a_standing_worker_that_died_while_idle_is_replaced_without_a_word() -> None:
    with standing_pool(1) as pool:
        first = pool.submit(os.getpid).result()
    os.kill(first, signal.SIGKILL)
    while Path(f"/proc/{first}/status").exists() and "zombie" not in Path(f"/proc/{first}/status").read_text():
        time.sleep(0.01)
    with standing_pool(1) as pool:
        assert pool.submit(os.getpid).result() != first


FORKED = """
import os, signal, threading
from pairframe.parallel.processes import standing_pool

if __name__ == "__main__":
    inside, done = threading.Event(), threading.Event()

    def hold():
        with standing_pool(1) as pool:
            pool.submit(os.getpid).result()
            inside.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        with standing_pool(1) as pool:
            os._exit(0 if pool.submit(os.getpid).result() != os.getpid() else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done.set()
    holder.join()
    raise SystemExit(code)
"""


def test_a_process_forked_while_workers_are_in_use_starts_its_own(tmp_path: Path) -> None:
    script = tmp_path / "forked.py"
    script.write_text(FORKED)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_pool_that_was_shut_down_is_replaced() -> None:
    """As after an interrupt between the end of a pool and the moment when it is forgotten."""
    with standing_pool(1) as pool:
        pool.submit(os.getpid).result()
    pool.shutdown()
    with standing_pool(1) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()


def test_an_interrupt_in_the_terminal_does_not_end_standing_workers() -> None:
    with standing_pool(1) as pool:
        first = pool.submit(os.getpid).result()
    os.kill(first, signal.SIGINT)
    with standing_pool(1) as pool:
        assert pool.submit(time.sleep, 0.1).result() is None
        assert pool.submit(os.getpid).result() == first


def test_an_interrupt_while_results_are_awaited_loses_none_of_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    whole = Parcel.open

    def counted(parcel: Parcel) -> list[object]:
        opened.append(parcel.file)
        return whole(parcel)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with standing_pool(1) as pool:
        pool.submit(os.getpid).result()
    monkeypatch.setattr(Parcel, "open", counted)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            list(in_order(_slowly, iter([1.0]), 1, 2, workers_stay=True))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(opened) == 1
    assert not Path(opened[0]).exists()


def _slowly(tasks: list[float]) -> list[np.ndarray]:
    time.sleep(tasks[0])
    return [np.ones(1000)]


def test_a_child_forked_while_a_pool_is_locked_does_not_wait_for_it(tmp_path: Path) -> None:
    script = tmp_path / "locked.py"
    script.write_text(FORKED_WHILE_LOCKED)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


FORKED_WHILE_LOCKED = """
import gc, os, signal, threading
from pairframe.parallel.processes import standing_pool

if __name__ == "__main__":
    with standing_pool(1) as pool:
        pool.submit(os.getpid).result()
    locked, done = threading.Event(), threading.Event()

    def hold():
        with pool._shutdown_lock:
            locked.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        pool = None
        gc.collect()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done.set()
    holder.join()
    raise SystemExit(code)
"""


CHILD = """
import multiprocessing, os
from pairframe.parallel.processes import standing_pool

def use():
    with standing_pool(1) as pool:
        pool.submit(os.getpid).result()

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=use)
    child.start()
    child.join(60)
    code, _ = child.exitcode, child.kill()
    raise SystemExit(9 if code is None else code)
"""


def test_a_child_process_that_used_standing_workers_ends(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_an_error_in_a_task_leaves_the_standing_workers_as_they_are() -> None:
    def worker() -> int:
        with standing_pool(1) as pool:
            return pool.submit(os.getpid).result()

    first = worker()
    with pytest.raises(ZeroDivisionError):
        list(in_order(_divide, iter([1, 0, 2, 3]), 4, 2, workers_stay=True))
    assert worker() == first


def _divide(tasks: list[int]) -> list[float]:
    return [1 / task for task in tasks]


def _exit(tasks: list[int]) -> list[int]:
    if os.environ.get(QUIET):
        os._exit(7)
    return tasks


def test_a_worker_that_finds_no_guard_in_the_script_says_nothing_itself(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import os\nfrom pairframe.parallel.processes import worker_pool\n"
        "with worker_pool(1) as pool:\n    pool.submit(os.getpid).result()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "bootstrapping" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "pairframe.errors.WorkerError: expected worker processes that run to the end, got one that died unexpectedly"
    )


COMPARE = """
import multiprocessing, threading, time
import numpy as np
import pairframe as pf
from pairframe.pipeline import compare_many

def tell():
    while not multiprocessing.active_children():
        time.sleep(0.05)
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)

if __name__ == "__main__":
    threading.Thread(target=tell, daemon=True).start()
    mask = np.ones((64, 64), bool)
    compare_many([(mask, np.roll(mask, 1))] * 100_000, pf.TransportConfig(), jobs=2)
"""
WAIT = """
import multiprocessing, time
from pairframe.parallel.processes import worker_pool

if __name__ == "__main__":
    with worker_pool(2) as pool:
        futures = [pool.submit(time.sleep, SECONDS) for _ in range(2)]
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize(
    "text",
    [COMPARE, WAIT.replace("SECONDS", "0"), WAIT.replace("SECONDS", "600")],
    ids=["compare_many", "idle", "busy"],
)
def test_workers_end_when_their_parent_is_killed(text: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert workers
        time.sleep(3)  # they are at work
        assert all(is_alive(pid) for pid in workers)
        parent.kill()
        assert parent.wait(60) == -signal.SIGKILL
        try:
            give_up_at = time.monotonic() + 30
            while any(is_alive(pid) for pid in workers):
                assert time.monotonic() < give_up_at, "a worker outlives its parent"
                time.sleep(0.1)
        finally:
            for pid in workers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may stay as a zombie if its new parent does not wait for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_slow_load_from_disk_prints_no_notice(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling.make_ready("float64")  # from here on the passes are on disk
    capfd.readouterr()
    monkeypatch.setattr(compiling, "_ready", set())
    monkeypatch.delenv(QUIET, raising=False)
    whole = compiling.SupportKernel

    def slow(*words: object, **named: object) -> object:
        time.sleep(2.5)
        return whole(*words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "SupportKernel", slow)
    compiling.make_ready("float64")
    assert capfd.readouterr().err == ""
