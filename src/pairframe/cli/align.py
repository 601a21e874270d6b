"""`pairframe align`: find the pose of a pair, print it, and write the moved target."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from pairframe.alignment import Pose, PoseStatus, align
from pairframe.cli.terminal import activity, output, print_places, say, visible
from pairframe.errors import AlignError, ArgumentError, FileError
from pairframe.masks import Mask, read_mask, write_mask
from pairframe.plain_json import plain


@dataclass(frozen=True)
class AlignJob:
    """The arguments of `pairframe align`.

    Attributes
    ----------
    source, target : str
        Masks as `read_mask` names them.
    landmarks : (str or None, str or None)
        Landmarks of source and target.
    out : path, optional
        Image of the moved target to write.
    extend : bool
        Let the canvas of that image grow beyond that of the source.
    """

    source: str
    target: str
    kind: str = "rigid"
    allow_flip: bool = False
    weight: str = "area"
    prove: str | None = None
    landmarks: tuple[str | None, str | None] = (None, None)
    several: str = "shift"
    px_size_um: float | None = None
    out: Path | None = None
    extend: bool = False
    overwrite: bool = False


def run_align(job: AlignJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Align, write and print; exit code 1 if the masks do not determine the pose."""
    if job.out is not None and job.out.exists() and not job.overwrite:
        raise FileError("a new file", f"{str(job.out)!r}, which exists", "choose another name, or use --overwrite")
    with activity(quiet=quiet or as_json) as now:
        now.step("reading")
        source, target = (read_mask(name, px_size_um=job.px_size_um) for name in (job.source, job.target))
        marks = [None if name is None else _landmark(name) for name in job.landmarks]
        now.step("aligning")
        pose = align(
            source,
            target,
            kind=job.kind,
            allow_flip=job.allow_flip,
            weight=job.weight,
            prove=_claim(job.prove),
            landmarks=None if marks == [None, None] else (marks[0], marks[1]),
            several=job.several,
        )
        places = {} if job.out is None else {"moved target": str(job.out)}
        if job.out is not None:
            now.step("writing")
            pose = _write(job, pose, target)
    if as_json:
        typer.echo(json.dumps(plain(pose.to_plain() | {"files": places}), allow_nan=False))
    elif not quiet:
        console = output()
        for line in pose.summary().splitlines():
            console.print(visible(line), soft_wrap=True, markup=False, highlight=False)
        if places:
            console.print()
            print_places(console, places)
    if pose.status != PoseStatus.aligned:
        if as_json or quiet:
            say(f"pairframe: {pose.status}: {pose.status.advice}")
        raise typer.Exit(1)


def _write(job: AlignJob, pose: Pose, target: Mask) -> Pose:
    """Write the moved target; the pose, with the canvas of the image."""
    assert job.out is not None
    canvas_hw, origin_yx = pose.source_canvas.shape_hw, (0, 0)
    if job.extend:
        canvas_hw, origin_yx = pose.canvas_for(target)
    elif pose.canvas_for(target)[0] != canvas_hw:
        (height, width), (more_height, more_width) = canvas_hw, pose.canvas_for(target)[0]
        raise AlignError(
            f"the moved target to fit on the source's canvas of {height} x {width} px",
            f"one that needs {more_height} x {more_width} px",
            "use --extend to enlarge the canvas, or leave out --out to see the pose alone",
        )
    moved = pose.apply(target, canvas_hw=canvas_hw, origin_yx=origin_yx)
    write_mask(moved, job.out, overwrite=job.overwrite)
    return replace(pose, source_canvas=replace(pose.source_canvas, shape_hw=canvas_hw, origin_yx=origin_yx))


def _landmark(name: str) -> Mask:
    # The pixel size is that of its mask: a landmark is on the same canvas.
    return replace(read_mask(name), px_size_um=None)


def _claim(words: str | None) -> Any:
    if words is None or words == "flip":
        return words
    try:
        degrees = float(words)
    except ValueError:
        degrees = math.nan
    if not 0 < degrees < 180:
        raise ArgumentError("--prove as flip or degrees between 0 and 180", repr(words), "e.g. --prove 10", "prove")
    return degrees
