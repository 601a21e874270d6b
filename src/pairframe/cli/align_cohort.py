"""`pairframe align TABLE`: bring a cohort into one pose and draw its contact sheet."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from pairframe.cli.arguments import arguments_for
from pairframe.cli.terminal import say, visible
from pairframe.cohort import AlignedCohort, align_cohort
from pairframe.cohort.align.state import PAGE, SHEET
from pairframe.cohort.inputs.columns import ColumnMap
from pairframe.cohort.inputs.sources import ALIGNED_MANIFEST
from pairframe.cohort.run.progress import CohortProgress, ProgressCallback, duration, shown_progress
from pairframe.errors import ArgumentError, WorkerError
from pairframe.plain_json import plain

SHOWN_FLAGGED = 10  # masks that are named in the terminal


@dataclass(frozen=True)
class AlignCohortJob:
    """The arguments of `pairframe align TABLE`; see `align_cohort`."""

    manifest: str
    out: Path
    canvas_hw: tuple[int, int]
    px_size_um: float | None = None
    reference: str | None = None
    reference_landmark: str | None = None
    landmark: str | None = None
    columns: ColumnMap | None = None
    kind: str = "rigid"
    allow_flip: bool = False
    several: str = "shift"
    jobs: int | None = None
    overwrite: bool = False


def parse_canvas(words: str) -> tuple[int, int]:
    """``256x576`` as (height, width)."""
    match = re.fullmatch(r"\s*([0-9]{1,6})\s*[xX*]\s*([0-9]{1,6})\s*", words)
    if match is None:
        raise ArgumentError("--canvas as HEIGHTxWIDTH in pixels", repr(words), "e.g. --canvas 256x576", "canvas")
    return int(match[1]), int(match[2])


def run_align_cohort(job: AlignCohortJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Align, draw and print; exit code 1 if a mask failed or the workers were lost."""
    try:
        with shown_progress(quiet=quiet or as_json) as show:
            done = align_cohort(progress=show, **arguments_for(align_cohort, job))
            _draw(job.out, show)
    except KeyboardInterrupt:
        say("pairframe: stopped; run the same command again to resume")
        raise
    except WorkerError as error:  # neither bad input nor bad usage: the run can be resumed
        say(f"pairframe: {error}")
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(plain(_values(done)), allow_nan=False))
    elif not quiet:
        _print(done)
    if done.failed:
        raise typer.Exit(1)


def _draw(out: Path, show: ProgressCallback) -> None:
    from pairframe.report.html import write_contact_sheet

    began = time.monotonic()

    def show_drawn(_task: str, done: int, total: int) -> None:
        show(CohortProgress("report", done, 0, 0, total, time.monotonic() - began, "masks"))

    write_contact_sheet(out, progress=show_drawn)


def _print(done: AlignedCohort) -> None:
    words = [f"{done.written} aligned in {duration(done.seconds)}"]
    if done.skipped:
        words.append(f"{done.skipped} skipped (already done)")
    words.append(f"{done.flagged} flagged")
    words.append(f"{done.failed} failed")
    _line(f"masks: {', '.join(words)}")
    _line(f"reference: {done.reference} ({done.rule})")
    named = [one for one in done.masks if one.error is not None] + [
        one for one in done.masks if one.flags and one.error is None
    ]
    for one in named[:SHOWN_FLAGGED]:
        why = one.error or "; ".join(flag.words for flag in one.flags)
        _line(f"{'failed' if one.error else 'look at'}: {one.mask_id}: {why}")
    if len(named) > SHOWN_FLAGGED:
        _line(f"... {len(named) - SHOWN_FLAGGED} more in the contact sheet")
    if done.needed_canvas_hw is not None:
        height, width = done.needed_canvas_hw
        _line(f"canvas: too small for some masks; --canvas {height}x{width} holds all of them")
    _line(f"table: {done.out / ALIGNED_MANIFEST}")
    _line(f"contact sheet: {done.out / PAGE}, {done.out / SHEET}")
    _line(f"next: pairframe run {done.out} --out RESULTS")


def _line(text: str) -> None:
    typer.echo(visible(text))


def _values(done: AlignedCohort) -> dict[str, Any]:
    return {
        "out": str(done.out),
        "reference": done.reference,
        "rule": done.rule,
        "written": done.written,
        "skipped": done.skipped,
        "failed": done.failed,
        "flagged": done.flagged,
        "needed_canvas_hw": done.needed_canvas_hw,
        "seconds": done.seconds,
        "masks": [{"mask": one.mask_id, "file": one.file, **one.columns()} for one in done.masks],
    }
