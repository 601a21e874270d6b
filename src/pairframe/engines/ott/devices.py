"""Devices and precision of OTT, and the cache of compiled programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pairframe.errors import ArgumentError, EngineError
from pairframe.parallel.memory import memory_limit_bytes

if TYPE_CHECKING:
    import jax

CACHE_SWITCH = "PAIRFRAME_JAX_CACHE"
_JAX_DEFAULT_SECONDS = 1.0  # jax keeps programs that took longer to compile; ours take about that
_KEEP_FROM_SECONDS = 0.2
_has_run = False
_is_forked_after_run = False


def check_process() -> None:
    """Raise in a forked child of a process that used jax: jax would wait for threads that a fork does not copy."""
    global _has_run
    if _is_forked_after_run:
        raise EngineError(
            "a process in which the OTT engine can run",
            "a forked child of a process that has run it, in which jax waits for threads of its parent",
            "start processes with multiprocessing.get_context('spawn')",
        )
    _has_run = True


def _mark_child() -> None:
    global _is_forked_after_run
    _is_forked_after_run = _has_run


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_child)


def find_device(name: str | None) -> jax.Device:
    """The device of that name ("cpu", "gpu", "cuda:1", ...); jax's own choice without one."""
    import jax

    if name is None:
        chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
        return chosen if isinstance(chosen, jax.Device) else jax.devices()[0]
    platform, _, number = name.partition(":")
    try:
        return jax.devices(platform)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        here = ", ".join(device_name(device) for device in jax.devices())
        raise ArgumentError(
            f"a device that jax has here: {here}", repr(name), "use one of these, or install jax for that device"
        ) from error


def device_name(device: jax.Device) -> str:
    """The name that a result records: "cpu", "gpu:0", ..."""
    return "cpu" if device.platform == "cpu" and device.id == 0 else f"{device.platform}:{device.id}"


def device_memory_limit(device: jax.Device) -> int:
    """Bytes a solve may take there: half of the device's own memory, or of the machine's."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return memory_limit_bytes() if limit is None else limit // 2


@contextmanager
def on_device(device: jax.Device, dtype: str) -> Iterator[None]:
    """Inside, arrays are of that precision on that device; the caller's own jax settings come back after it."""
    import jax

    import pairframe.engines.ott.compiled  # noqa: F401  (outside: arrays that OTT makes at import keep the caller's precision)

    try:
        from jax import enable_x64
    except ImportError:  # jax before 0.8
        from jax.experimental import enable_x64  # type: ignore[attr-defined,no-redef]
    keep_compiled_programs()
    with enable_x64(dtype == "float64"), jax.default_device(device):
        yield


@cache
def keep_compiled_programs() -> Path | None:
    """Let jax keep compiled programs on disk, so that the next process need not compile them again.

    They go to ``pairframe/jax`` in the user's cache directory. A directory that the user gave to jax stays; the
    environment variable PAIRFRAME_JAX_CACHE names another one, or switches this off with "off". Done once, on the
    first solve; the setting is jax's own and holds for all of the process.
    """
    import jax

    wanted = os.environ.get(CACHE_SWITCH, "")
    if wanted.lower() in ("off", "0", "no") or jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return None
    folder = (
        Path(wanted) if wanted else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pairframe/jax"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # no writable folder: compile each time
    if not os.access(folder, os.W_OK):
        return None
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
    if jax.config.jax_persistent_cache_min_compile_time_secs == _JAX_DEFAULT_SECONDS:  # type: ignore[attr-defined]
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _KEEP_FROM_SECONDS)  # type: ignore[no-untyped-call]
    compilation_cache.reset_cache()  # jax looks for the directory only once, at its first compilation
    return folder
