"""A lineage for other programs: the layout of the Cell Tracking Challenge, and GEFF, the graph exchange file format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe import files
from pairframe.errors import FileError, OutputError
from pairframe.regions.lineage import Lineage
from pairframe.results import disk

_GEFF_VERSION = "1.1"


def write_ctc(lineage: Lineage, folder: str | os.PathLike[str]) -> Path:
    """Write ``maskNNN.tif``, one image of track numbers per frame, and ``res_track.txt`` with a line per track.

    A line is ``L B E P``: track, first frame, last frame, parent track or 0. The format has no fusions: a fused object is the
    child of the parent that gave it most mass.

    Parameters
    ----------
    folder : path
        A new folder.
    """
    import tifffile

    if len(lineage.tracks) > np.iinfo(np.uint16).max:
        raise OutputError(
            "at most 65535 tracks, as the format has 16-bit images", f"{len(lineage.tracks)}", "use write_geff instead"
        )
    out = _new_folder(folder)
    digits = max(3, len(str(len(lineage.frames) - 1)))
    with disk.write_errors(out):
        for frame, image in enumerate(lineage.track_images()):
            tifffile.imwrite(out / f"mask{frame:0{digits}d}.tif", image.astype(np.uint16), compression="zlib")
        lines = [" ".join(map(str, row)) for row in lineage.tracks.to_numpy().tolist()]
        files.replace_file(out / "res_track.txt", "".join(f"{line}\n" for line in lines).encode())
    return out


def write_geff(lineage: Lineage, folder: str | os.PathLike[str]) -> Path:
    """Write a graph with one node per object and frame and one directed edge per link, with the shares that support it.

    It is a Zarr folder as the specification of the format, version 1.1, describes it: ``nodes/ids``,
    ``edges/ids`` and ``props/NAME/values`` under both.

    Parameters
    ----------
    folder : path
        A new folder, such as ``lineage.geff``.
    """
    import zarr

    objects, links = lineage.objects, lineage.links
    ids = np.arange(len(objects), dtype=np.uint64)
    node_of = {
        key: number for number, key in enumerate(zip(objects["frame"].tolist(), objects["label"].tolist(), strict=True))
    }
    ends = [
        (node_of[frame, source], node_of[frame + 1, target])
        for frame, source, target in zip(
            *(links[name].tolist() for name in ("frame", "source_label", "target_label")), strict=True
        )
    ]
    node_props = {
        name: objects[name].to_numpy() for name in ("label", "track", "area_um2", "growth_rate", "dy_um", "dx_um")
    }
    node_props |= {"t": objects["frame"].to_numpy(), "y": objects["y_um"].to_numpy(), "x": objects["x_um"].to_numpy()}
    edge_props = {
        name: links[name].to_numpy() for name in ("mass", "share_of_source", "share_of_target", "distance_um")
    }
    out = _new_folder(folder)
    length = "pixel" if lineage.units.in_px else "micrometer"
    with disk.write_errors(out):
        root = zarr.open_group(str(out), mode="w", zarr_format=2)
        _write_part(root.create_group("nodes"), ids, node_props)
        _write_part(root.create_group("edges"), np.array(ends, dtype=np.uint64).reshape(-1, 2), edge_props)
        root.attrs["geff"] = {
            "geff_version": _GEFF_VERSION,
            "directed": True,
            "axes": [
                _axis("t", "time", "frame", node_props["t"]),
                _axis("y", "space", length, node_props["y"]),
                _axis("x", "space", length, node_props["x"]),
            ],
            "node_props_metadata": {name: _about(name, values) for name, values in node_props.items()},
            "edge_props_metadata": {name: _about(name, values) for name, values in edge_props.items()},
        }
    return out


def _write_part(group: Any, ids: NDArray[np.uint64], props: dict[str, NDArray[Any]]) -> None:
    group.create_array("ids", data=ids)
    parts = group.create_group("props")
    for name, values in props.items():
        prop = parts.create_group(name)
        if values.dtype.kind == "f" and np.isnan(values).any():
            prop.create_array("missing", data=np.isnan(values))
            values = np.nan_to_num(values)
        prop.create_array("values", data=values)


def _axis(name: str, kind: str, unit: str, values: NDArray[Any]) -> dict[str, Any]:
    ends = {"min": float(values.min()), "max": float(values.max())} if len(values) else {}
    return {"name": name, "type": kind, "unit": unit, **ends}


def _about(name: str, values: NDArray[Any]) -> dict[str, Any]:
    return {"identifier": name, "dtype": str(values.dtype)}


def _new_folder(folder: str | os.PathLike[str]) -> Path:
    out = files.checked_path(folder, FileError)
    with disk.write_errors(out):
        try:
            out.mkdir(parents=True)
        except FileExistsError:
            raise FileError("a new folder", f"{str(out)!r}, which exists", "choose another name") from None
    return out
