"""Synthetic masks: discs, and embryos with a curved, tapered body and a yolk."""

from __future__ import annotations

import numpy as np

from pairframe.types import Bool


def disc(shape_hw: tuple[int, int], centre_yx: tuple[float, float], radius_px: float) -> Bool:
    """A disc on a (H, W) canvas: the pixels whose centre is within `radius_px` of `centre_yx`."""
    ys, xs = np.ogrid[: shape_hw[0], : shape_hw[1]]
    inside: Bool = (ys - centre_yx[0]) ** 2 + (xs - centre_yx[1]) ** 2 <= radius_px**2
    return inside


def embryo(
    shape_hw: tuple[int, int] = (256, 576),
    *,
    length_px: float = 330.0,
    thickness_px: float = 26.0,
    bend: float = 0.6,
    yolk_px: float = 44.0,
    growth: float = 1.0,
    centre_yx: tuple[float, float] | None = None,
) -> Bool:
    """A fish-like embryo seen from the side.

    Parameters
    ----------
    shape_hw : (H, W)
        Canvas.
    length_px : float
        Length of the body's midline.
    thickness_px : float
        Half the body's height near the head; it tapers to a quarter at the tail.
    bend : float
        Curvature of the body in radians over its length; the sign says up or down.
    yolk_px : float
        Half the yolk's width; 0 leaves it out.
    growth : float
        Multiplies every length, so area grows with its square.
    centre_yx : (y, x), optional
        Where a third of the midline lies, pixels; the middle of the canvas when not given.
    """
    length, thickness, yolk = length_px * growth, thickness_px * growth, yolk_px * growth
    centre_y, centre_x = centre_yx or (shape_hw[0] / 2, shape_hw[1] / 2)
    along = np.linspace(0.0, 1.0, max(8, int(length)))  # one disc per pixel of midline leaves no gaps
    angle = -2 * bend * (along - 0.3) ** 2
    step = length / len(along)
    xs, ys = np.cumsum(np.cos(angle)) * step, np.cumsum(np.sin(angle)) * step
    third = int(0.3 * len(along))
    xs, ys = xs - xs[len(along) // 2] + centre_x, ys - ys[third] + centre_y
    radius = thickness * (1 - 0.75 * along) * (0.6 + 0.4 * np.minimum(1.0, along / 0.08))

    body = np.zeros(shape_hw, dtype=bool)
    for y, x, r in zip(ys, xs, radius, strict=True):
        top, left = max(0, int(y - r)), max(0, int(x - r))
        window = body[top : max(0, int(y + r) + 2), left : max(0, int(x + r) + 2)]
        window |= disc((window.shape[0], window.shape[1]), (y - top, x - left), r)
    if yolk > 0:
        gy, gx = np.ogrid[: shape_hw[0], : shape_hw[1]]
        low = ys[third] + 0.9 * thickness
        body |= ((gy - low) / (0.75 * yolk)) ** 2 + ((gx - xs[third]) / yolk) ** 2 <= 1
    return body


def tiny_and_huge_embryo(shape_hw: tuple[int, int] = (256, 576), area_ratio: float = 50.0) -> tuple[Bool, Bool]:
    """Two embryos of one form whose areas are about ``1 : area_ratio``, on one canvas."""
    scale = min(shape_hw[0] / 256, shape_hw[1] / 576)
    huge = embryo(shape_hw, length_px=430, thickness_px=42, yolk_px=72, growth=scale)
    tiny = embryo(
        shape_hw,
        length_px=430,
        thickness_px=42,
        yolk_px=72,
        growth=scale / np.sqrt(area_ratio),
        centre_yx=(0.42 * shape_hw[0], 0.36 * shape_hw[1]),
    )
    return tiny, huge


def growing_embryo(n_frames: int = 6, shape_hw: tuple[int, int] = (256, 576)) -> list[Bool]:
    """A time series: the body grows longer and straightens while the yolk shrinks."""
    scale = min(shape_hw[0] / 256, shape_hw[1] / 576)
    return [
        embryo(
            shape_hw,
            length_px=240 + 160 * t,
            thickness_px=30 + 2 * t,
            bend=1.4 - 1.6 * t,
            yolk_px=60 - 20 * t,
            growth=scale,
        )
        for t in np.linspace(0.0, 1.0, n_frames)
    ]


def turned_embryo(
    shape_hw: tuple[int, int] = (256, 576), turn_deg: float = 40.0, growth: float = 1.1
) -> tuple[Bool, Bool]:
    """An embryo, and the same one after it turned counter-clockwise and all its lengths grew by a factor."""
    size = 0.75 * min(shape_hw[0] / 256, shape_hw[1] / 576)
    grown = embryo(shape_hw, growth=size * growth)
    middle = ((shape_hw[0] - 1) / 2, (shape_hw[1] - 1) / 2)
    angle = np.deg2rad(turn_deg)
    rows, columns = np.indices(shape_hw)
    y, x = rows - middle[0], columns - middle[1]
    # Where each pixel comes from: the turn back.
    from_y = np.rint(np.cos(angle) * y + np.sin(angle) * x + middle[0]).astype(int)
    from_x = np.rint(-np.sin(angle) * y + np.cos(angle) * x + middle[1]).astype(int)
    is_known = (from_y >= 0) & (from_y < shape_hw[0]) & (from_x >= 0) & (from_x < shape_hw[1])
    turned = np.zeros(shape_hw, dtype=bool)
    turned[is_known] = grown[from_y[is_known], from_x[is_known]]
    return embryo(shape_hw, growth=size), turned
