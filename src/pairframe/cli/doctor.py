"""`pairframe doctor`: which engines work on this machine."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict
from typing import Any

import typer

from pairframe import __version__, system
from pairframe.alignment import align
from pairframe.engines.backends import Backend, backends, self_test
from pairframe.engines.registry import get_engine
from pairframe.errors import EngineError, InputError, MissingExtraError
from pairframe.masks import Mask
from pairframe.parallel.threads import n_cores
from pairframe.testing import planted_pair

_LARGEST_TURN_DEG, _LARGEST_SHIFT_PX = 1.0, 1.0  # errors of the pose that the self-test accepts


def examine(size_hw: tuple[int, int], test: bool = True) -> dict[str, Any]:
    """All findings as plain values."""
    return {
        "pairframe": __version__,
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "cores": n_cores(),
        "memory_gb": round((system.physical_memory_bytes() or 0) / 1e9, 1),
        "size_hw": list(size_hw),
        "engines": [_engine(backend, size_hw, test) for backend in backends()],
        "alignment": _alignment() if test else None,
    }


def _alignment() -> dict[str, Any]:
    """Align a pair whose pose is known; the first time on a machine this compiles the alignment."""
    pair = planted_pair(0, "rigid")
    masks = [Mask.from_array(image) for image in (pair.source, pair.target)]
    align(*masks, prove="flip")
    started = time.perf_counter()
    change = align(*masks).change
    seconds = time.perf_counter() - started
    degrees, px = pair.errors(change.matrix, change.offset_yx_um)
    passed = degrees < _LARGEST_TURN_DEG and px < _LARGEST_SHIFT_PX
    return {"turn_error_deg": degrees, "shift_error_px": px, "seconds": seconds, "passed": passed}


def _engine(backend: Backend, size_hw: tuple[int, int], test: bool) -> dict[str, Any]:
    numbers = []
    for dtype in backend.dtypes:
        entry: dict[str, Any] = {"dtype": dtype, "smallest_epsilon_px2": backend.smallest_epsilon(size_hw, dtype)}
        if test:
            done = self_test(backend.name, dtype)
            entry["self_test"] = asdict(done) | {"passed": done.passed}
        numbers.append(entry)
    is_missing_extra, notice = _absence(backend.name)
    return {
        "name": backend.name,
        "available": backend.available,
        "why_not": backend.why_not,
        "is_missing_extra": is_missing_extra,
        "notice": notice,
        "versions": dict(backend.versions),
        "devices": list(backend.devices),
        "numbers": numbers,
    }


def _absence(name: str) -> tuple[bool, str]:
    """Whether an engine is missing because its extra is not installed, and a notice; empty if it is available."""
    try:
        get_engine(name)
    except MissingExtraError as error:
        return True, f"optional, not installed; `{error.fix}`"
    except EngineError as error:
        return False, f"ERROR: {error}"
    return False, ""


def parse_size(text: str) -> tuple[int, int]:
    """(H, W) from ``256x576``."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise InputError("a work grid as HEIGHTxWIDTH in pixels", repr(text), "e.g. --size 256x576")
    return int(parts[0]), int(parts[1])


def run_doctor(size: str, as_json: bool, test: bool) -> None:
    """Print the findings; exit code 1 if a self-test failed."""
    found = examine(parse_size(size), test)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        _print(found)
    failed = [
        f"{engine['name']} ({numbers['dtype']})"
        for engine in found["engines"]
        for numbers in engine["numbers"]
        if test and not numbers["self_test"]["passed"]
    ]
    failed += ["alignment"] if test and not found["alignment"]["passed"] else []
    if failed:
        typer.echo(f"failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    h, w = found["size_hw"]
    console = Console()
    console.print(
        f"pairframe {found['pairframe']}, Python {found['python']}, {found['system']}, "
        f"{found['cores']} cores, {found['memory_gb']} GB",
        highlight=False,
    )
    table = Table(
        "engine", "numbers", "devices", f"smallest epsilon\nat {h} x {w} (px²)", "against the oracle", "solve"
    )
    for engine in found["engines"]:
        if not engine["available"]:
            word = "optional, not installed" if engine["is_missing_extra"] else "DOES NOT WORK"
            table.add_row(engine["name"], "-", "-", "-", word, "-")
        for numbers in engine["numbers"]:
            table.add_row(
                engine["name"],
                numbers["dtype"],
                ", ".join(engine["devices"]),
                f"{numbers['smallest_epsilon_px2']:.1e}",
                *_verdict(numbers.get("self_test")),
            )
    console.print(table)
    for engine in found["engines"]:
        if engine["versions"]:
            listed = ", ".join(f"{library} {version}" for library, version in engine["versions"].items())
            console.print(f"{engine['name']}: {listed}", highlight=False)
        if engine["notice"]:
            console.print(f"{engine['name']}: {engine['notice']}", highlight=False, markup=False, soft_wrap=True)

    if found["alignment"] is not None:
        done = found["alignment"]
        console.print(
            f"alignment: {'ok' if done['passed'] else 'FAILED'}, a planted turn found to {done['turn_error_deg']:.2f} degrees and "
            f"the shift to {done['shift_error_px']:.2f} px; {1e3 * done['seconds']:.0f} ms",
            highlight=False,
            soft_wrap=True,
        )


def _verdict(test: dict[str, Any] | None) -> tuple[str, str]:
    if test is None:
        return "not tested", "-"
    word = "ok" if test["passed"] else f"FAILED ({test['status']})"
    errors = f"{word}: objective {test['objective_error']:.0e}, marginals {test['marginal_error']:.0e}"
    return errors, f"{1e3 * test['seconds']:.0f} ms"
