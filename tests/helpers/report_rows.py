"""Rows and stores for the tests of the report: a few real results, and thousands of rows made from one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import pairframe as pf
from pairframe.results.cohort_table import Cohort, cohort_of
from pairframe.results.rows import failed_row, result_row
from pairframe.results.store import ResultStore
from pairframe.testing import disc

SHAPE = (48, 80)
HOSTILE = "<img src=x onerror=\"document.title='harmed'\">"
BREAKOUT = "</script><script>document.title='harmed'</script><!-- \u2028 ' \" & {{ 7*7 }}"
LONG = "long " + "x" * 10_000


def small_result(shift_px: float = 6.0, **config: Any) -> pf.TransportResult:
    """A disc that grows and moves."""
    source, target = disc(SHAPE, (20, 25), 9), disc(SHAPE, (22, 25 + shift_px), 10)
    return pf.compare(source, target, pf.TransportConfig(px_size_um=2.0, **config))


def small_cohort(out: Path) -> ResultStore:
    """Six pairs: three of a series, hostile and long names, one not converged; and two failures."""
    store = ResultStore(out)
    rows = [
        store.write_maps(
            small_result(4.0 + frame),
            f"disc {frame}",
            source=f"disc.tif@{frame}",
            target=f"disc.tif@{frame + 1}",
            seconds=0.1,
            extra={"group": "wild type", "series": "disc", "frame": frame},
        )
        for frame in range(3)
    ]
    labels = {"group": HOSTILE, "series": BREAKOUT, "frame": 0}
    rows.append(store.write_maps(small_result(8.0), HOSTILE, source=BREAKOUT, target=LONG, extra=labels))
    rows.append(store.write_maps(small_result(9.0), LONG, extra={"group": LONG, "series": "disc", "frame": 5}))
    rows.append(store.write_maps(small_result(10.0, max_iterations=1, tol=1e-12), "unfinished", extra=labels))
    rows.append(failed_row(BREAKOUT, f"no such file: {HOSTILE}", f"look for {BREAKOUT}", extra={"group": "wild type"}))
    rows.append(failed_row("empty name", "both masks are empty", "draw one", extra={"group": None}))
    store.commit(rows)
    return store


def grouped_cohort(out: Path) -> ResultStore:
    """Two groups with hostile names, three units of each with endless ones, one of which moves farther."""
    store, rows = ResultStore(out), []
    for group, shift_px in ((HOSTILE, 3.0), (BREAKOUT, 8.0)):
        for unit in range(3):
            labels = {"group": group, "series": f"{group} {unit} {LONG}", "frame": 0}
            result = small_result(shift_px + 0.7 * unit)
            rows.append(store.write_maps(result, f"{unit} {group} {LONG}", extra=labels))
    store.commit(rows)
    return store


def synthetic_rows(n: int) -> Cohort:
    """`n` rows that vary one real result: three groups, series of ten, numbers that are missing or infinite."""
    base = {name: _plain(value) for name, value in result_row(small_result(), "pair", "pair-00000000").items()}
    rng = np.random.default_rng(0)
    rows = []
    for k in range(n):
        row = dict(base, pair_id=f"pair {k}", maps_group=f"pair_{k}-{k:08x}")
        for name in ("percent_created", "percent_destroyed", "mean_displacement_um", "divergence", "M_target"):
            row[name] = float(base[name] * rng.lognormal(0.0, 0.3))
        row |= {"group": f"group {k % 3}", "series": f"series {k // 10}", "frame": k % 10}
        rows.append(row)
    rows[0]["percent_created"] = None
    rows[3]["percent_created"] = 99.9996
    rows[1]["reach_um"] = math.inf
    rows[2]["reach_um"] = -math.inf
    return cohort_of(rows, ("group", "series", "frame"))


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
