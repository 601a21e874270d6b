"""Read: two masks of any kind come in, two densities on one canvas and their pixel size go out.

If the config asks for it, both are cleaned and the target is moved onto the source here, as long as they are still masks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from numpy.typing import ArrayLike

from pairframe.alignment import Pose
from pairframe.errors import MaskError
from pairframe.frame import GridTransform
from pairframe.frame.pixel_size import shared_pixel_size
from pairframe.masks import Mask, mass_density, read_mask
from pairframe.masks.headers import volume_shape
from pairframe.notices import Notice
from pairframe.pipeline.align import align_pair
from pairframe.pipeline.clean import cleaned, cleaning_notices
from pairframe.pipeline.memory_check import check_canvas_memory, check_masks_memory
from pairframe.problem import TransportConfig
from pairframe.types import Float
from pairframe.units import PxSize

MaskLike = Mask | ArrayLike | os.PathLike[str]
Pair = tuple[MaskLike, MaskLike]


@dataclass(frozen=True, eq=False)
class DensityPair:
    """Source and target as densities on one canvas.

    Attributes
    ----------
    source, target : (Hc, Wc), or (Zc, Yc, Xc) for volumes
        Mass per canonical pixel.
    config : TransportConfig
        With the pixel size of the pair.
    notices : tuple of Notice
        Remarks about the pixel size and the pose.
    pose : Pose, optional
        How the target was moved.
    """

    source: Float
    target: Float
    config: TransportConfig
    notices: tuple[Notice, ...]
    pose: Pose | None = None


def read_pair(
    mask_a: MaskLike, mask_b: MaskLike, config: TransportConfig, transform: GridTransform | None
) -> DensityPair:
    """Read both masks, settle their pixel size and apply the mass mode."""
    given = [as_mask(mask, config) for mask in (mask_a, mask_b)]
    config = volume_config(given, config)
    check_masks_memory(given, config)
    masks = [cleaned(mask, config) for mask in given]
    done = [
        notice
        for before, after, name in zip(given, masks, ("source", "target"), strict=True)
        for notice in cleaning_notices(before, after, name)
    ]
    empty = [name for name, mask in zip(("source", "target"), masks, strict=True) if mask.is_empty]
    if config.align != "none" and not empty:
        if transform is not None and config.px_size_um is None:
            config = replace(config, px_size_um=transform.px_size_um)
        canvas = None if transform is None else (transform.canon_shape_hw[0], transform.canon_shape_hw[1])
        aligned = align_pair(masks[0], masks[1], config, canvas)
        config = replace(config, px_size_um=aligned.pose.px_size_um[0])
        return DensityPair(aligned.source, aligned.target, config, (*done, *aligned.notices), aligned.pose)
    transform_um = None if transform is None else transform.px_size_um
    px_size_um, notices = shared_pixel_size(masks[0].px_size_um, masks[1].px_size_um, config.px_size_um, transform_um)
    source, target = (mass_density(mask, config.mass_mode, px_size_um) for mask in masks)
    if config.align != "none":
        notices = (*notices, Notice("not_aligned", f"not aligned, because the {' and the '.join(empty)} is empty"))
    return DensityPair(source, target, _with_pixel_size(config, px_size_um), (*done, *notices))


@lru_cache(maxsize=16)
def _with_pixel_size(config: TransportConfig, px_size_um: PxSize | None) -> TransportConfig:
    """The config with a pixel size; remembered, because a config checks all of its fields and many pairs share one."""
    return replace(config, px_size_um=px_size_um)


def volume_config(masks: Sequence[Mask], config: TransportConfig) -> TransportConfig:
    """The config, which says that the masks are volumes if they are; all of them or none must be."""
    kinds = {mask.volume for mask in masks}
    if len(kinds) > 1 or (config.volume is not None and kinds != {config.volume}):
        shapes = " and ".join(" x ".join(map(str, mask.values.shape)) for mask in masks)
        raise MaskError(
            "two volumes, or two images",
            f"masks of {shapes} px",
            "compare images with images and volumes with volumes; volume=True (--volume) and False (--no-volume) must fit the masks",
        )
    ways = sorted({mask.orientation_zyx for mask in masks if mask.orientation_zyx is not None})
    if len(ways) > 1:
        raise MaskError(
            "two volumes whose axes point the same way",
            f"axes (z, y, x) towards {' and '.join(ways)}",
            "turn one of them as the other, e.g. both with nibabel.as_closest_canonical(image), and save it",
        )
    return replace(config, volume=True) if kinds == {True} and not config.volume else config


def volume_options(config: TransportConfig) -> dict[str, Any]:
    """Options of `read_mask` for a config: sides of a voxel win over metadata, which may miss an axis."""
    return {"volume": config.volume} | (
        {"px_size_um": config.px_size_um} if isinstance(config.px_size_um, tuple) else {}
    )


def as_mask(mask: MaskLike, config: TransportConfig) -> Mask:
    """A mask as it is, from an array or from a file."""
    if isinstance(mask, Mask):
        return mask
    is_density = config.mass.takes_density
    if isinstance(mask, str | os.PathLike):
        check_canvas_memory(volume_shape(mask, volume=config.volume), config)
        return read_mask(mask, density=is_density, **volume_options(config))
    return Mask.from_array(mask, density=is_density, volume=bool(config.volume))
