"""Maps as xarray objects whose `plot` shows an image as an image: y downwards, and pixels that are square.

xarray itself draws y upwards, as in a graph. Everything else about these objects is xarray's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import xarray as xr
from xarray.plot.accessor import DataArrayPlotAccessor, DatasetPlotAccessor

IMAGE_DIMS = (("y_um", "x_um"), ("work_y_um", "work_x_um"))
SHOWN = ("mass_source", "mass_target", "mass_created", "mass_destroyed")
PANEL_IN = 4.5  # wide


class MapPlot(DataArrayPlotAccessor):
    """``map.plot()`` of an image; methods such as ``map.plot.hist()`` are those of xarray."""

    def __call__(self, **options: Any) -> Any:  # type: ignore[override]
        """As `xarray.DataArray.plot`, for images the right way up and with an equal aspect."""
        dims = tuple(self._da.dims)
        is_image = dims in IMAGE_DIMS or (dims[-2:] in IMAGE_DIMS and {"row", "col"} & options.keys())
        if not is_image or "x" in options or "y" in options:
            return super().__call__(**options)
        drawn = super().__call__(**{"yincrease": False, **options})
        axes = getattr(drawn, "axs", None)  # several panels
        for ax in [drawn.axes] if axes is None and hasattr(drawn, "axes") else axes.flat if axes is not None else []:
            ax.set_aspect("equal")
        return drawn


class MapsPlot(DatasetPlotAccessor):
    """``maps.plot()``; methods such as ``maps.plot.scatter()`` are those of xarray."""

    def __call__(self, names: Iterable[str] = SHOWN, **options: Any) -> Any:
        """Draw several maps side by side, by default the masses: source, target, created, destroyed. Returns the axes."""
        import matplotlib.pyplot as plt

        maps = [self._ds[name] for name in names]
        shown = [one if one.ndim == 2 else one.sum(one.dims[:-2], keep_attrs=True) for one in maps]
        h, w = shown[0].shape[-2:]
        columns = 2 if len(shown) > 1 else 1
        rows = -(-len(shown) // columns)
        size = (PANEL_IN * columns, (PANEL_IN * min(max(h / w, 0.4), 1.5) + 0.5) * rows)
        _, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
        for ax in axes.flat[len(shown) :]:
            ax.remove()
        for one, ax in zip(shown, axes.flat, strict=False):
            one.plot(ax=ax, **options)
            ax.set_title(str(one.name) + ("" if maps[0].ndim == 2 else ", summed over depth"))
        return axes


class Map(xr.DataArray):  # type: ignore[no-untyped-call]
    """One map, drawn as an image."""

    __slots__ = ()

    @property
    def plot(self) -> MapPlot:  # type: ignore[override]
        """Draw it."""
        return MapPlot(self)


class Maps(xr.Dataset):  # type: ignore[no-untyped-call]
    """The maps of a result, drawn as images."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Map(found) if type(found) is xr.DataArray else found

    @property
    def plot(self) -> MapsPlot:  # type: ignore[override]
        """Draw the masses, or the maps that are named."""
        return MapsPlot(self)


def as_maps(dataset: xr.Dataset, attributes: Mapping[str, Any]) -> Maps:
    """The same dataset with other attributes, drawn as images; it stays lazy, and closing it closes the files."""
    maps = Maps(dataset.data_vars, dataset.coords, attributes)
    maps.set_close(dataset.close)
    return maps
