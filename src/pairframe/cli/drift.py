"""`pairframe drift`: the drift of the stage over every series of a cohort, as a table and a figure."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from pairframe import files
from pairframe.alignment import StageDrift, stage_drift
from pairframe.cli.terminal import activity, say, visible
from pairframe.cohort.inputs.pairing import Frame
from pairframe.cohort.inputs.sources import read_frames
from pairframe.errors import AlignError, OutputError
from pairframe.masks import Mask
from pairframe.plain_json import plain
from pairframe.results import disk

TABLE, FIGURE = "drift.csv", "drift.png"
_DPI = 110


@dataclass(frozen=True)
class DriftJob:
    """The arguments of `pairframe drift`.

    Attributes
    ----------
    manifest : str
        See `read_frames`.
    smooth_frames : float, optional
        See `stage_drift`.
    """

    manifest: str
    out: Path
    smooth_frames: float | None = None
    px_size_um: float | None = None
    overwrite: bool = False


def run_drift(job: DriftJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Estimate, write and print."""
    by_series: dict[str, list[Frame]] = {}
    for frame in read_frames(job.manifest).frames:
        by_series.setdefault(frame.series, []).append(frame)
    places = [job.out / name for name in (TABLE, FIGURE)]
    taken = [path for path in places if path.exists()]
    if taken and not job.overwrite:
        raise OutputError("new files", f"{str(taken[0])!r}, which exists", "choose another folder, or use --overwrite")
    drifts: dict[str, StageDrift] = {}
    with activity(quiet=quiet or as_json) as now:
        for series, frames in by_series.items():
            now.step(f"series {series}" if series else "estimating")
            drifts[series] = _drift_of(series, frames, job)
        now.step("writing")
        with disk.write_errors(job.out):
            job.out.mkdir(parents=True, exist_ok=True)
            files.replace_file(places[0], _table(drifts).encode())
            files.replace_file(places[1], _figure(drifts))
    if as_json:
        values = {series: {"kernel": drift.kernel, "frames": drift.rows()} for series, drift in drifts.items()}
        typer.echo(json.dumps(plain(values), allow_nan=False))
        return
    for series, drift in drifts.items():
        for notice in drift.notices:
            say(f"pairframe: {series}: {notice}" if series else f"pairframe: {notice}")
        if not quiet:
            name = f"{series}: " if series else ""
            line = f"{name}up to {drift.total_um:.4g} {drift.units.length_text} over {len(drift.frames)} frames"
            typer.echo(visible(line))
    if not quiet:
        typer.echo(visible(f"table: {places[0]}"))
        typer.echo(visible(f"figure: {places[1]}"))


def _drift_of(series: str, frames: list[Frame], job: DriftJob) -> StageDrift:
    if len(frames) < 2:
        raise AlignError(
            "at least two frames in every series",
            f"one in series {series!r}",
            "check the column series, or drop the row",
        )
    masks = [_read(frame, job.px_size_um) for frame in frames]
    first = next((k for k, mask in enumerate(masks) if not mask.is_empty), 0)
    names = [frame.name for frame in frames]
    return stage_drift(masks, frames=names, reference=first, smooth_frames=job.smooth_frames)


def _read(frame: Frame, px_size_um: float | None) -> Mask:
    mask = frame.mask.read()
    return mask if px_size_um is None else replace(mask, px_size_um=px_size_um)


def _table(drifts: dict[str, StageDrift]) -> str:
    stream = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for series, drift in drifts.items():
        for row in drift.rows():
            line = {"series": series, **row}
            if writer is None:
                writer = csv.DictWriter(stream, list(line))
                writer.writeheader()
            writer.writerow(line)
    return stream.getvalue()


def _figure(drifts: dict[str, StageDrift]) -> bytes:
    from pairframe.report.figures.drift import drift_figure

    stream = io.BytesIO()
    drift_figure(drifts).savefig(stream, dpi=_DPI, format="png")
    return stream.getvalue()
