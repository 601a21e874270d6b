"""`pairframe report`: the pages of a folder of results."""

from __future__ import annotations

from pathlib import Path

import typer

from pairframe.cli.terminal import activity, visible
from pairframe.report.html import write_report


def run_report(out: Path, title: str | None, quiet: bool = False) -> None:
    """Write the pages and say where the first one is."""
    with activity(quiet=quiet) as now:
        now.step("reading the results")
        page = write_report(
            out, title=title, progress=lambda done, total, pair_id: now.step("drawing", done, total, pair_id)
        )
    if not quiet:
        typer.echo(f"report: {visible(str(page))}")
