"""Peak resident memory, from what Linux keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def peak_mb_of(job: Callable[[], object]) -> tuple[float, float]:
    """Peak resident memory while `job` runs: above what was resident before, and in all; MB."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status_kb("VmRSS")
    job()
    peak = _status_kb("VmHWM")
    return (peak - before) / 1024, peak / 1024


def _status_kb(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])
