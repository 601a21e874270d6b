"""What every benchmark shares: where results go, and on which machine and commit they were made."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
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


def _status_kb(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
