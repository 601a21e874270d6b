"""One pixel size for a pair: the one the user gave, otherwise the one in the masks' metadata."""

from __future__ import annotations

import math

from pairframe.errors import PixelSizeError
from pairframe.notices import Notice
from pairframe.units import PxSize, Units, px_size_text

_SAME_SIZE = 1e-3  # relative difference up to which two pixel sizes are one


def shared_pixel_size(
    source_um: PxSize | None, target_um: PxSize | None, config_um: PxSize | None, transform_um: PxSize | None = None
) -> tuple[PxSize | None, tuple[Notice, ...]]:
    """Side of a pixel in um for both masks: the transform's, the config's or the masks', in this order.

    Parameters
    ----------
    source_um, target_um, config_um, transform_um : float or (float, float, float), optional
        Pixel size of each; None if unknown.

    Returns
    -------
    px_size_um : float, (float, float, float) or None
        None if no pixel size is known.
    notices : tuple of Notice
        Sizes that were overruled, or a size taken from one mask alone.
    """
    from_masks = [(name, um) for name, um in (("source", source_um), ("target", target_um)) if um is not None]
    chosen, origin = config_um, "the config"
    if transform_um is not None:
        chosen, origin = transform_um, "the transform"
        if config_um is not None:
            from_masks.append(("config", config_um))
    elif config_um is None and from_masks:
        sizes = [um for _, um in from_masks]
        if not _is_same(sizes[0], sizes[-1]):
            raise PixelSizeError(
                "both masks to have one pixel size",
                f"{px_size_text(sizes[0])} um in the source and {px_size_text(sizes[-1])} um in the target",
                "resample one of them, or give the right size as px_size_um",
                field="px_size_um",
            )
        chosen, origin = sizes[0], f"the {from_masks[0][0]}"
        if len(from_masks) == 1:
            return chosen, (
                Notice("pixel_size", f"only {origin} has a pixel size: {px_size_text(chosen)} um is used for both"),
            )
    if chosen is None:
        return None, ()
    others = [f"the {name} has {px_size_text(um)} um" for name, um in from_masks if not _is_same(um, chosen)]
    if not others:
        return chosen, ()
    message = f"the pixel size is {px_size_text(chosen)} um, from {origin}, although {' and '.join(others)}"
    return chosen, (Notice("pixel_size", message),)


def _is_same(one: PxSize, other: PxSize) -> bool:
    sides = zip(Units(one, 3).px_sides, Units(other, 3).px_sides, strict=True)
    return all(math.isclose(a, b, rel_tol=_SAME_SIZE) for a, b in sides)
