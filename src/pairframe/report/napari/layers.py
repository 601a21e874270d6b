"""Results as napari layers: plain tuples of data, properties and kind. Nothing of napari itself is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.report.figures.arrows import Arrows, sample_objects
from pairframe.report.style import CREATED_COLOUR, DESTROYED_COLOUR, SOURCE_COLOUR, TARGET_COLOUR, rgb
from pairframe.results import TransportResult
from pairframe.types import Float
from pairframe.units import Units

LayerData = tuple[NDArray[Any], dict[str, Any], str]
N_ARROWS = 280  # of a pair, about: more of them hide the image
N_VOLUME_ARROWS = 2500  # of a volume, at most: one plane shows few of them
LEAST_STEP_PX = 2.0  # between two arrows
STEPS_PER_WIDTH = 7.0  # an arrow is this much thinner than the step to the next: 1 px wide for an embryo of 15,000 px
STRAIN_MAPS = {
    "areal expansion": "areal_expansion",
    "anisotropy": "anisotropy",
    "local growth rate": "local_growth_rate",
}


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """What napari shows of one pair: (H, W) or (D, H, W) arrays by the name of their layer, and arrows.

    Attributes
    ----------
    largest_mass : float
        The most mass in a pixel, of both masks: the end of the scale for created and destroyed mass.
    """

    images: dict[str, NDArray[Any]]
    arrows: Arrows
    arrow_step_px: float
    is_mask: bool
    units: Units
    largest_mass: float
    metadata: dict[str, Any]

    @property
    def canvas(self) -> tuple[Any, ...]:
        """Pairs that agree in it can share layers, with a slider."""
        return (next(iter(self.images.values())).shape, self.units.px_size_um, self.is_mask, tuple(self.images))


def layer_maps(result: TransportResult, pair_id: str | None = None) -> LayerMaps:
    """The maps of a result on the canonical image."""
    transform, work = result.transform, result.work
    is_mask = result.config.mass.is_area
    images: dict[str, NDArray[Any]] = {}
    # Numbers that give the two masks different colours as labels.
    for label, (name, mass_work) in enumerate((("source", work.mass_source), ("target", work.mass_target)), start=1):
        mass = transform.rasterize_to_canon(mass_work)
        images[name] = np.where(mass > 0, label, 0).astype(np.uint8) if is_mask else mass.astype(np.float32)
    images["created"] = result.mass_created.astype(np.float32)
    images["destroyed"] = result.mass_destroyed.astype(np.float32)
    if work.strain is not None:
        images |= {name: getattr(result, attribute).astype(np.float32) for name, attribute in STRAIN_MAPS.items()}
    arrows, step = _arrows(result)
    largest = max(float(work.mass_source.max()), float(work.mass_target.max()))
    return LayerMaps(
        images=images,
        arrows=arrows,
        arrow_step_px=step,
        is_mask=is_mask,
        units=result.units,
        largest_mass=largest / transform.downsample_factor**transform.n_axes,
        metadata={"pair_id": pair_id, "status": str(result.status), "advice": result.status.advice},
    )


def result_layers(
    result: TransportResult, *, prefix: str = "", visible: bool = True, pair_id: str | None = None
) -> list[LayerData]:
    """A result as napari layers on the canonical image, in um.

    Returns
    -------
    list of (data, properties, kind), from the bottom to the top: if computed, areal expansion, anisotropy and local growth
    rate (images, hidden at first); source and target (labels; images when masses are intensities); created and destroyed
    (images, mass per pixel); displacement (vectors, with the feature ``length_um``). Where lengths are in pixels the scale is 1
    and the feature is ``length_px``.
    """
    return stacked_layers([layer_maps(result, pair_id)], prefix=prefix, visible=visible)


def stacked_layers(pairs: Sequence[LayerMaps], *, prefix: str = "", visible: bool = True) -> list[LayerData]:
    """Layers of pairs that share a canvas; of several pairs, the first axis of every layer is the pair, and has a slider."""
    first, n_pairs = pairs[0], len(pairs)
    sides, unit = first.units.px_sides, "pixel" if first.units.in_px else "um"
    of_axes: dict[str, tuple[Any, ...]] = {
        "scale": sides,
        "units": (unit,) * len(sides),
        "axis_labels": ("z", "y", "x")[-len(sides) :],
    }
    metadata: dict[str, Any] = first.metadata
    if n_pairs > 1:
        of_pairs = {"scale": 1.0, "units": "pixel", "axis_labels": "pair"}
        of_axes = {name: (of_pairs[name], *values) for name, values in of_axes.items()}
        metadata = {"pairs": [pair.metadata for pair in pairs]}

    def layer(name: str, data: NDArray[Any], kind: str, quantity: str, **look: Any) -> LayerData:
        common = {"name": prefix + name, "visible": visible, "metadata": {**metadata, "unit": quantity}}
        return data, {**common, **of_axes, **look}, kind

    images = {
        name: np.stack([pair.images[name] for pair in pairs]) if n_pairs > 1 else image
        for name, image in first.images.items()
    }
    strain = [
        layer(name, images[name], "image", "1", colormap="twilight_shifted", visible=False)
        for name in STRAIN_MAPS
        if name in images
    ]
    masks = []
    for label, (name, colour) in enumerate((("source", SOURCE_COLOUR), ("target", TARGET_COLOUR)), start=1):
        if first.is_mask:
            look = {"opacity": 0.6, "colormap": {0: "transparent", label: colour, None: "transparent"}}
            masks.append(layer(name, images[name], "labels", "label", **look))
        else:
            look = {"colormap": colour, "blending": "additive"}
            masks.append(layer(name, images[name], "image", "mass per pixel", **look))
    largest = max(pair.largest_mass for pair in pairs)
    changes = []
    for name, colour in (("created", CREATED_COLOUR), ("destroyed", DESTROYED_COLOUR)):
        look = {"colormap": _fading(name, colour), "blending": "translucent", "contrast_limits": (0.0, largest)}
        changes.append(layer(name, images[name], "image", "mass per pixel", **look))
    vectors, features = _vectors(pairs)
    width = float(np.median([pair.arrow_step_px for pair in pairs])) / STEPS_PER_WIDTH
    look = {"edge_width": round(width, 2), "edge_color": "white", "vector_style": "arrow", "features": features}
    return [*strain, *masks, *changes, layer("displacement", vectors, "vectors", "px", **look)]


def _fading(name: str, colour: str) -> dict[str, Any]:
    """A colour map from nothing to a colour, which keeps its hue over any other layer."""
    red, green, blue = rgb(colour)
    return {"name": name, "colors": [[red, green, blue, 0.0], [red, green, blue, 1.0]], "interpolation": "linear"}


def displacement_vectors(result: TransportResult) -> NDArray[np.float64]:
    """(N, 2, 2) start and displacement as (y, x) in canonical px, centres of pixels at integers.

    About `N_ARROWS` of them sample the moved mass, at least one for each object; each is the mean over the mass around it. Of a
    volume (N, 2, 3), in voxels along each axis, every k-th where it is known.
    """
    arrows, _ = _arrows(result)
    return np.stack([arrows.starts_yx, arrows.vectors_yx], axis=1)


def _arrows(result: TransportResult) -> tuple[Arrows, float]:
    """The arrows, in px along each axis, and the step between them."""
    field_px = result.field_in_frame / np.array(result.units.px_sides)
    weight = np.where(result.velocity_valid, result.transform.rasterize_to_canon(result.work.mass_source), 0.0)
    if result.transform.is_volume:
        return _volume_arrows(field_px, weight)
    n_px = int(np.count_nonzero(weight))
    step = max(LEAST_STEP_PX, math.sqrt(n_px / N_ARROWS))
    if n_px == 0:
        return Arrows(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0)), step
    return sample_objects(field_px, weight, step), step


def _volume_arrows(field_px: Float, weight: Float) -> tuple[Arrows, float]:
    step = 1
    while True:
        every = tuple(slice(step // 2, None, step) for _ in weight.shape)
        if np.count_nonzero(weight[every]) <= N_VOLUME_ARROWS:
            break
        step += 1
    starts = np.argwhere(weight[every] > 0) * step + step // 2
    at = tuple(starts.T)
    return Arrows(starts.astype(np.float64), field_px[at], weight[at]), max(LEAST_STEP_PX, float(step))


def _vectors(pairs: Sequence[LayerMaps]) -> tuple[NDArray[np.float64], Mapping[str, NDArray[Any]]]:
    """(N, 2, axes), of several pairs with the number of the pair as first axis; and a length for each."""
    parts = []
    for number, pair in enumerate(pairs):
        starts, vectors = pair.arrows.starts_yx, pair.arrows.vectors_yx
        if len(pairs) > 1:
            starts = np.insert(starts, 0, number, axis=1)
            vectors = np.insert(vectors, 0, 0.0, axis=1)
        parts.append(np.stack([starts, vectors], axis=1))
    units = pairs[0].units
    features: dict[str, NDArray[Any]] = {
        f"length_{units.length}": np.concatenate(
            [np.linalg.norm(pair.arrows.vectors_yx * units.px_sides, axis=1) for pair in pairs]
        )
    }
    if len(pairs) > 1:
        names = [str(pair.metadata["pair_id"]) for pair in pairs]
        features["pair_id"] = np.repeat(np.array(names), [len(pair.arrows.mass) for pair in pairs])
    return np.concatenate(parts), features
