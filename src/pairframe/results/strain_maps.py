"""Maps of the strain: how areas change, how uneven the stretch is, and its direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from pairframe.errors import ArgumentError
from pairframe.frame.fields import new_array
from pairframe.frame.pool import splat
from pairframe.results.coverage import covered_work_px
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from pairframe.results.result import TransportResult

# A direction means something only where the two stretches differ by more than the errors of a converged solve.
LEAST_ANISOTROPY = 1e-4
RIM_BLURS = 2.0  # depth of the rim
_STEPS, _STEPS_FALL, _LIKELY = 0.075, -4 / 3, 5.0  # see `anisotropy_of_steps`
_MOST_RIM = 0.75  # of the pixels of the source


def on_canvas(result: TransportResult, name: Literal["strain", "local_growth_rate"]) -> Float:
    """A map of the work grid on the canonical image, constant over a block; NaN off the source and where it is unknown."""
    work: Float | None = getattr(result.work, name)
    if work is None:
        raise ArgumentError(
            "a result that was compared with strain",
            "one without",
            "compare with TransportConfig(strain=True), or --strain on the command line",
            "strain",
        )
    transform = result.transform
    canvas = new_array((*transform.canon_shape_hw, *work.shape[2:]), np.nan, "canvas")
    block = work[transform.work_valid_box_yx.slices]
    splat(block, transform.downsample_factor, canvas[transform.pair_crop_box_yx.slices], n_axes=2)
    canvas[~result.velocity_valid] = np.nan
    return canvas


def rim_of(result: TransportResult) -> Bool:
    """Work pixels (Hw, Ww) of the source within two blurs of its outline, where a strain shows the steps of the pixels.

    Maps draw them pale, and means leave them out. None if hardly anything lies deeper: a thin object has nothing else.
    """
    from scipy import ndimage

    source = result.work.mass_source > 0
    body = covered_work_px(result, "source")
    depth_px = ndimage.distance_transform_edt(np.pad(body, 1))[1:-1, 1:-1]
    rim: Bool = source & (depth_px <= RIM_BLURS * result.blur_um / result.transform.work_px_size_um)
    return rim if np.count_nonzero(rim) < _MOST_RIM * np.count_nonzero(source) else np.zeros_like(rim)


def anisotropy_of_steps(result: TransportResult) -> Float:
    """Anisotropy (Hc, Wc) that the steps of binary outlines alone exceed in few pixels; 0 if masses have fractions.

    From one sheared binary ellipse at 32 random places between the pixels (``benchmarks/strain.py placed``): at a depth of d
    pixels, the entries of the strain have a standard deviation of ``0.075 d^(-4/3)``. Steps are a shear without
    expansion, so a stretch ratio has a Rayleigh distribution, of which 95 % is below 5 times that.
    """
    from scipy import ndimage

    body = covered_work_px(result, "source")
    if not result.config.mass.is_area:
        return np.zeros(result.transform.canon_shape_hw)
    depth_px = ndimage.distance_transform_edt(np.pad(body, 1))[1:-1, 1:-1]
    transform = result.transform
    per_depth = _LIKELY * _STEPS * (np.maximum(depth_px, 1.0) * transform.downsample_factor) ** _STEPS_FALL
    canvas = np.zeros(transform.canon_shape_hw)
    block = per_depth[transform.work_valid_box_yx.slices]
    splat(block, transform.downsample_factor, canvas[transform.pair_crop_box_yx.slices], n_axes=2)
    return canvas


def without_rim(result: TransportResult) -> Float | None:
    """The strain on the work grid (Hw, Ww, 2, 2), NaN in the rim; None if it was not computed."""
    strain = result.work.strain
    return None if strain is None else np.where(rim_of(result)[..., None, None], np.nan, strain)


def areal_expansion(strain: Float) -> Float:
    """det(I + G) - 1 of gradients G (..., 2, 2)."""
    gradient = strain + np.eye(2)
    return gradient[..., 0, 0] * gradient[..., 1, 1] - gradient[..., 0, 1] * gradient[..., 1, 0] - 1.0


def anisotropy(strain: Float) -> Float:
    """Logarithm of the ratio of the principal stretches of I + G; NaN where one of them is not positive."""
    large, small = _stretches(strain)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(small > 0, np.log(large / small), np.nan)


def stretch_direction_deg(strain: Float) -> Float:
    """Direction of the larger stretch in (-90, 90], counter-clockwise from the right; NaN where both are alike."""
    across = strain[..., 0, 1] + strain[..., 1, 0]
    # Rows point down, so an angle against the x axis has the opposite sign in the image.
    angle = np.degrees(0.5 * np.arctan2(-across, strain[..., 1, 1] - strain[..., 0, 0]))
    large, small = _stretches(strain)
    return np.where(large - small > LEAST_ANISOTROPY, np.where(angle <= -90.0, 90.0, angle), np.nan)


def _stretches(strain: Float) -> tuple[Float, Float]:
    """Eigenvalues of the symmetric part of I + G, the larger first; a plan's gradient has no other part."""
    mean = 1.0 + 0.5 * (strain[..., 0, 0] + strain[..., 1, 1])
    half = 0.5 * np.hypot(strain[..., 0, 0] - strain[..., 1, 1], strain[..., 0, 1] + strain[..., 1, 0])
    return mean + half, mean - half
