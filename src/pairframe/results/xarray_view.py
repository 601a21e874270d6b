"""A result as an `xarray.Dataset`, as in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pairframe import checks
from pairframe.results.result import TransportResult
from pairframe.results.variables import ALL_COORDINATES, attributes_of, variables_of

if TYPE_CHECKING:
    import xarray as xr


def to_xarray(result: TransportResult) -> xr.Dataset:
    """All maps with dimensions, coordinates (centres of pixels) and units.

    The names ``y_um``, ``x_um`` are always the same; their units are px if no pixel size is known.

    Returns
    -------
    Dataset with (y_um, x_um) maps on the canonical image, or (z_um, y_um, x_um) of a volume; ``work_maps`` (10, Hw, Ww), all
    maps on the work grid, whose attribute ``labels`` names what lies along the first dimension; scalars and provenance as
    attributes. Its ``plot()`` draws the masses as images, and that of one map, such as ``maps.mass_created.plot()``, the map.
    """
    checks.library("xarray", "xarray", "to_xarray")
    from pairframe.results.xarray_plot import Maps

    arrays = {v.name: (v.dims, v.values, v.attributes) for v in variables_of(result)}
    coordinates = {name: arrays.pop(name) for name in ALL_COORDINATES if name in arrays}
    return Maps(arrays, coordinates, attributes_of(result))
