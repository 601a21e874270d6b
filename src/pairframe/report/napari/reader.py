"""A reader for napari: results open as layers. It needs nothing of napari itself.

napari finds it through ``pairframe/napari.yaml``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from pairframe.report.napari.layers import LayerData, LayerMaps, layer_maps, stacked_layers
from pairframe.results.disk import group_of_entry
from pairframe.results.schema import FAILED
from pairframe.results.store import ResultStore

Reader = Callable[[str | Sequence[str]], list[LayerData]]
MAX_PAIRS = 6  # on different canvases: five layers each, and more of them make napari's list useless
MAX_SLIDER_PX = 50_000_000  # of all canvases under one slider: 10 bytes each


def napari_get_reader(path: str | os.PathLike[str] | Sequence[str]) -> Reader | None:
    """A reader for ``results.parquet``, its folder, or one file of its ``maps.zarr``; None for all else."""
    if not isinstance(path, str | os.PathLike):  # a list of files to stack: results are not stacked
        return None
    return read_layers if _store_and_group(Path(path)) is not None else None


def read_layers(path: str | Sequence[str]) -> list[LayerData]:
    """Layers of the pairs in a folder, or of the one pair whose group it is.

    Pairs that share a canvas share layers with a slider. Otherwise each of the first few has its own layers, and only the first
    pair, on top, is visible.
    """
    found = _store_and_group(Path(path if isinstance(path, str | os.PathLike) else path[0]))
    if found is None:
        return []
    store, group = found
    table = store.table()
    table = table[table["status"] != FAILED]
    if group is not None:
        table = table[table["maps_group"] == group]
    names = [str(name) for name in table["pair_id"]]
    if not names:
        return []
    pairs = _pairs_that_fit(store, names)
    if len(pairs) < len(names):
        message = f"only the first {len(pairs)} of {len(names)} pairs are opened; open a file in maps.zarr for another"
        warnings.warn(message, stacklevel=2)
    if len({pair.canvas for pair in pairs}) == 1:
        return stacked_layers(pairs)
    layers: list[LayerData] = []
    for number, (pair, name) in enumerate(zip(pairs, names, strict=False)):
        layers = stacked_layers([pair], prefix=f"{name[:60]}: ", visible=number == 0) + layers
    return layers


def _pairs_that_fit(store: ResultStore, names: list[str]) -> list[LayerMaps]:
    """The first pairs: all that one slider can have, or `MAX_PAIRS` if their canvases differ."""
    pairs: list[LayerMaps] = []
    n_px, is_mixed = 0, False
    for name in names:
        pair = layer_maps(store.load(name), name)
        n_px += pair.images["source"].size
        is_mixed = is_mixed or (bool(pairs) and pair.canvas != pairs[0].canvas)
        if pairs and (n_px > MAX_SLIDER_PX or (is_mixed and len(pairs) >= MAX_PAIRS)):
            break
        pairs.append(pair)
    return pairs[:MAX_PAIRS] if is_mixed else pairs


def _store_and_group(path: Path) -> tuple[ResultStore, str | None] | None:
    """The store that a path belongs to, and the group when it is one of its groups."""
    if path.name in ("results.parquet", "maps.zarr"):
        path = path.parent
    group = None
    if path.parent.name == "maps.zarr" and (group := group_of_entry(path.name)) is not None:
        path = path.parent.parent
    store = ResultStore(path)
    return (store, group) if store.exists() and store.maps_path.is_dir() else None
