"""Where figures come from: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    ("pairframe", "numpy", "scipy", "numba", "POT", "ott-jax", "jax", "jaxlib", "geomloss", "torch")
)  # fmt: skip
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def provenance(folder: Path | None = None) -> dict[str, Any]:
    """Machine, versions, date, and the commit of the checkout at `folder` (that of this file when not given)."""
    return {
        "commit": commit_of(Path(__file__).parent if folder is None else folder),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {cpu_name()}, {_memory_gb():.0f} GB",
        "load_before": round(os.getloadavg()[0], 2),
        "threads": {name: os.environ[name] for name in _THREADS if name in os.environ},
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := version_of(name))},
    }


def commit_of(folder: Path) -> str:
    """``git describe``; "no checkout" for an installed wheel."""
    if "site-packages" in folder.parts:  # a checkout around it is somebody else's
        return "no checkout"
    try:
        git = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=folder, check=False
        )
    except OSError:
        return "no checkout"
    return git.stdout.strip() or "no checkout"


def cpu_name() -> str:
    """As the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def version_of(package: str) -> str | None:
    """None when it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
