"""A real Dask cluster on loopback: workers, client and scheduler die, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cohort_cases import CONFIG, check_every_pair_once, rows_of_a_full_disk, write_pairs

from pairframe._version import __version__
from pairframe.cohort import run_cohort
from pairframe.cohort.run.dask_executor import DaskExecutor
from pairframe.cohort.run.job import Job
from pairframe.cohort.run.mark import RunMark
from pairframe.cohort.run.work_queue import WorkQueue
from pairframe.errors import CohortError, WorkerError
from pairframe.results import ResultStore

pytest.importorskip("distributed", reason="the extra dask is not installed")
PROGRAM = Path(__file__).with_name("cohort_program.py")
# An interpreter that ignores PYTHONPATH and .pth files: of the packages here it lacks only pairframe.
WITHOUT_PAIRFRAME = (f"import sys; sys.path.append({sysconfig.get_path('purelib')!r}); ", "-I", "-S")
SMALL_FILES = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)); "


class Cluster:
    """A scheduler and workers, each a process (group) of its own; all are ended at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.started: list[subprocess.Popen[str]] = []
        self.scheduler = self.start_scheduler()

    def start_scheduler(self, before: str = "", *options: str) -> subprocess.Popen[str]:
        port = self.address.rpartition(":")[2]
        words = ["--host", "127.0.0.1", "--port", port, "--no-dashboard"]
        self.scheduler = self._start("distributed.cli.dask_scheduler", *words, before=before, options=options)
        return self.scheduler

    def start_worker(self, before: str = "", *options: str) -> subprocess.Popen[str]:
        """A worker with a nanny, which starts it again when it dies; `options` are those of its interpreter."""
        words = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(self.folder), "--host", "127.0.0.1"]
        return self._start("distributed.cli.dask_worker", self.address, *words, before=before, options=options)

    def _start(
        self, module: str, *words: str, before: str = "", options: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        code = f"{before}import sys; sys.argv = {[module, *words]!r}; from {module} import main; main()"
        code = f"if __name__ == '__main__':\n    {code}"
        process = subprocess.Popen(
            [sys.executable, *options, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            text=True, start_new_session=True, cwd=self.folder,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, manifest: Path, out: Path) -> subprocess.Popen[str]:
        """A client: a whole run in a process."""
        process = subprocess.Popen(
            [sys.executable, PROGRAM, manifest, out, self.address],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    @contextmanager
    def client(self, n_workers: int) -> Iterator[Any]:
        """A client of this process, when so many workers are there."""
        import distributed

        with distributed.Client(self.address, timeout="60s", set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(n_workers, timeout=120)
            yield client

    def end(self, process: subprocess.Popen[str]) -> None:
        """Kill a process and all that it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "dask").mkdir()
    cluster = Cluster(tmp_path / "dask")
    yield cluster
    for process in cluster.started:
        cluster.end(process)


def n_groups(out: Path) -> int:
    return len(list((out / "maps.zarr").glob("[!.]*.zarr.zip")))


def wait_for_groups(out: Path, n: int, process: subprocess.Popen[str], limit_s: float = 240) -> None:
    give_up_at = time.monotonic() + limit_s
    while n_groups(out) < n and process.poll() is None:
        assert time.monotonic() < give_up_at, "the run does nothing"
        time.sleep(0.05)


def workers_of(nanny: subprocess.Popen[str]) -> list[int]:
    """The worker processes of a nanny, whichever of its threads started them."""
    found = []
    for task in Path(f"/proc/{nanny.pid}/task").glob("*"):
        with suppress(OSError):  # gone meanwhile
            children = (task / "children").read_text().split()
            found += [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
    return found


def kill_a_worker(nannies: list[subprocess.Popen[str]], rng: np.random.Generator) -> bool:
    workers = [pid for nanny in nannies for pid in workers_of(nanny)]
    if workers:
        os.kill(int(rng.choice(workers)), signal.SIGKILL)
    return bool(workers)


def test_a_cluster_gives_the_same_answers_and_survives_a_dead_worker(cluster: Cluster, tmp_path: Path) -> None:
    folder, out, bad = tmp_path / "masks", tmp_path / "out", [3]
    manifest = write_pairs(folder, 14, bad=bad)
    nannies = [cluster.start_worker() for _ in range(2)]
    process = cluster.run(manifest, out)
    wait_for_groups(out, 2, process)
    assert kill_a_worker(nannies, np.random.default_rng(1))
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 1, said
    assert "13 done" in said
    check_every_pair_once(out, folder, 14, bad, checked=3)


def test_a_run_waits_for_a_chunk_that_the_scheduler_started_again(cluster: Cluster, tmp_path: Path) -> None:
    """It writes maps that no row will name; they have to be there when such maps are removed."""
    cluster.start_worker()
    out = tmp_path / "out"
    out.mkdir()
    # Workers cannot import this module, but they have `exec`.
    count = "from pairframe.cohort.run.dask_executor import _running; _running[{!r}] += {}"
    with RunMark(out) as mark, cluster.client(n_workers=1) as client:
        client.run(exec, count.format(mark.token, 1), {})
        with DaskExecutor(Job(CONFIG, out, mark.token), client) as executor:
            events = executor.events(WorkQueue(), lambda: False)
            for _ in range(10):
                next(events)  # StopIteration if it did not wait
            client.run(exec, count.format(mark.token, -1), {})
            assert len(list(events)) <= 1


def test_ctrl_c_to_a_client_leaves_an_idle_cluster_and_the_same_command_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder, out, n_pairs = tmp_path / "masks", tmp_path / "out", 80
    manifest = write_pairs(folder, n_pairs)
    for _ in range(2):
        cluster.start_worker()
    process = cluster.run(manifest, out)
    wait_for_groups(out, 2, process)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "run the same command again to resume" in said

    with cluster.client(n_workers=2) as client:
        # Nothing of it is left on the cluster: neither a task that runs or waits, nor one that still writes.
        running = client.processing()
        assert len(running) == 2, "a worker went away"
        assert not any(running.values())
        kept = ResultStore(out).pair_ids()
        assert 2 <= len(kept) < n_pairs
        assert n_groups(out) == len(kept), "a pair was cut off in the middle"
        assert not list(out.glob(".tmp-*"))
        assert client.submit(sum, (1, 2), pure=False).result(timeout=60) == 3
        assert n_groups(out) == len(kept), "a pair of the ended run was done"

        process = cluster.run(manifest, out)
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, said
        assert f"{n_pairs - len(kept)} done" in said
        assert f"{len(kept)} skipped (already done)" in said
        assert len(client.processing()) == 2
    check_every_pair_once(out, folder, n_pairs, checked=3)


def test_an_address_without_a_scheduler_is_a_clear_error(tmp_path: Path) -> None:
    import dask

    manifest = write_pairs(tmp_path / "masks", 2)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(WorkerError, match="the address of a Dask scheduler"),
    ):
        run_cohort(manifest, tmp_path / "out", CONFIG, client="tcp://127.0.0.1:9")
    with pytest.raises(WorkerError, match=r"a distributed.Client, or an address"):
        run_cohort(manifest, tmp_path / "out", CONFIG, client=7)
    assert not ResultStore(tmp_path / "out").exists()


@pytest.mark.parametrize("address", ["nonsense://x", "tcp://127.0.0.1:port", "127.0.0.1", "tls://127.0.0.1:9"])
def test_a_malformed_address_is_bad_usage_and_the_process_exits(address: str, tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path / "masks", 2)
    words = [sys.executable, PROGRAM, manifest, tmp_path / "out", address]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=40)
    assert done.returncode == 2, done.stderr
    assert f"pairframe: expected the address of a Dask scheduler, got {address!r}: " in done.stderr
    assert "Exception ignored" not in done.stderr
    with pytest.raises(CohortError, match="the address of a Dask scheduler"):
        run_cohort(manifest, tmp_path / "out", CONFIG, client=address)


def test_a_worker_without_pairframe_is_named_and_survives(cluster: Cluster, tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path / "masks", 2)
    cluster.start_worker(*WITHOUT_PAIRFRAME)
    with cluster.client(n_workers=1) as client:
        (address,) = client.nthreads()
        process = cluster.run(manifest, tmp_path / "out")
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 1, said
        assert f"ModuleNotFoundError on {address}: No module named 'pairframe'" in said
        assert f"pip install 'pairframe[dask]=={__version__}' there" in said
        assert client.submit(sum, (1, 2), pure=False).result(timeout=60) == 3
        assert list(client.nthreads()) == [address], "the worker died"


def test_a_scheduler_without_pairframe_is_a_clear_error(cluster: Cluster, tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path / "masks", 2)
    cluster.end(cluster.scheduler)
    cluster.start_scheduler(*WITHOUT_PAIRFRAME)
    cluster.start_worker()
    process = cluster.run(manifest, tmp_path / "out")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert "ModuleNotFoundError on the scheduler: No module named 'pairframe'" in said


def test_workers_that_die_while_they_load_pairframe_end_the_run(cluster: Cluster, tmp_path: Path) -> None:
    manifest = write_pairs(tmp_path / "masks", 2)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "pairframe.py").write_text("import os; os._exit(3)")  # as a crash in a compiled library
    path, *options = WITHOUT_PAIRFRAME
    cluster.start_worker(f"{path}sys.path.insert(0, {str(broken)!r}); ", *options)
    with cluster.client(n_workers=1):
        process = cluster.run(manifest, tmp_path / "out")
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "expected workers that can load pairframe, got 5 in a row that ended first" in said


@pytest.mark.slow
def test_chaos_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Workers are killed every few pairs, one has a full disk, 1 % of the masks are broken; then the client is killed,
    then the scheduler; at the end everything is there."""
    folder, out, n_pairs, bad = tmp_path / "masks", tmp_path / "out", 600, [*range(11, 600, 50)]  # of 1200 masks
    manifest = write_pairs(folder, n_pairs, bad=bad)
    rng = np.random.default_rng(5)
    nannies = [cluster.start_worker() for _ in range(3)]
    full = cluster.start_worker(SMALL_FILES)
    killed = 0

    def disturb_until(n: int, process: subprocess.Popen[str]) -> None:
        """Kill a worker whenever 5 to 24 more pairs are done, until so many maps are there."""
        nonlocal killed
        give_up_at = time.monotonic() + 200
        while n_groups(out) < n and process.poll() is None and time.monotonic() < give_up_at:
            wait_for_groups(out, n_groups(out) + int(rng.integers(5, 25)), process)
            killed += kill_a_worker(nannies, rng)

    process = cluster.run(manifest, out)
    disturb_until(100, process)
    cluster.end(process)  # the client dies

    process = cluster.run(manifest, out)
    disturb_until(250, process)
    cluster.end(cluster.scheduler)  # the scheduler dies
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 1, said
    assert "run the same command again; finished pairs are kept" in said, said
    assert "Traceback" not in said.partition("pairframe: ")[2]

    for nanny in (*nannies, full):
        cluster.end(nanny)
    cluster.start_scheduler()
    nannies = [cluster.start_worker() for _ in range(2)]
    full = cluster.start_worker(SMALL_FILES)
    with cluster.client(n_workers=3):  # or the full one may come when all is done
        process = cluster.run(manifest, out)
    disturb_until(n_groups(out) + 100, process)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 1, said
    refused = rows_of_a_full_disk(out)  # twice each: the first time another worker may help out
    assert refused, "the disk was not full"

    cluster.end(full)
    process = cluster.run(manifest, out)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 1, said
    assert f"{len(bad)} failed" in said
    assert killed > 3
    assert not rows_of_a_full_disk(out)
    print(f"{killed} workers killed, {len(refused)} pairs refused by the full disk; the last run said: {said}")
    check_every_pair_once(out, folder, n_pairs, bad, checked=n_pairs)
    errors = ResultStore(out).table().set_index("pair_id").error
    assert all(f"b{k:04d}.png" in errors[f"p{k:04d}"] for k in bad)
