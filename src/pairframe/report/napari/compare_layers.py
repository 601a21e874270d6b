"""Compare layers of napari: their data and scale come in, results and layers go out. Nothing of napari itself is needed."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairframe.engines import TraceRecord
from pairframe.errors import ArgumentError
from pairframe.notices import Notice
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.report.napari.layers import STRAIN_MAPS, LayerData, LayerMaps, layer_maps, stacked_layers
from pairframe.results import TransportResult
from pairframe.units import PxSize

# Micrometres in the units that layers have; those of other layers are pixels.
_UM_IN = {
    "micrometer": 1.0,
    "micron": 1.0,
    "um": 1.0,
    "nanometer": 1e-3,
    "nm": 1e-3,
    "millimeter": 1e3,
    "mm": 1e3,
    "meter": 1e6,
}
_NEW_LAYERS = ("created", "destroyed", "displacement", "areal expansion", "anisotropy", "local growth rate")


class Layer(Protocol):
    """What is needed of a napari layer: (..., H, W) data, and its place in the world."""

    name: str
    data: Any
    scale: Any
    translate: Any


class CancelledError(Exception):
    """The user does not want the result any more."""


@dataclass
class Job:
    """Progress and the wish to stop, shared between the thread that compares and the one that shows."""

    n_pairs: int
    tol: float
    done: int = 0
    _part: float = 0.0
    _first_error: float = math.nan
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def fraction(self) -> float:
        """Of all pairs, from 0 to 1; within a pair, by how far its marginal error has come down."""
        return min(1.0, (self.done + self._part) / self.n_pairs)

    def cancel(self) -> None:
        """Stop at the next iteration."""
        self._cancelled.set()

    def iterated(self, record: TraceRecord) -> None:
        """Called during a solve."""
        if self._cancelled.is_set():
            raise CancelledError
        error = record.marginal_error
        if math.isnan(self._first_error):
            self._first_error = error
        if 0 < error < math.inf and self._first_error > self.tol:
            part = math.log(self._first_error / error) / math.log(self._first_error / self.tol)
            self._part = max(self._part, min(0.95, part))

    def finished_one(self) -> None:
        """Called after each pair."""
        self.done, self._part, self._first_error = self.done + 1, 0.0, math.nan
        if self._cancelled.is_set():
            raise CancelledError


def pixel_size_um(layer: Layer) -> float | None:
    """Side of a pixel in um by the scale and units of a layer; None if it has no unit of length.

    A scale other than 1 without a unit is taken for um, as most programs mean it.
    """
    y, x = (float(value) for value in layer.scale[-2:])
    if not math.isclose(y, x, rel_tol=1e-3):
        fix = "rescale the image to square pixels first"
        raise ArgumentError("square pixels", f"{y:g} by {x:g} in layer {layer.name!r}", fix)
    unit = str(tuple(getattr(layer, "units", ("pixel",)))[-1])
    if unit in _UM_IN:
        return x * _UM_IN[unit]
    return None if x == 1.0 else x


def voxel_size_um(layer: Layer, px_size_um: float | None) -> PxSize | None:
    """Sides (z, y, x) of a voxel in um: those of the layer, for pixels of the given width; None without one."""
    z, y, x = (float(value) for value in layer.scale[-3:])
    return None if px_size_um is None else (px_size_um * z / x, px_size_um * y / x, px_size_um)


def is_area(data: Any) -> bool:
    """Whether an image has only two values, and so is a mask."""
    data = np.asarray(data)
    if data.dtype == bool:
        return True
    low, high = data.min(), data.max()
    return bool(((data == low) | (data == high)).all()) and low == 0


def plane(layer: Layer, step: Sequence[int] = (), n_axes: int = 2) -> NDArray[Any]:
    """(H, W) of a layer at a position (..., ) of its other axes; with three axes, the volume (Z, Y, X)."""
    data = layer.data
    n_other = len(data.shape) - n_axes
    if getattr(layer, "rgb", False) or len(data.shape) < 2:
        raise ArgumentError("an image with one channel", f"layer {layer.name!r} in colour", "use a layer of labels")
    if n_other < 0:
        got = f"layer {layer.name!r} of shape {tuple(data.shape)}"
        raise ArgumentError("a volume (Z, Y, X)", got, "choose another layer, or untick the box volume")
    at = [0] * n_other
    for axis, position in enumerate(list(step)[-n_other:] if n_other else []):
        at[axis] = min(max(int(position), 0), data.shape[axis] - 1)
    return np.asarray(data[tuple(at)])


def frame_pairs(layer: Layer, n_axes: int = 2) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Each frame of a (T, H, W) layer with the next; with three axes, each volume of a (T, Z, Y, X) layer."""
    if len(layer.data.shape) != n_axes + 1 or layer.data.shape[0] < 2:
        got = f"layer {layer.name!r} of shape {tuple(layer.data.shape)}"
        if n_axes == 2:
            fix = "choose another layer as target, or tick the box volume if its frames are volumes"
            raise ArgumentError("a layer of frames over time (T, H, W)", got, fix)
        fix = "choose another layer as target, or untick the box volume"
        raise ArgumentError("a layer of volumes over time (T, Z, Y, X)", got, fix)
    frames = [np.asarray(layer.data[t]) for t in range(layer.data.shape[0])]
    return list(pairwise(frames))


