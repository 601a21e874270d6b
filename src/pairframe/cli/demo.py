"""`pairframe demo`: the main job on embedded defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from pairframe.errors import OutputError
from pairframe.frame import GridTransform
from pairframe.testing import tiny_and_huge_embryo

BUCKETS = [(64, 96), (64, 160), (96, 192)]


def run_demo(out: Path) -> Path:
    """Frame the tiny/huge pair, draw it, and say where the picture is."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from pairframe.report.figures import frame_overview

    with _unwritable_is_our_error(out):
        out.mkdir(parents=True, exist_ok=True)
    tiny, huge = tiny_and_huge_embryo()
    transform = GridTransform.from_pair(tiny, huge, s=4, crop_policy="bucketed", bucket_shapes=BUCKETS, px_size_um=10.0)
    typer.echo(f"source {tiny.sum()} px, target {huge.sum()} px")
    typer.echo(repr(transform))
    for name, mask in (("source", tiny), ("target", huge)):
        work = transform.to_work(mask, debug=True)
        lifted = transform.rasterize_to_canon(work, debug=True)
        typer.echo(f"{name}: {mask.sum()} on the canvas, {work.sum():g} on the work grid, {lifted.sum():g} lifted back")

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    frame_overview(transform, tiny, huge, figure.add_subplot())
    picture = out / "pair_frame.png"
    with _unwritable_is_our_error(picture):
        figure.savefig(picture, dpi=120)
    typer.echo(f"picture: {picture}")
    return picture


@contextmanager
def _unwritable_is_our_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            "a folder to write to", f"{path}: {error.strerror or error}", "choose another one with --out"
        ) from error
