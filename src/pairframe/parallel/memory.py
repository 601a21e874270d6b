"""The memory that a computation may use on this machine."""

from __future__ import annotations

import ctypes
from pathlib import Path

from pairframe import system

_ASSUMED_BYTES = 4 << 30  # where the system does not say how much it has


def memory_limit_bytes() -> int:
    """Half of the memory that is available now, or half of the container limit if that is lower."""
    return available_bytes() // 2


def return_freed_memory() -> None:
    """Hand memory that was freed back to the system, where the C library can (glibc); otherwise it does nothing.

    Arrays of a few tens of megabytes leave gaps that stay with the process: a third of its memory after a large solve.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library
        return
    trim(0)


def available_bytes() -> int:
    """The memory that is available now, or the container limit if that is lower."""
    physical = system.physical_memory_bytes() or _ASSUMED_BYTES
    return min(_meminfo_available(physical), _cgroup_limit(physical))


def _meminfo_available(otherwise: int) -> int:
    """Available memory including page caches that can be freed, which free pages from sysconf do not count."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return otherwise
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kilobytes[0] * 1024 if kilobytes else otherwise


def _cgroup_limit(otherwise: int) -> int:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return otherwise
    return int(text) if text.isdigit() else otherwise
