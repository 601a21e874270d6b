"""`pairframe analyze`: compare the groups of a cohort."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import typer

from pairframe.analysis import CohortAnalysis, analyze
from pairframe.analysis.analyze import LEVEL
from pairframe.cli.output import check_results_folder
from pairframe.cli.terminal import activity, output, print_places, say, visible
from pairframe.plain_json import plain
from pairframe.report.html import write_analysis, write_report
from pairframe.results.formatting import number

MOST_LINES = 12


@dataclass(frozen=True)
class AnalyzeJob:
    """Arguments of `pairframe.analysis.analyze` from the command line."""

    out: Path
    group: str | None = None
    time: str | None = None
    unit: str | None = None
    bins: int | None = None
    reference: str | None = None
    permutations: int = 5000
    seed: int = 0
    distance_masks: int = 24
    jobs: int | None = None


def run_analyze(job: AnalyzeJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Analyse a cohort, write the analysis next to its results, print the findings, and link them from the report."""
    check_results_folder(job.out)
    with activity(quiet=quiet or as_json) as now:
        now.step("reading the results")
        analysis = analyze(
            job.out,
            group=job.group,
            time=job.time,
            unit=job.unit,
            bins=job.bins,
            reference=job.reference,
            permutations=job.permutations,
            seed=job.seed,
            max_distance_masks=job.distance_masks,
            jobs=job.jobs,
            progress=now.step,
        )
        now.step("drawing")
        page = write_analysis(analysis, job.out)
        if (job.out / "report.html").is_file():
            write_report(job.out)
    if as_json:
        from pairframe.analysis.save import as_dict

        typer.echo(json.dumps(plain(as_dict(analysis)), allow_nan=False))
        return
    if not quiet:
        for notice in analysis.notices:
            say(f"notice: {notice}")
        _print_findings(analysis)
        places = {"analysis": page, "numbers": job.out / "analysis.json", "maps": job.out / "analysis.zarr"}
        print_places(output(), places)


def _print_findings(analysis: CohortAnalysis) -> None:
    """The strongest differences of each group, most certain first."""
    members = analysis.members
    typer.echo(f"{len(members.members)} pairs, {len(members.units)} units, {len(members.groups)} groups")
    for comparison in analysis.comparisons:
        tested = [test for test in comparison.scalars if math.isfinite(test.p)]
        tests = sorted(tested, key=lambda test: (test.q, -abs(test.cohens_d) if math.isfinite(test.cohens_d) else 0.0))
        findings = [test for test in tests if test.q <= LEVEL]
        named = f"{visible(comparison.group)} against {visible(members.reference)}"
        typer.echo(f"{named}: {len(findings)} of {len(tests)} scalars differ at q <= {LEVEL:g}")
        for test in findings[:MOST_LINES]:
            means = f"{number(test.mean_group)} against {number(test.mean_reference)} {test.unit}"
            typer.echo(f"  {test.scalar:<28} {means}, d = {number(test.cohens_d)}, q = {test.q:.2g}")
        if len(findings) > MOST_LINES:
            typer.echo(f"  and {len(findings) - MOST_LINES} more: see the page")
