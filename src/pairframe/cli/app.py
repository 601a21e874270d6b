"""The `pairframe` command: each subcommand loads what it needs when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pairframe import __version__
from pairframe.cli.arguments import AsJson, DemoVolume, Output, Quiet, Results, with_options_of
from pairframe.cli.columns import (
    FrameColumn,
    HeightPxColumn,
    HeightUmColumn,
    MaskColumn,
    PxSizeColumn,
    SeriesColumn,
    WidthPxColumn,
    column_map,
)
from pairframe.cli.compare_options import CompareOptions
from pairframe.cli.options import with_config_options
from pairframe.cli.run_options import RunOptions
from pairframe.cli.terminal import exit_codes, tolerate_any_name
from pairframe.errors import ArgumentError
from pairframe.problem import TransportConfig


class _Commands(TyperGroup):
    """Turn errors of every command into a message and an exit code."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if not args:
            return super().make_context(info_name, args, parent, **extra)  # shows the help
        with exit_codes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with exit_codes(lambda: self._options(ctx)):
            return super().invoke(ctx)

    def _options(self, ctx: Any) -> dict[str, str]:
        """The options of the command that runs, by the names of their fields: ``{"blur_um": "--blur-um"}``."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        return {} if command is None else {param.name: param.opts[0] for param in command.params if _is_option(param)}


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    help="Compare image masks by unbalanced optimal transport.",
    epilog="Exit codes: 0 all good, 1 some pairs failed or are not certified, 2 bad input or usage, 130 Ctrl-C.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pairframe {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compare image masks by unbalanced optimal transport."""


@app.command()
def demo(out: Output = Path("pairframe-demo"), volume: DemoVolume = False, quiet: Quiet = False) -> None:
    """Compare synthetic embryos, a tiny one with a huge one and six frames of growth, and write a report."""
    from pairframe.cli.demo import run_demo
    from pairframe.cli.demo_volume import run_volume_demo

    (run_volume_demo if volume else run_demo)(out, quiet=quiet)


@app.command()
@with_config_options
@with_options_of(CompareOptions)
def compare(options: CompareOptions, config: TransportConfig) -> None:
    """Compare two masks and write a store, a figure, a movie and a report."""
    from pairframe.cli.compare import CompareJob, run_compare

    run_compare(CompareJob.of(options, config), as_json=options.as_json, quiet=options.quiet)