def as_masses(
    pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], *, are_labels: bool, label: int = 0
) -> tuple[list[tuple[NDArray[Any], NDArray[Any]]], str]:
    """Masks and the mass mode: one label or all of them, an image of two values, or brightness."""
    if are_labels:
        return [tuple(one == label if label else one != 0 for one in pair) for pair in pairs], "uniform"
    if all(is_area(one) for pair in pairs for one in pair):
        return [(a != 0, b != 0) for a, b in pairs], "uniform"
    return list(pairs), "intensity"


def compare_pairs(
    pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], config: TransportConfig, job: Job
) -> list[TransportResult]:
    """Compare one pair after the other; `CancelledError` if the job was cancelled."""
    results = []
    for source, target in pairs:
        results.append(compare(source, target, config, progress=job.iterated))
        job.finished_one()
    return results


def new_layers(results: Sequence[TransportResult], source: Layer, prefix: str = "") -> list[LayerData]:
    """The layers to add over the source: all but the masks, which are there. Several pairs lie along its first axis."""
    maps = [layer_maps(result, f"{source.name} {k} to {k + 1}") for k, result in enumerate(results)]
    # Alignment may have extended the canvas of a pair, by rows above and columns to the left of the source's first pixel.
    own = results[0].transform.n_axes
    before = [(0,) * own if result.pose is None else result.pose.source_canvas.origin_yx for result in results]
    maps, first = _on_one_canvas(maps, before)
    n_axes = own + 1 if len(results) > 1 else own
    scale, translate = np.array(source.scale[-n_axes:], float), np.array(source.translate[-n_axes:], float)
    translate[-own:] -= scale[-own:] * first
    place: dict[str, Any] = {"scale": tuple(scale), "translate": tuple(translate)}
    if hasattr(source, "units"):
        place["units"] = tuple(source.units[-n_axes:])
    wanted = {prefix + name for name in _NEW_LAYERS}
    layers = stacked_layers(maps, prefix=prefix)
    return [(data, {**look, **place}, kind) for data, look, kind in layers if look["name"] in wanted]


def _on_one_canvas(
    maps: Sequence[LayerMaps], before: Sequence[tuple[int, ...]]
) -> tuple[list[LayerMaps], NDArray[np.integer]]:
    """The same maps on the smallest canvas that holds all of theirs, and the pixels along each axis before the source's first."""
    starts = np.array(before)
    ends = np.array([one.images["created"].shape for one in maps]) - starts
    first, last = starts.max(axis=0), ends.max(axis=0)
    placed = []
    for one, start, end in zip(maps, starts, ends, strict=True):
        around = list(zip(first - start, last - end, strict=True))
        images = {
            name: np.pad(image, around, constant_values=np.nan if name in STRAIN_MAPS else 0)
            for name, image in one.images.items()
        }
        arrows = replace(one.arrows, starts_yx=one.arrows.starts_yx + (first - start))
        placed.append(replace(one, images=images, arrows=arrows))
    return placed, first


def words(results: Sequence[TransportResult]) -> str:
    """What a person wants to know first."""
    if len(results) == 1:
        (result,) = results
        return repr(result).removeprefix("TransportResult(").removesuffix(")")
    return "\n".join(
        f"{k} to {k + 1}: {repr(result).partition(': ')[2].removesuffix(')')}" for k, result in enumerate(results)
    )


def notices_of(results: Sequence[TransportResult]) -> list[tuple[Notice, str]]:
    """One notice of each kind, and a sentence that counts the pairs that have it."""
    by_code: dict[str, list[Notice]] = {}
    for result in results:
        for notice in result.notices:
            by_code.setdefault(notice.code, []).append(notice)
    several = len(results) > 1
    return [
        (found[0], f"in {len(found)} of {len(results)} pairs: {found[0]}" if several else str(found[0]))
        for found in by_code.values()
    ]
