"""An engine whose library cannot run in a forked child says so there instead of hanging."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

SCRIPT = """
import os, signal, warnings
import pairframe as pf
from pairframe.errors import EngineError
from pairframe.testing import disc

warnings.simplefilter("ignore")  # jax warns of every fork
masks = disc((24, 32), (12, 12), 5), disc((24, 32), (12, 16), 6)
config = pf.TransportConfig(backend="{engine}", penalty="kl", reach_um=8.0)
{before}
child = os.fork()
if child == 0:
    signal.alarm(90)  # ends the child if it hangs
    try:
        print("moved", pf.compare(*masks, config).total_mass_moved, flush=True)
    except EngineError as error:
        print(error, flush=True)
    os._exit(0)
print("ended with", os.waitpid(child, 0)[1])
"""


def run(engine: str, before: str) -> str:
    script = SCRIPT.format(engine=engine, before=before)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "ended with 0" in done.stdout
    return done.stdout


@pytest.mark.parametrize(("engine", "library"), [("torch", "torch"), ("ott", "ott")])
def test_a_forked_child_of_a_process_that_used_the_engine_gets_an_error(engine: str, library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    threads = "import torch; torch.set_num_threads(2); " if engine == "torch" else ""
    printed = run(engine, before=f"{threads}pf.compare(*masks, config)")
    assert (
        f"a process in which the {'OTT' if engine == 'ott' else engine} engine can run, got a forked child" in printed
    )
    assert "get_context('spawn')" in printed


@pytest.mark.parametrize(("engine", "library"), [("torch", "torch"), ("ott", "ott")])
def test_a_forked_child_of_a_process_that_did_not_use_it_works(engine: str, library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    assert "moved" in run(engine, before="")
