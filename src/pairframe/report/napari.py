"""A reader for napari: a folder of results opens as layers. It needs nothing of napari itself.

napari finds it through ``pairframe/napari.yaml``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.results import TransportResult
from pairframe.results.disk import group_of_entry
from pairframe.results.schema import FAILED
from pairframe.results.store import ResultStore
from pairframe.types import Float

LayerData = tuple[NDArray[Any], dict[str, Any], str]
Reader = Callable[[str | Sequence[str]], list[LayerData]]
MAX_PAIRS = 6  # six layers each; more of them make napari's list useless
MAX_ARROWS = 2500


def napari_get_reader(path: str | os.PathLike[str] | Sequence[str]) -> Reader | None:
    """A reader for a folder of results, its ``results.parquet``, or one file of its ``maps.zarr``; None for all else."""
    if not isinstance(path, str | os.PathLike):  # a list of files to stack: results are not stacked
        return None
    return read_layers if _store_and_group(Path(path)) is not None else None


def read_layers(path: str | Sequence[str]) -> list[LayerData]:
    """Layers of every pair in a folder (of the first few in a large one), or of the one pair whose group it is."""
    found = _store_and_group(Path(path if isinstance(path, str | os.PathLike) else path[0]))
    if found is None:
        return []
    store, group = found
    table = store.table()
    table = table[table["status"] != FAILED]
    if group is not None:
        table = table[table["maps_group"] == group]
    names = [str(name) for name in table["pair_id"]]
    if len(names) > MAX_PAIRS:
        message = f"only the first {MAX_PAIRS} of {len(names)} pairs are opened; open a file in maps.zarr for another"
        warnings.warn(message, stacklevel=2)
    layers: list[LayerData] = []
    for number, pair_id in enumerate(names[:MAX_PAIRS]):
        prefix = f"{pair_id[:60]}: " if len(names) > 1 else ""
        layers += result_layers(store.load(pair_id), prefix=prefix, visible=number == 0, pair_id=pair_id)
    return layers


def result_layers(
    result: TransportResult, *, prefix: str = "", visible: bool = True, pair_id: str | None = None
) -> list[LayerData]:
    """A result as napari layers on the canonical image, in um.

    Returns
    -------
    list of (data, properties, kind): source and target (labels; images when masses are intensities), created and destroyed
    (images, mass per pixel), displacement (vectors, only where it is known) and, if computed, areal expansion, anisotropy and
    local growth rate (images, hidden at first). Where lengths are in pixels the scale is 1.
    """
    transform, work = result.transform, result.work
    scale = result.units.px_sides
    metadata = {"pair_id": pair_id, "status": str(result.status), "advice": result.status.advice}
    is_mask = result.config.mass.is_area

    def properties(name: str, unit: str, **more: Any) -> dict[str, Any]:
        return {
            "name": prefix + name,
            "scale": scale,
            "visible": visible,
            "metadata": {**metadata, "unit": unit},
            **more,
        }

    layers: list[LayerData] = []
    # Numbers that give the two masks different colours as labels.
    for label, (name, mass_work) in enumerate((("source", work.mass_source), ("target", work.mass_target)), start=1):
        mass = transform.rasterize_to_canon(mass_work)
        if is_mask:
            labels = np.where(mass > 0, label, 0).astype(np.uint8)
            layers.append((labels, properties(name, "label", opacity=0.4), "labels"))
        else:
            layers.append((mass, properties(name, "mass per pixel", opacity=0.5, colormap="gray"), "image"))
    top = (
        max(float(work.mass_source.max()), float(work.mass_target.max()))
        / transform.downsample_factor**transform.n_axes
    )
    for name, mass, colours in (
        ("created", result.mass_created, "green"),
        ("destroyed", result.mass_destroyed, "bop orange"),
    ):
        look: dict[str, Any] = {"colormap": colours, "blending": "additive", "contrast_limits": (0.0, top)}
        layers.append((mass, properties(name, "mass per pixel", **look), "image"))
    look = {"edge_width": 0.3, "length": 1.0, "edge_color": "white", "vector_style": "arrow"}
    layers.append((displacement_vectors(result), properties("displacement", "px", **look), "vectors"))
    if work.strain is not None:
        for name, values in (
            ("areal expansion", result.areal_expansion),
            ("anisotropy", result.anisotropy),
            ("local growth rate", result.local_growth_rate),
        ):
            layers.append((values, {**properties(name, "1", colormap="twilight_shifted"), "visible": False}, "image"))
    return layers


def displacement_vectors(result: TransportResult) -> Float:
    """(N, 2, 2) start and displacement as (y, x) in canonical px, centres of pixels at integers; every k-th where known.

    Of a volume (N, 2, 3), in voxels along each axis.
    """
    known = result.velocity_valid
    step = 1
    while True:
        every = tuple(slice(step // 2, None, step) for _ in known.shape)
        if np.count_nonzero(known[every]) <= MAX_ARROWS:
            break
        step += 1
    starts = np.argwhere(known[every]) * step + step // 2
    shifts = result.field_in_frame[tuple(starts.T)] / np.array(result.units.px_sides)
    return np.stack([starts.astype(np.float64), shifts], axis=1)


def _store_and_group(path: Path) -> tuple[ResultStore, str | None] | None:
    """The store that a path belongs to, and the group when it is one of its groups."""
    if path.name in ("results.parquet", "maps.zarr"):
        path = path.parent
    group = None
    if path.parent.name == "maps.zarr" and (group := group_of_entry(path.name)) is not None:
        path = path.parent.parent
    store = ResultStore(path)
    return (store, group) if store.exists() and store.maps_path.is_dir() else None
