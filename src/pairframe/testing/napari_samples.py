"""Sample data for napari's *File, Open Sample*: masks to try the widget on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.report.style import SOURCE_COLOUR, TARGET_COLOUR
from pairframe.testing.shapes import growing_embryo

LayerData = tuple[NDArray[Any], dict[str, Any], str]
PX_SIZE_UM = 10.0


def two_embryos() -> list[LayerData]:
    """An embryo early and late, as two layers of labels."""
    frames = growing_embryo(6)
    place = {"scale": (PX_SIZE_UM, PX_SIZE_UM), "units": ("um", "um")}
    return [
        (frames[k].astype(np.uint8), {"name": name, "colormap": {1: colour, None: "transparent"}, **place}, "labels")
        for k, name, colour in ((1, "embryo, early", SOURCE_COLOUR), (3, "embryo, late", TARGET_COLOUR))
    ]


def embryo_series() -> list[LayerData]:
    """The same embryo as one layer of labels with a time axis."""
    frames = np.stack(growing_embryo(6)).astype(np.uint8)
    place = {"scale": (1.0, PX_SIZE_UM, PX_SIZE_UM), "units": ("pixel", "um", "um"), "axis_labels": ("time", "y", "x")}
    return [(frames, {"name": "embryo over time", **place}, "labels")]
