"""Results for other programs: an ImageJ stack and CSV. `TransportResult.save` keeps everything exactly."""

from __future__ import annotations

import csv
import io
import math
import os
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe import files
from pairframe.errors import FileError, PixelSizeError, StoreWriteError
from pairframe.results import disk
from pairframe.results.result import TransportResult
from pairframe.results.row_units import column_unit
from pairframe.results.rows import result_row
from pairframe.results.schema import BY_NAME
from pairframe.results.variables import LABELS, STRAIN_MAPS
from pairframe.units import AXES

CHANNELS = ("source", "target", "created", "destroyed", "dy", "dx", "speed")
CHANNELS_3D = (*CHANNELS[:4], "dz", *CHANNELS[4:])
_IMAGEJ_UM = (1e-9, 1e9)  # ImageJ keeps 1 / size as a ratio of two 32-bit integers
_IMAGEJ_BYTES = 4 * 2**30  # and has no file beyond this
_NOT_SCALARS = {"pair_id", "maps_group", "source", "target", "created_at", "seconds", "error"}


def export_tif(result: TransportResult, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the maps as the channels of an ImageJ stack that opens calibrated in Fiji.

    float32 channels on the canonical image: source, target, created, destroyed (mass per pixel), dy, dx, speed
    (um, NaN where unknown). Without a pixel size the stack is calibrated in pixels. A volume has dz too, and is written plane
    by plane with the distance of its planes.
    """
    import tifffile

    path = _new_path(path, (".tif", ".tiff"), overwrite)
    channels, is_volume = tif_channels(result), result.transform.is_volume
    labels = CHANNELS_3D if is_volume else CHANNELS
    size, width = result.units.px_size, result.units.px_sides[-1]
    if not _IMAGEJ_UM[0] <= size <= _IMAGEJ_UM[1] or channels.nbytes >= _IMAGEJ_BYTES:
        raise PixelSizeError(
            "a pixel size and a canvas that an ImageJ TIFF can hold",
            f"{size:g} um, {channels.nbytes / 2**30:.1f} GiB",
            "check the unit, or use save instead",
        )
    metadata: dict[str, Any] = {
        "axes": "ZCYX" if is_volume else "CYX",
        "mode": "grayscale",
        "unit": "pixel" if result.units.in_px else "micron",
        # ImageJ labels every plane of the stack.
        "Labels": list(labels) * (len(channels[0]) if is_volume else 1),
        **({"spacing": result.units.px_sides[0]} if is_volume else {}),
        "Ranges": tuple(limit for channel in channels for limit in _shown_range(channel)),
    }
    stream = io.BytesIO()
    planes = np.moveaxis(channels, 0, 1) if is_volume else channels
    resolution = (1 / width, 1 / result.units.px_sides[-2])
    tifffile.imwrite(stream, planes, imagej=True, resolution=resolution, metadata=metadata)
    _write(path, stream.getvalue())


def tif_channels(result: TransportResult) -> NDArray[np.float32]:
    """(7, Hc, Wc): the maps in the order of `CHANNELS`; (8, Zc, Yc, Xc) in the order of `CHANNELS_3D`."""
    transform, work = result.transform, result.work
    components = np.moveaxis(result.field_in_frame, -1, 0)
    maps = (
        transform.rasterize_to_canon(work.mass_source),
        transform.rasterize_to_canon(work.mass_target),
        result.mass_created,
        result.mass_destroyed,
        *components,
        reduce(np.hypot, components),
    )
    with np.errstate(over="ignore"):
        return np.stack(maps).astype(np.float32)


def export_csv(result: TransportResult, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write one line per work pixel that has mass in either mask, and beside it ``<name>_scalars.csv``.

    Numbers have all their digits; unknown ones are empty. Without a pixel size, column names end in px instead of um.
    """
    path = _new_path(path, (".csv",), overwrite)
    scalars_path = _new_path(path.with_name(f"{path.stem}_scalars.csv"), (".csv",), overwrite)
    row = result_row(result, "pair")
    is_euclidean = result.config.metric == "euclidean"
    scalars = [
        (name, value, column_unit(name, result.units, is_euclidean=is_euclidean), BY_NAME[name].meaning)
        for name, value in row.items()
        if name not in _NOT_SCALARS
    ]
    _write(scalars_path, _csv(("name", "value", "unit", "meaning"), scalars))
    columns = pixel_columns(result)
    _write(path, _csv(tuple(columns), zip(*(values.tolist() for values in columns.values()), strict=True)))


def pixel_columns(result: TransportResult) -> dict[str, NDArray[Any]]:
    """Columns (n,) with one entry per work pixel with mass: its place, its mass and its changes."""
    work, transform = result.work, result.transform
    at = np.nonzero((work.mass_source > 0) | (work.mass_target > 0))
    centre_um = transform.work_to_canon_yx(np.stack(at, axis=-1) + 0.5) * np.array(result.units.px_sides)
    velocity_um = work.velocity_px[at] * transform.work_px_size_um
    axes = AXES[transform.n_axes]
    um_per_cost = result.scales.cost_um_from_cost_work(1.0)
    unit = result.units.length
    cost = f"cost_{{}}_{unit}2" if result.scales.power == 2 else f"cost_{{}}_{unit}"
    strained = {}
    if work.strain is not None and work.local_growth_rate is not None:
        columns = (*work.strain[at].reshape(-1, 4).T, work.local_growth_rate[at])
        strained = dict(zip(LABELS[STRAIN_MAPS], columns, strict=True))
    return {
        **{f"work_{name}": places for name, places in zip(axes, at, strict=True)},
        **{f"{name}_{unit}": centre_um[:, axis] for axis, name in enumerate(axes)},
        "mass_source": work.mass_source[at],
        "mass_target": work.mass_target[at],
        "mass_created": work.mass_created[at],
        "mass_destroyed": work.mass_destroyed[at],
        **{f"d{name}_{unit}_per_frame": velocity_um[:, axis] for axis, name in enumerate(axes)},
        f"speed_{unit}_per_frame": reduce(np.hypot, velocity_um.T),
        cost.format("source"): work.cost_source[at] * um_per_cost,
        cost.format("target"): work.cost_target[at] * um_per_cost,
        **strained,
    }


# --- parts -----------------------------------------------------------------------------------


def _shown_range(channel: NDArray[np.float32]) -> tuple[float, float]:
    """Display range in ImageJ: all known values."""
    known = channel[np.isfinite(channel)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    return (low, high) if high > low else (low, low + 1.0)


def _csv(header: tuple[str, ...], lines: Any) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([_cell(value) for value in line] for line in lines)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def _new_path(path: str | os.PathLike[str], suffixes: tuple[str, ...], overwrite: bool) -> Path:
    path = files.checked_path(path, FileError)
    if path.suffix.lower() not in suffixes:
        raise FileError(f"a name that ends in {' or '.join(suffixes)}", f"{str(path)!r}", "change the name")
    if not path.parent.is_dir():
        raise StoreWriteError(
            "an existing folder to write to",
            f"{str(path.parent)!r}, which " + ("is a file" if path.parent.exists() else "does not exist"),
            "create the folder first, or correct the path",
        )
    if os.path.lexists(path) and (not overwrite or path.is_dir()):
        raise FileError("a new file", f"{str(path)!r}, which exists", "choose another name or pass overwrite=True")
    return path


def _write(path: Path, content: bytes) -> None:
    with disk.write_errors(path):
        files.replace_file(path, content)