@app.command()
def align(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC|TABLE",
            help="Source mask, which stays where it is. Without TGT: a table of frames, folder, quoted pattern or label tif "
            "of masks to align with one reference.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Argument(metavar="[TGT]", help="Target mask, which is moved; its canvas and pixel size may differ."),
    ] = None,
    kind: Annotated[str, typer.Option(metavar="shift|rigid|similarity", help="What may change.")] = "rigid",
    allow_flip: Annotated[bool, typer.Option("--allow-flip", help="Let masks be mirrored.")] = False,
    several: Annotated[
        str, typer.Option(metavar="shift|together", help="Scenes of several objects: only shift, or move as one.")
    ] = "shift",
    px_size_um: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="µm. Of a pair: side of a pixel of both masks; overrides the files. Of a table: that of the new canvas; "
            "default: that of the reference.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR", help="Image of the moved target, .tif or .npy; of a table: folder to write to."
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace an existing image; of a table: write into a folder that is not empty."
        ),
    ] = False,
    weight: Annotated[
        str, typer.Option(metavar="area|thickness", help="Pair: thickness follows the trunk of a bent body.")
    ] = "area",
    prove: Annotated[
        str | None,
        typer.Option(metavar="flip|DEGREES", help="Pair: prove that mirrored, or farther turned, poses overlap less."),
    ] = None,
    source_landmark: Annotated[
        str | None, typer.Option(metavar="MASK", help="Pair: a second mask on the source's canvas, such as its yolk.")
    ] = None,
    target_landmark: Annotated[
        str | None, typer.Option(metavar="MASK", help="Pair: the same on the target's canvas.")
    ] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Pair: let the canvas grow beyond that of the source if needed.")
    ] = False,
    canvas: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Table: height and width of the new canvas in pixels, e.g. 256x576."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="MASK", help="Table: mask whose pose all get; default: chosen among them.")
    ] = None,
    reference_landmark: Annotated[
        str | None, typer.Option(metavar="MASK", help="Table: landmark of a given reference.")
    ] = None,
    landmark: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Table: column with a second mask per row, such as the yolk.")
    ] = None,
    mask_column: MaskColumn = None,
    series_column: SeriesColumn = None,
    frame_column: FrameColumn = None,
    px_size_column: PxSizeColumn = None,
    height_um_column: HeightUmColumn = None,
    height_px_column: HeightPxColumn = None,
    width_px_column: WidthPxColumn = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "--workers", help="Table: processes; default: one per core.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Move one mask onto another, or all masks of a table into one pose.

    A pair: exit code 1 if the masks do not determine the pose. A table: exit code 1 if a mask failed; run the same command
    again to resume.
    """
    columns = {
        "mask_column": mask_column,
        "series_column": series_column,
        "frame_column": frame_column,
        "px_size_column": px_size_column,
        "height_um_column": height_um_column,
        "height_px_column": height_px_column,
        "width_px_column": width_px_column,
    }
    if target is None:
        _refuse("a table", weight=weight != "area", prove=prove, source_landmark=source_landmark)
        _refuse("a table", target_landmark=target_landmark, extend=extend)
        if canvas is None or out is None:
            option = "canvas" if canvas is None else "out"
            example = "--canvas 256x576" if canvas is None else "--out aligned"
            raise ArgumentError(
                f"--{option} for a table, or a second mask for a pair", "none", f"e.g. {example}, or give TGT", option
            )
        from pairframe.cli.align_cohort import AlignCohortJob, parse_canvas, run_align_cohort

        cohort = AlignCohortJob(
            manifest=source,
            out=out,
            canvas_hw=parse_canvas(canvas),
            px_size_um=px_size_um,
            reference=reference,
            reference_landmark=reference_landmark,
            landmark=landmark,
            columns=column_map(columns),
            kind=kind,
            allow_flip=allow_flip,
            several=several,
            jobs=jobs,
            overwrite=overwrite,
        )
        run_align_cohort(cohort, as_json=as_json, quiet=quiet)
        return
    _refuse("a pair", canvas=canvas, reference=reference, reference_landmark=reference_landmark)
    _refuse("a pair", landmark=landmark, jobs=jobs, **columns)
    from pairframe.cli.align import AlignJob, run_align

    job = AlignJob(
        source=source,
        target=target,
        kind=kind,
        allow_flip=allow_flip,
        weight=weight,
        prove=prove,
        landmarks=(source_landmark, target_landmark),
        several=several,
        px_size_um=px_size_um,
        out=out,
        extend=extend,
        overwrite=overwrite,
    )
    run_align(job, as_json=as_json, quiet=quiet)


def _refuse(what: str, **given: object) -> None:
    """Refuse options of the other use of a command: their values are true if they were given."""
    for name, value in given.items():
        if value not in (None, False):
            option = f"--{name.replace('_', '-')}"
            raise ArgumentError(
                f"no {option} for {what}", "one", f"leave out {option}; see pairframe align --help", name
            )


@app.command()
@with_config_options
def sweep(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source mask, as for compare.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Target mask.")],
    out: Output,
    config: TransportConfig,
    reach_um: Annotated[
        str | None,
        typer.Option(
            metavar="X,X,...",
            help="Reaches to compare, µm, increasing. Default: nine, from an eighth to twice the length of the objects, "
            "unless only blurs are given.",
        ),
    ] = None,
    blur_um: Annotated[
        str | None, typer.Option(metavar="X,X,...", help="Blurs to compare, µm, increasing. Default: 2 pixels alone.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the sweep in the folder.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare two masks at several reaches or blurs; write a table, a figure and a recommendation."""
    from pairframe.cli.sweep import SweepJob, run_sweep

    job = SweepJob(
        source=source, target=target, out=out, config=config, reach_um=reach_um, blur_um=blur_um, overwrite=overwrite
    )
    run_sweep(job, as_json=as_json, quiet=quiet)


