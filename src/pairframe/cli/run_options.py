"""The options of `pairframe run`, each declared once: name, type, default and help."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from pairframe.cli.arguments import Quiet, folder_path
from pairframe.cli.columns import (
    FrameColumn,
    HeightPxColumn,
    HeightUmColumn,
    MaskColumn,
    PxSizeColumn,
    SeriesColumn,
    WidthPxColumn,
)
from pairframe.cli.compare_options import Axis, AxisBins, Radial
from pairframe.errors import ManifestError


@dataclass(frozen=True)
class RunOptions:
    """What to run, and how. Fields with the names of arguments of `run_cohort` or `estimate` are passed on to them."""

    manifest: Annotated[
        list[str],
        typer.Argument(
            metavar="MANIFEST",
            help="Table of pairs or frames (csv, tsv, parquet; toml with its columns), folder of frames, quoted pattern ('masks/*.png') or label "
            "stack, in which each id is a series (STACK:all takes all labels of a page as one mask). Pairs of frames are named SERIES_FRAME-FRAME: masks/embryo1/t000.png and t001.png become "
            "embryo1_000-001.",
        ),
    ]
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            parser=folder_path,
            help="Folder to write to; created if it does not exist, resumed if it holds a run.",
        ),
    ]
    pairing: Annotated[
        str, typer.Option(help="How to pair frames: consecutive, reference, reference:FRAME, all or every:K.")
    ] = "consecutive"
    axes: Annotated[
        str | None,
        typer.Option(
            metavar="LETTERS",
            help="Axes of a stack in order, such as TYX or TZYX: T is time, Z with --volume is depth, others make separate series. Default: from the file.",
        ),
    ] = None
    mask_column: MaskColumn = None
    series_column: SeriesColumn = None
    frame_column: FrameColumn = None
    px_size_column: PxSizeColumn = None
    height_um_column: HeightUmColumn = None
    height_px_column: HeightPxColumn = None
    width_px_column: WidthPxColumn = None
    jobs: Annotated[int | None, typer.Option(help="Processes; default: one per core.")] = None
    client: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on this Dask scheduler instead.")
    ] = None
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Retry pairs that failed before.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate sizes, memory and time; write nothing.")] = False
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that holds other files.")] = False
    regions: Annotated[
        bool,
        typer.Option(
            "--regions",
            help="Write the mass that flows between the labels of each pair to flows.csv: those of the masks themselves, or of "
            "the columns source_labels and target_labels of a table of pairs.",
        ),
    ] = False
    region: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="The same for structures of a table of frames, such as the yolk; repeat it for several. The first is label 1.",
        ),
    ] = field(default_factory=list)
    axis: Axis = False
    axis_head: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Structure of a table of frames that lies at the head, such as the yolk; needs --axis. Frames without one "
            "follow their series.",
        ),
    ] = None
    bins: AxisBins = None
    radial: Radial = None
    report: Annotated[bool, typer.Option(help="Write the report at the end.")] = True
    frame_interval_min: Annotated[
        float | None,
        typer.Option(
            "--frame-interval",
            metavar="MIN",
            help="Minutes between consecutive frames of a series; adds the time between the masks of each pair to the table.",
        ),
    ] = None
    quiet: Quiet = False

    def one_manifest(self) -> str:
        """The manifest; an error if there are several words, such as a pattern that the shell has expanded."""
        words = self.manifest
        if len(words) == 1:
            return words[0]
        folders = {Path(word).parent for word in words}
        suffixes = {Path(word).suffix for word in words}
        folder = folders.pop() if len(folders) == 1 else Path("masks")
        pattern = folder / f"*{suffixes.pop() if len(suffixes) == 1 else '.png'}"
        raise ManifestError(
            "one manifest, folder or pattern",
            f"{len(words)} words, {words[0]!r} to {words[-1]!r}",
            "if the shell expanded a pattern, put the pattern in single quotes, "
            f"such as {shlex.quote(str(pattern))}, or give the folder, {shlex.quote(str(folder))}",
        )
