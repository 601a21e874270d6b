"""The longer benchmark scripts, each in a process with a time limit; their JSON is read back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from suite.contestants import Deadline


def run_script(folder: Path, name: str, deadline: Deadline, *, quick: bool) -> dict[str, Any]:
    """Run ``folder/NAME.py [--quick]``.

    Returns
    -------
    dict
        ``ended``: "done", "cut off", "failed" or "not there"; ``json``: the content of ``folder/out/NAME.json`` when this
        run wrote it; ``printed``: its last lines.
    """
    script, written = folder / f"{name}.py", folder / "out" / f"{name}.json"
    if not script.is_file():
        return {"ended": "not there", "why": f"{script.name} is not in that folder"}
    if deadline.is_over:
        return {"ended": "not run", "why": "the time was up"}
    before = written.stat().st_mtime_ns if written.exists() else None
    limit_s = deadline.left_s
    process = subprocess.Popen(
        [sys.executable, str(script), *(["--quick"] if quick else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, complaint = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"ended": "cut off", "why": f"not done within {limit_s:.0f} s{_earlier(written)}"}
    finally:
        _end_all_of(process)
    answer: dict[str, Any] = {"printed": printed.splitlines()[-60:]}
    if process.returncode != 0:
        last = (complaint.strip() or "no message").splitlines()[-1]
        return answer | {"ended": "failed", "why": f"code {process.returncode}: {last}{_earlier(written)}"}
    if not written.exists() or written.stat().st_mtime_ns == before:
        return answer | {"ended": "failed", "why": f"it wrote no {written.name}"}
    return answer | {"ended": "done", "json": json.loads(written.read_text())}


def _end_all_of(process: subprocess.Popen[str]) -> None:
    """A script has contestants of its own: all of its session ends."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _earlier(written: Path) -> str:
    if not written.exists():
        return ""
    commit = json.loads(written.read_text()).get("commit", "unknown")
    return f"; {written.name} is of an earlier run, commit {commit}"
