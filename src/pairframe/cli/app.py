"""The `pairframe` command: each subcommand loads what it needs when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pairframe import __version__
from pairframe.cli.options import with_config_options
from pairframe.cli.terminal import exit_codes, tolerate_any_name
from pairframe.problem import TransportConfig


class _Commands(TyperGroup):
    """All commands end the same way."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if not args:
            return super().make_context(info_name, args, parent, **extra)  # shows the help
        with exit_codes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        with exit_codes():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    help="Compare image masks by unbalanced optimal transport.",
    epilog="Exit codes: 0 all good, 1 some pairs failed or are not certified, 2 bad input or usage, 130 Ctrl-C.",
)


def _folder(words: str) -> Path:
    """Python takes an empty name, which a script may give by mistake, for the folder one is in."""
    if not str(words).strip():
        raise typer.BadParameter("it is empty; give the path of a folder, or . for the folder you are in")
    return Path(words)


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but errors, and what is not converged or empty.")
]
Results = Annotated[Path, typer.Argument(metavar="DIR", parser=_folder, help="Folder with results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else, on standard output.")]


def _print_version(asked: bool) -> None:
    if asked:
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
def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=_folder, help="Folder to write to; made when missing.")
    ] = Path("pairframe-demo"),
    quiet: Quiet = False,
) -> None:
    """Compare synthetic embryos, a tiny one with a huge one and six frames of growth, and write a report."""
    from pairframe.cli.demo import run_demo

    run_demo(out, quiet=quiet)


@app.command()
@with_config_options
def compare(
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="Source mask: a path, then @PAGE and :LABEL where needed.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TGT", help="Target mask on the same canvas, e.g. labels.tif:3 or stack.tif@4:all.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", parser=_folder, help="Folder to write to; made when missing.")],
    config: TransportConfig,
    pair_id: Annotated[str, typer.Option(help="Name of the pair in the store.")] = "pair",
    frame_interval: Annotated[
        float | None, typer.Option(metavar="MIN", help="Minutes between the frames: speeds in µm/min as well.")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Write into a folder that is not empty: replaces the pair of that name, the report and the summary.* and "
            "movie.gif of the pair before; other pairs and files stay.",
        ),
    ] = False,
    report: Annotated[bool, typer.Option(help="Draw the report, a figure and a movie.")] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare two masks: what was created, destroyed and moved, in a store, a figure, a movie and a report."""
    from pairframe.cli.compare import CompareJob, run_compare

    job = CompareJob(source, target, out, config, pair_id, frame_interval, overwrite, report)
    run_compare(job, as_json=as_json, quiet=quiet)


@app.command()
def report(
    out: Results,
    title: Annotated[str | None, typer.Option(help="Heading; the folder's name when not given.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write report.html and a page per pair from the results in a folder."""
    from pairframe.cli.report import run_report

    run_report(out, title, quiet)


@app.command()
@with_config_options
def run(
    manifest: Annotated[
        list[str],
        typer.Argument(
            metavar="MANIFEST",
            help="Table of pairs or frames (csv, tsv, parquet), folder of frames, pattern in quotes ('masks/*.png'), or "
            "label tif. Pairs of frames are called SERIES_FRAME-FRAME: masks/embryo1/t000.png and t001.png are "
            "embryo1_000-001.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", parser=_folder, help="Folder to write to; made when missing, gone on with when it is a run."
        ),
    ],
    config: TransportConfig,
    pairing: Annotated[
        str, typer.Option(help="Of frames: consecutive, reference, reference:FRAME, all, or every:K.")
    ] = "consecutive",
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core when not given.")] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler to run on instead.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try pairs again that failed before.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell pairs, sizes, memory and time; write nothing.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write into a folder that holds something else.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Write the report at the end.")] = True,
    frame_interval: Annotated[
        float | None,
        typer.Option(
            metavar="MIN",
            help="Minutes from one frame of a series to the next: the table gets the minutes of each pair.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compare all pairs of a cohort; run again to go on where it stopped."""
    from pairframe.cli.run import RunJob, one_manifest, run_run

    job = RunJob(
        one_manifest(manifest), out, config, pairing, jobs, dask, retry_failed, overwrite, report, frame_interval
    )
    run_run(job, dry_run=dry_run, quiet=quiet)


@app.command()
def analyze(
    out: Results,
    group: Annotated[str | None, typer.Option(help="Column of what is compared.")] = None,
    time: Annotated[str | None, typer.Option(help="Column with the time, a number.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Column of what was sampled independently; pair_id: every pair.")
    ] = None,
    bins: Annotated[int | None, typer.Option(help="Time bins of equal width.")] = None,
    reference: Annotated[str | None, typer.Option(help="Group that the others are compared with.")] = None,
    permutations: Annotated[int, typer.Option(help="Labellings to try; all of them when there are no more.")] = 5000,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    distance_masks: Annotated[int, typer.Option(help="Masks in the matrix of distances; 0 leaves it out.")] = 24,
    jobs: Annotated[int | None, typer.Option(help="Processes for the distances; one per core when not given.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare the groups of a cohort: mean fields, deviations, permutation tests, hot spots, distances."""
    from pairframe.cli.analyze import AnalyzeJob, run_analyze

    job = AnalyzeJob(out, group, time, unit, bins, reference, permutations, seed, distance_masks, jobs)
    run_analyze(job, as_json=as_json, quiet=quiet)


@app.command()
def doctor(
    size: Annotated[
        str, typer.Option(help="Work grid, HEIGHTxWIDTH in pixels, for which the smallest usable epsilon is told.")
    ] = "256x576",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    test: Annotated[bool, typer.Option(help="Hold each engine against the oracle on a small problem.")] = True,
) -> None:
    """Tell which engines work here, their versions, devices and limits, and test each of them for a second."""
    from pairframe.cli.doctor import run_doctor

    run_doctor(size, as_json, test)


@app.command()
def bench(
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=_folder, help="Folder to write to; made when missing.")
    ] = Path("pairframe-bench"),
    quick: Annotated[bool, typer.Option("--quick", help="Three minutes instead of half an hour.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="NAME[,NAME...]", help="Peers to run against; all that are installed.")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Measure only races, compare, curves, memory or scripts again, and keep the rest."
        ),
    ] = None,
    scripts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The repository's folder of benchmarks, to run its longer scripts as well."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Measure time to a certified answer, memory and scaling here, against the peers that are installed."""
    from pairframe.cli.bench.command import run_bench

    run_bench(out, quick=quick, only=only, part=part, scripts=scripts, quiet=quiet)


def main() -> None:
    """Run the command line; what goes wrong is one clear line and an exit code, never a traceback."""
    tolerate_any_name()
    try:
        app()
    finally:
        _flush()


def _flush() -> None:
    """Now, so that a closed pipe is noticed here and not, with a complaint, when Python ends."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
