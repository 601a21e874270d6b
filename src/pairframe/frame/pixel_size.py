"""One pixel size for a pair: what the user says, else what the masks say; and what to tell about it."""

from __future__ import annotations

import math

from pairframe.errors import PixelSizeError

_SAME_SIZE = 1e-3  # relative difference up to which two pixel sizes are one
UNKNOWN_UM = 1.0  # when nobody says it: lengths are in pixels


def shared_pixel_size(
    source_um: float | None, target_um: float | None, config_um: float | None, transform_um: float | None = None
) -> tuple[float, tuple[str, ...]]:
    """The side of a pixel in um that holds for both masks: the transform's, the config's, the masks', in this order.

    Parameters
    ----------
    source_um, target_um : float, optional
        What the files say.
    config_um : float, optional
        What the config says.

    Returns
    -------
    px_size_um, notices
        The notices are sentences for a person: what was overruled, or taken from one mask alone.
    """
    from_masks = [(name, um) for name, um in (("source", source_um), ("target", target_um)) if um]
    chosen, origin = UNKNOWN_UM if config_um is None else config_um, "the config"
    if transform_um is not None:
        chosen, origin = transform_um, "the transform"
        if config_um is not None:
            from_masks.append(("config", config_um))
    elif config_um is None and from_masks:
        sizes = [um for _, um in from_masks]
        if not math.isclose(sizes[0], sizes[-1], rel_tol=_SAME_SIZE):
            raise PixelSizeError(
                "both masks to have one pixel size",
                f"{sizes[0]:g} um in the source and {sizes[-1]:g} um in the target",
                "resample one of them, or give the size that is right as px_size_um",
            )
        chosen, origin = sizes[0], f"the {from_masks[0][0]}"
        if len(from_masks) == 1:
            return chosen, (f"only {origin} says how large a pixel is: {chosen:g} um is used for both",)
    others = [
        f"the {name} says {um:g} um" for name, um in from_masks if not math.isclose(um, chosen, rel_tol=_SAME_SIZE)
    ]
    return chosen, ((f"a pixel is {chosen:g} um by {origin}, although {' and '.join(others)}",) if others else ())
