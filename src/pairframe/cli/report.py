"""`pairframe report`: the pages of a folder of results."""

from __future__ import annotations

from pathlib import Path

import typer

from pairframe.cli.output import check_results_folder
from pairframe.cli.terminal import Activity, activity, say, visible
from pairframe.errors import BrokenStoreError, StoreVersionError
from pairframe.report.html import write_report
from pairframe.results import ResultStore, disk
from pairframe.results.group import read_group
from pairframe.results.schema import FAILED

MOST_NAMED = 10


def run_report(out: Path, title: str | None, quiet: bool = False) -> None:
    """Write the pages and print where the first one is; exit code 1 if maps are damaged or missing."""
    check_results_folder(out)
    with activity(quiet=quiet) as now:
        now.step("reading the results")
        page = write_report(out, title=title, progress=now.step)
        damaged = _damaged(ResultStore(out), now)
    if not quiet:
        typer.echo(f"report: {visible(str(page))}")
    if damaged:
        for pair_id in damaged[:MOST_NAMED]:
            say(f"pairframe: the maps of pair {pair_id!r} are damaged or missing")
        if len(damaged) > MOST_NAMED:
            say(f"pairframe: and those of {len(damaged) - MOST_NAMED} more pairs")
        say("pairframe: their numbers in results.parquet are still valid. To fix: run these comparisons again")
        raise typer.Exit(1)


def _damaged(store: ResultStore, now: Activity) -> list[str]:
    """Pairs whose maps cannot be read, in the order of the table; existing pictures would hide this."""
    table = store.table()
    good = table[table.status != FAILED]
    found = []
    for number, (pair_id, group) in enumerate(zip(good.pair_id, good.maps_group, strict=True)):
        now.step("checking the maps", number, len(good), pair_id)
        try:
            read_group(disk.group_path(store.maps_path, group), pair_id)
        except (BrokenStoreError, StoreVersionError):
            found.append(str(pair_id))
    return found