@app.command()
def drift(
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="Table of frames, folder, quoted pattern or label tif.")
    ],
    out: Output,
    smooth_frames: Annotated[
        float | None,
        typer.Option(
            "--smooth", metavar="FRAMES", help="Smooth by local lines with Gaussian weights of this standard deviation."
        ),
    ] = None,
    px_size_um: Annotated[
        float | None, typer.Option(metavar="X", help="Side of a pixel of all masks, µm; overrides the files.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table and figure.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the drift of the stage over every series: one shift per frame, as a table and a figure."""
    from pairframe.cli.drift import DriftJob, run_drift

    job = DriftJob(manifest, out, smooth_frames, px_size_um, overwrite)
    run_drift(job, as_json=as_json, quiet=quiet)


@app.command()
@with_config_options
def lineage(
    stack: Annotated[
        list[str],
        typer.Argument(metavar="STACK...", help="Stack of label images, or one file per frame in the order of time."),
    ],
    out: Output,
    config: TransportConfig,
    most: Annotated[
        float, typer.Option(metavar="SHARE", help="A link is at least this share of one of its two objects.")
    ] = 0.5,
    least: Annotated[float, typer.Option(metavar="SHARE", help="And at least this share of the other one.")] = 0.1,
    jobs: Annotated[int | None, typer.Option(help="Processes; default: one per core.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Follow labelled objects over time by the flow of mass; write tables, a movie and tracks for other programs."""
    from pairframe.cli.lineage import LineageJob, run_lineage

    job = LineageJob(stack=stack, out=out, config=config, most=most, least=least, jobs=jobs)
    run_lineage(job, as_json=as_json, quiet=quiet)


@app.command()
def report(
    out: Results,
    title: Annotated[str | None, typer.Option(help="Heading; default: the name of the folder.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write report.html and one page per pair from the results in a folder."""
    from pairframe.cli.report import run_report

    run_report(out, title, quiet)


@app.command()
@with_config_options
@with_options_of(RunOptions)
def run(options: RunOptions, config: TransportConfig) -> None:
    """Compare all pairs of a cohort; run the same command again to resume."""
    from pairframe.cli.run import run_run

    run_run(options, config)


@app.command()
def analyze(
    out: Results,
    group: Annotated[str | None, typer.Option(help="Column with the groups to compare.")] = None,
    time: Annotated[str | None, typer.Option(help="Column with the time, as a number.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Column with the independent units, such as embryos; pair_id: every pair.")
    ] = None,
    bins: Annotated[int | None, typer.Option(help="Number of time bins of equal width.")] = None,
    reference: Annotated[str | None, typer.Option(help="Group that the others are compared with.")] = None,
    permutations: Annotated[int, typer.Option(help="Number of permutations; all of them if there are fewer.")] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    distance_masks: Annotated[int, typer.Option(help="Masks in the distance matrix; 0 leaves it out.")] = 24,
    jobs: Annotated[int | None, typer.Option(help="Processes for the distances; default: one per core.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare the groups of a cohort: mean fields, deviations, permutation tests, hot spots, distances."""
    from pairframe.cli.analyze import AnalyzeJob, run_analyze

    job = AnalyzeJob(
        out=out,
        group=group,
        time=time,
        unit=unit,
        bins=bins,
        reference=reference,
        permutations=permutations,
        seed=seed,
        distance_masks=distance_masks,
        jobs=jobs,
    )
    run_analyze(job, as_json=as_json, quiet=quiet)


@app.command()
def series(
    out: Results,
    name: Annotated[
        list[str] | None, typer.Option("--series", metavar="NAME", help="Only this series; may be repeated.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the time, as a number.")] = None,
    time_unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="Its unit (h, min, s, d) if its name does not end with one.")
    ] = None,
    frame_interval_min: Annotated[
        float | None, typer.Option("--frame-interval", metavar="MIN", help="Minutes between consecutive frames.")
    ] = None,
    flicker_frames: Annotated[
        int, typer.Option(metavar="K", help="Area that is created and destroyed again within K frames is flicker.")
    ] = 3,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLAG",
            help="Leave out frames with this flag: area_outlier, pose_outlier or empty; may be repeated.",
        ),
    ] = None,
    smooth_frames: Annotated[
        float | None,
        typer.Option(
            "--smooth",
            metavar="FRAMES",
            help="Add smoothed columns: local lines with Gaussian weights of this standard deviation.",
        ),
    ] = None,
    movies: Annotated[int, typer.Option(help="How many series get a movie, which takes seconds.")] = 12,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Growth curves of every series: area, created, destroyed, flicker and speeds over time, with a page each."""
    from pairframe.cli.series import SeriesJob, run_series

    job = SeriesJob(
        out=out,
        series=tuple(name or ()),
        time=time,
        time_unit=time_unit,
        frame_interval_min=frame_interval_min,
        flicker_frames=flicker_frames,
        leave_out=tuple(leave_out or ()),
        smooth_frames=smooth_frames,
        movies=movies,
    )
    run_series(job, as_json=as_json, quiet=quiet)


@app.command()
def doctor(
    size: Annotated[
        str, typer.Option(help="Work grid, HEIGHTxWIDTH in pixels, for the smallest usable epsilon.")
    ] = "256x576",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    test: Annotated[bool, typer.Option(help="Compare each engine with the oracle on a small problem.")] = True,
) -> None:
    """List the engines that work here with versions, devices and limits, and test each for a second."""
    from pairframe.cli.doctor import run_doctor

    run_doctor(size, as_json, test)


def main() -> None:
    """Run the command line; an error is one line and an exit code, never a traceback."""
    tolerate_any_name()
    try:
        app()
    finally:
        _flush()


def _flush() -> None:
    """Flush now, so that a closed pipe is handled here and not reported when Python exits."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
