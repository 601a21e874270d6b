"""Landmarks: a second mask per side, such as the yolk, that anchors the pose and tells head from tail."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairframe.alignment.cloud import Cloud
from pairframe.errors import AlignError
from pairframe.masks import Mask
from pairframe.types import Bool

LEAST_INSIDE = 0.5  # share of a landmark that must lie on its mask


def landmark_clouds(
    landmarks: Any, masks: tuple[Mask, Mask], clouds: tuple[Cloud, Cloud]
) -> tuple[tuple[Cloud, Cloud] | None, tuple[str, ...]]:
    """The landmarks as clouds around the centres of their masks.

    Parameters
    ----------
    landmarks : (Mask or array or None, Mask or array or None), optional
        Of the source and of the target, each on the canvas of its mask; None if it is missing there.

    Returns
    -------
    clouds : (Cloud, Cloud) or None
        None without landmarks, or if one of them is missing.
    missing : tuple of str
        The sides on which a landmark was expected but is missing.
    """
    if landmarks is None:
        return None, ()
    if not isinstance(landmarks, tuple | list) or len(landmarks) != 2:
        raise AlignError(
            "landmarks to be a pair (of the source, of the target)",
            type(landmarks).__name__,
            "give two masks, with None for one that is missing",
            "landmarks",
        )
    found: list[Cloud] = []
    missing = []
    for name, landmark, mask, cloud in zip(("source", "target"), landmarks, masks, clouds, strict=True):
        if landmark is None:
            missing.append(name)
            continue
        one = landmark if isinstance(landmark, Mask) else Mask.from_array(landmark)
        if one.is_empty:
            missing.append(name)
            continue
        found.append(Cloud(checked_landmark(one, mask, name), cloud.px, cloud.centre_yx))
    return ((found[0], found[1]) if not missing else None), tuple(missing)


def checked_landmark(landmark: Mask, mask: Mask, name: str) -> Bool:
    """The pixels of a landmark that fits its mask; `name` is that of the mask in messages."""
    if landmark.shape_hw != mask.shape_hw:
        raise AlignError(
            f"the landmark of the {name} on the canvas of its mask, {mask.shape_hw[0]} x {mask.shape_hw[1]} px",
            f"{landmark.shape_hw[0]} x {landmark.shape_hw[1]} px",
            "give both on one canvas",
            "landmarks",
        )
    if landmark.px_size_um is not None and landmark.px_size_um != mask.px_size_um:
        raise AlignError(
            f"the landmark of the {name} with the pixel size of its mask, {mask.px_size_um}",
            f"{landmark.px_size_um}",
            "correct one of them",
            "landmarks",
        )
    inside: Bool = landmark.values > 0
    share = np.count_nonzero(inside & (mask.values > 0)) / np.count_nonzero(inside)
    if share < LEAST_INSIDE:
        raise AlignError(
            f"the landmark of the {name} to lie on its mask",
            f"{100 * (1 - share):.3g} % of it outside",
            "check that both come from one image",
            "landmarks",
        )
    return inside
