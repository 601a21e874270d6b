"""Options that name the columns of a table of frames, for `run` and `align`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pairframe.cohort import ColumnMap

_PANEL = "Columns of a table"


def _column(words: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="COLUMN", help=words, rich_help_panel=_PANEL)
    return option


MaskColumn = Annotated[
    str | None,
    _column("Masks: paths, or COCO run lengths. Default: path, else mask. Columns may be named in a .toml too."),
]
SeriesColumn = Annotated[str | None, _column("Series. Default: series.")]
FrameColumn = Annotated[str | None, _column("Frame numbers or names. Default: frame, else time.")]
PxSizeColumn = Annotated[str | None, _column("Side of a pixel, µm. Default: px_size_um.")]
HeightUmColumn = Annotated[
    str | None, _column("Height of the image, µm, instead: the pixel size is this over its height in pixels.")
]
HeightPxColumn = Annotated[
    str | None, _column("Height of the image, pixels, for run lengths and outlines. Default: height_px.")
]
WidthPxColumn = Annotated[str | None, _column("Width of the image, pixels. Default: width_px.")]


def column_map(options: Mapping[str, Any], structures: Sequence[str] = ()) -> ColumnMap:
    """The columns that the options of these names give, such as ``mask_column``."""
    from pairframe.cohort import ColumnMap

    roles = {"px_size": "px_size_um"}
    named = {name.removesuffix("_column"): value for name, value in options.items() if name.endswith("_column")}
    return ColumnMap(**{roles.get(role, role): name for role, name in named.items()}, structures=tuple(structures))
