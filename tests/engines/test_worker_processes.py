"""Workers that end early end quietly: one clear error, no tracebacks of other processes around it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pairframe.engines.grid import compiling
from pairframe.engines.processes import QUIET, worker_pool
from pairframe.errors import WorkerDiedError


def test_more_work_for_a_pool_that_lost_a_worker_is_a_clear_error() -> None:
    def go_on_after_a_death() -> None:
        with worker_pool(1) as pool:
            pool.submit(os._exit, 9).exception()
            pool.submit(os.getpid)

    with pytest.raises(WorkerDiedError, match="jobs=1 needs no processes") as caught:
        go_on_after_a_death()
    assert caught.value.__suppress_context__, "the pool's own words say less"


def test_a_worker_that_finds_no_guard_in_the_script_says_nothing_itself(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import os\nfrom pairframe.engines.processes import worker_pool\n"
        "with worker_pool(1) as pool:\n    pool.submit(os.getpid).result()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "bootstrapping" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("pairframe.errors.WorkerDiedError: expected the worker processes")


def test_a_compilation_says_how_long_and_that_it_is_kept(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_ready", set())
    monkeypatch.setattr(compiling, "_SECONDS_BEFORE_SAYING", 0.0)
    monkeypatch.delenv(QUIET, raising=False)
    whole = compiling.SupportKernel

    def slow(*words: object) -> object:
        time.sleep(0.5)
        return whole(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "SupportKernel", slow)
    compiling.make_ready("float64")
    compiling.make_ready("float64")
    (line,) = capfd.readouterr().err.splitlines()
    for words in ("once on this machine", "float64", "about 15 s", "kept for next time"):
        assert words in line
