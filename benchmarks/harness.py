"""What every benchmark shares: contestants in processes of their own, where results go, on which machine and commit."""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

OUT = Path(__file__).parent / "out"
PACKAGES = ("pairframe", "numpy", "scipy", "numba", "POT", "ott-jax", "jax", "torch")


def write_json(name: str, content: dict[str, Any]) -> Path:
    """Write benchmarks/out/NAME.json with machine, versions and commit beside the figures."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps({"benchmark": name, **provenance(), **content}, indent=1) + "\n")
    print(f"written: {path.relative_to(OUT.parent.parent)}")
    return path


def provenance() -> dict[str, Any]:
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=OUT.parent, check=False
    )
    return {
        "commit": git.stdout.strip() or "unknown",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {cpu_name()}",
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def peak_extra_mb_of(job: Callable[[], object]) -> float:
    """Peak resident memory while `job` runs, above what was resident before, in MB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status_kb("VmRSS")
    job()
    return (_status_kb("VmHWM") - before) / 1024


class Contestant:
    """A process that keeps its imports and answers one job after the other: ``python SCRIPT --serve JOB``."""

    def __init__(self, script: str, job: str, **env: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, script, "--serve", job],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | env,
        )

    def __call__(self, **setting: Any) -> dict[str, Any]:
        answer = self.ask_within(None, **setting)
        assert answer is not None
        return answer

    def ask_within(self, seconds: float | None, **setting: Any) -> dict[str, Any] | None:
        """The answer, or None when it takes longer: then the process is ended, and answers no more."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018
        process.stdin.write(json.dumps(setting) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], seconds)[0]:
            process.kill()
            return None
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit("a contestant died; its message is above")
        found: dict[str, Any] = json.loads(answer)
        return found

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve(job: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The contestant's side: settings come in as lines of JSON, answers go out."""
    for line in sys.stdin:
        print(json.dumps(job(json.loads(line))), flush=True)


def summary(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and spread of the answers' seconds."""
    times = sorted(answer["seconds"] for answer in answers)
    return {"median_s": median(times), "min_s": times[0], "max_s": times[-1], "last": answers[-1]}


def _status_kb(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
