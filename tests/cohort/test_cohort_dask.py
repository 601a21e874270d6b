"""A real Dask cluster on loopback: workers, client and scheduler die, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cohort_cases import CONFIG, check_every_pair_once, rows_of_a_full_disk, write_pairs

from pairframe.cohort import run_cohort
from pairframe.errors import ClusterError
from pairframe.results import ResultStore

pytest.importorskip("distributed", reason="the extra dask is not installed")
PROGRAM = Path(__file__).with_name("cohort_program.py")
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

    def start_scheduler(self) -> subprocess.Popen[str]:
        port = self.address.rpartition(":")[2]
        self.scheduler = self._start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"
        )
        return self.scheduler

    def start_worker(self, before: str = "") -> subprocess.Popen[str]:
        """A worker with a nanny, which starts it again when it dies."""
        words = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(self.folder), "--host", "127.0.0.1"]
        return self._start("distributed.cli.dask_worker", self.address, *words, before=before)

    def _start(self, module: str, *words: str, before: str = "") -> subprocess.Popen[str]:
        code = f"{before}import sys; sys.argv = {[module, *words]!r}; from {module} import main; main()"
        code = f"if __name__ == '__main__':\n    {code}"
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
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
    return len([path for path in (out / "maps.zarr").glob("*-*") if path.is_dir()])


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
    assert "the same command goes on from what is kept" in said

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
        assert f"{len(kept)} were there" in said
        assert len(client.processing()) == 2
    check_every_pair_once(out, folder, n_pairs, checked=3)


def test_an_address_where_nobody_is_is_an_error_that_says_so(tmp_path: Path) -> None:
    import dask

    manifest = write_pairs(tmp_path / "masks", 2)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ClusterError, match="the address of a Dask scheduler"),
    ):
        run_cohort(manifest, tmp_path / "out", CONFIG, client="tcp://127.0.0.1:9", report=False)
    with pytest.raises(ClusterError, match=r"a distributed.Client, or an address"):
        run_cohort(manifest, tmp_path / "out", CONFIG, client=7, report=False)
    assert not ResultStore(tmp_path / "out").exists()


@pytest.mark.slow
def test_chaos_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Workers are killed every few seconds, one has a full disk, 1 % of the masks are broken; then the client is killed,
    then the scheduler; at the end everything is there."""
    folder, out, n_pairs, bad = tmp_path / "masks", tmp_path / "out", 600, [*range(11, 600, 50)]  # of 1200 masks
    manifest = write_pairs(folder, n_pairs, bad=bad)
    rng = np.random.default_rng(5)
    nannies = [cluster.start_worker() for _ in range(3)]
    full = cluster.start_worker(SMALL_FILES)
    killed = 0

    def disturb_until(n: int, process: subprocess.Popen[str]) -> None:
        """Kill a worker every few seconds, when something was done since the last time, until so many maps are there."""
        nonlocal killed
        give_up_at = time.monotonic() + 200
        while n_groups(out) < n and process.poll() is None and time.monotonic() < give_up_at:
            wait_for_groups(out, n_groups(out) + 5, process)
            killed += kill_a_worker(nannies, rng)
            go_on_at = time.monotonic() + 2 + 2 * rng.random()
            while time.monotonic() < go_on_at and n_groups(out) < n and process.poll() is None:
                time.sleep(0.05)

    process = cluster.run(manifest, out)
    disturb_until(100, process)
    cluster.end(process)  # the client dies

    process = cluster.run(manifest, out)
    disturb_until(250, process)
    cluster.end(cluster.scheduler)  # the scheduler dies
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 1, said
    assert "run the same command again: what was done is kept" in said, said
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
