"""`analysis.html`: the tests, how certain they are, and the pictures; it works offline."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pairframe._version import __version__
from pairframe.analysis.analyze import LEVEL, CohortAnalysis, Comparison
from pairframe.report.figures.cohort import MOST_BINS, MOST_GROUPS
from pairframe.report.html.assets import render
from pairframe.results.cohort_table import page_name
from pairframe.results.formatting import number
from pairframe.results.schema import BY_NAME
from pairframe.results.words import short_name, unit
from pairframe.units import Units

MOST_DEVIANT = 25


def analysis_page(analysis: CohortAnalysis, out: Path, figures: Collection[str]) -> str:
    """The page's HTML.

    Parameters
    ----------
    out : Path
        Folder of results; pages of pairs in it are linked to.
    figures : names
        Names of the pictures, ``analysis/<name>.png``.
    """
    members = analysis.members
    units = members.length_units
    return render(
        "analysis.html",
        "analysis.js",
        title=out.resolve().name,
        members=members,
        grid=analysis.grid,
        permutations=analysis.permutations,
        seed=analysis.seed,
        has_report=(out / "report.html").is_file(),
        tiles=_tiles(analysis),
        notices=analysis.notices,
        comparisons=[_comparison(comparison, index, units) for index, comparison in enumerate(analysis.comparisons)],
        deviant=_deviant(analysis, out),
        distances=analysis.distances,
        figures=set(figures),
        left_out=len(members.groups) > MOST_GROUPS or members.n_bins > MOST_BINS,
        length=units.length_text,
        level=LEVEL,
        number=number,
        made_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        pairframe_version=__version__,
    )


def _tiles(analysis: CohortAnalysis) -> list[dict[str, str]]:
    members = analysis.members
    counts = (
        (len(members.members), "pair", "pairs"),
        (len(members.groups), "group", "groups"),
        (len(members.units), *(("unit", "units") if members.unit_column else ("unit (pair)", "units (pairs)"))),
        (members.n_bins, "time bin", "time bins"),
    )
    tiles = [{"kind": "", "value": f"{n:,}", "name": one if n == 1 else several} for n, one, several in counts]
    for comparison in analysis.comparisons:
        found = sum(test.q <= LEVEL for test in comparison.scalars)
        name = f"scalars differ in {comparison.group[:40]} (q ≤ {LEVEL:g})"
        tiles.append({"kind": "um", "value": f"{found} of {len(comparison.scalars)}", "name": name})
    return tiles


def _comparison(comparison: Comparison, index: int, units: Units) -> dict[str, Any]:
    """Strongest evidence first, then the largest effect."""
    tests = sorted(
        comparison.scalars, key=lambda test: (_missing_last(test.q), -abs(_missing_last(test.cohens_d, 0.0)))
    )
    rows = [
        {
            "test": test,
            "name": short_name(test.scalar),
            "meaning": BY_NAME[test.scalar].meaning.replace("`", ""),
            "unit": unit(test.scalar, units),
            "is_finding": test.q <= LEVEL,
        }
        for test in tests
    ]
    return {"comparison": comparison, "rows": rows, "figure": f"hotspots_{index}"}


def _missing_last(value: float, missing: float = 2.0) -> float:
    return value if value == value else missing


def _deviant(analysis: CohortAnalysis, out: Path) -> list[dict[str, Any]]:
    """The pairs farthest from the reference."""
    found = []
    for member in analysis.members.members:
        deviation = analysis.deviations[member.pair_id]
        if deviation.velocity_rmse_um == deviation.velocity_rmse_um:
            found.append((deviation.velocity_rmse_um, member, deviation))
    found.sort(key=lambda item: -item[0])
    rows = []
    for _, member, deviation in found[:MOST_DEVIANT]:
        page = page_name(member.row)
        link = f"pairs/{page}.html" if page is not None and (out / "pairs" / f"{page}.html").is_file() else None
        rows.append({"member": member, "deviation": deviation, "link": link})
    return rows
