"""`pairframe demo`: the main job on embedded defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pairframe.errors import OutputError
from pairframe.frame import GridTransform
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.testing import growing_embryo, tiny_and_huge_embryo

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUCKETS = [(64, 96), (64, 160), (96, 192)]
PX_SIZE_UM = 10.0


def run_demo(out: Path) -> None:
    """Frame and compare synthetic embryos, draw what was found, and say where the pictures are."""
    from pairframe.report.figures import frame_overview, result_overview

    with _unwritable_is_our_error(out):
        out.mkdir(parents=True, exist_ok=True)

    tiny, huge = tiny_and_huge_embryo()
    frame = GridTransform.from_pair(
        tiny, huge, s=4, crop_policy="bucketed", bucket_shapes=BUCKETS, px_size_um=PX_SIZE_UM
    )
    typer.echo(repr(frame))
    figure = _new_figure(11, 4.6)
    frame_overview(frame, tiny, huge, figure.add_subplot())
    pictures = [_save(figure, out / "pair_frame.png")]

    early, late = growing_embryo(6)[1:4:2]
    config = TransportConfig(px_size_um=PX_SIZE_UM, debug=True)
    for name, source, target in (("tiny_and_huge", tiny, huge), ("growing_embryo", early, late)):
        result = compare(source, target, config)
        typer.echo(f"\n{name.replace('_', ' ')}\n{result.summary()}")
        pictures.append(_save(result_overview(result, _new_figure(13, 6.5)), out / f"{name}.png"))
    typer.echo("")
    for picture in pictures:
        typer.echo(f"picture: {picture}")


def _new_figure(width: float, height: float) -> Figure:
    """A figure of that size in inches that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, picture: Path) -> Path:
    with _unwritable_is_our_error(picture):
        figure.savefig(picture, dpi=100)
    return picture


@contextmanager
def _unwritable_is_our_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            "a folder to write to", f"{path}: {error.strerror or error}", "choose another one with --out"
        ) from error
