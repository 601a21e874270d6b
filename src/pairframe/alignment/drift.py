"""Drift of a stage: one shift per frame of a series, from the overlaps of frames with their neighbours and a reference.

The shift d of every linked pair of frames is measured by `align` with the kind ``shift``. The drift x is the curve that
explains them best: it minimises the sum over pairs of ``w |x_j - x_i - d_ij|``, with w the IoU of the pair after the shift.
Absolute values instead of squares keep a few wrong links, such as far frames that no longer overlap, from bending it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pairframe import checks
from pairframe.alignment.align import align
from pairframe.alignment.ambiguity import PoseStatus
from pairframe.alignment.pose import moved_onto
from pairframe.alignment.resample import Canvas
from pairframe.alignment.similarity import Similarity
from pairframe.errors import AlignError
from pairframe.masks import Mask
from pairframe.types import Float
from pairframe.units import Units

STEPS = (1, 2)  # frames that a frame is linked with, beside the reference
_ROUNDS = 50
_LEAST_SHARE = 1e-3  # of a pixel: links that agree to this are not weighted up further


@dataclass(frozen=True, eq=False)
class StageDrift:
    """The drift of a series, one shift per frame.

    Attributes
    ----------
    frames : tuple of str
        Names of the frames.
    shift_yx_um : (n, 2)
        Where the scene lies in a frame, relative to the reference frame: (dy, dx), um (px if no pixel size is known);
        smoothed if that was requested. NaN for an empty frame. A corrected frame is shifted by the negative.
    measured_yx_um : (n, 2)
        The same before smoothing.
    reference : int
        Index of the frame without drift.
    residual_um : (n,)
        Median disagreement of the links of a frame with the curve before smoothing.
    iou : (n,)
        IoU of a frame with the frame before it after the correction; NaN for the first one.
    kernel : str
        How the curve was smoothed, in words.
    px_size_um : float or None
    notices : tuple of str
    """

    frames: tuple[str, ...]
    shift_yx_um: Float
    measured_yx_um: Float
    reference: int
    residual_um: Float
    iou: Float
    kernel: str
    px_size_um: float | None
    notices: tuple[str, ...] = ()

    @property
    def units(self) -> Units:
        """The unit of lengths: um, or px if no pixel size is known."""
        return Units(self.px_size_um)

    @property
    def total_um(self) -> float:
        """Largest distance of a frame from the reference frame."""
        return float(np.nanmax(np.hypot(*self.shift_yx_um.T)))

    def rows(self) -> list[dict[str, str | float | None]]:
        """A row per frame: frame, dy_um, dx_um, measured_dy_um, measured_dx_um, residual_um, iou_with_previous."""
        columns = {
            "dy_um": self.shift_yx_um[:, 0],
            "dx_um": self.shift_yx_um[:, 1],
            "measured_dy_um": self.measured_yx_um[:, 0],
            "measured_dx_um": self.measured_yx_um[:, 1],
            "residual_um": self.residual_um,
            "iou_with_previous": self.iou,
        }
        return [
            {
                "frame": name,
                **{key: None if np.isnan(column[i]) else float(column[i]) for key, column in columns.items()},
            }
            for i, name in enumerate(self.frames)
        ]

    def apply(self, masks: Sequence[Mask]) -> list[Mask]:
        """The masks without the drift, on one canvas that holds all of them; mass stays. Empty frames stay empty."""
        if len(masks) != len(self.frames):
            raise AlignError(f"{len(self.frames)} masks, one per frame", f"{len(masks)}", "give those of the series")
        shifts = -np.nan_to_num(self.shift_yx_um)
        px = self.units.px_size
        low = np.ceil(np.maximum(0, -shifts.min(axis=0)) / px).astype(int) + 1
        high = np.max(
            [np.ceil(s / px).astype(int) + mask.shape_hw for s, mask in zip(shifts, masks, strict=True)], axis=0
        )
        shape = low + high + 1
        canvas = Canvas((int(shape[0]), int(shape[1])), px, (int(low[0]), int(low[1])))
        return [
            moved_onto(mask, Similarity(shift_yx_um=(float(dy), float(dx))), canvas, self.px_size_um)
            for (dy, dx), mask in zip(shifts, masks, strict=True)
        ]


def stage_drift(
    masks: Sequence[Mask | ArrayLike],
    *,
    frames: Sequence[str] | None = None,
    reference: int = 0,
    smooth_frames: float | None = None,
) -> StageDrift:
    """Estimate the drift of a stage over a series: one shift per frame.

    Each frame is aligned by shifts with the one before it, the one before that, and the reference frame. One curve is fitted
    to all of these shifts, so that neither the errors of neighbours add up, nor a change of shape since the reference frame
    misleads it. An object that grows to one side, or cells that all move one way, look like drift.

    Parameters
    ----------
    masks : sequence of Mask or (H, W) array
        In order, with one pixel size; the canvases may differ, and have their first pixel in common.
    frames : sequence of str, optional
        Their names. Numbers are times: the smoothing respects gaps.
    reference : int
        Index of the frame whose drift is 0.
    smooth_frames : float, optional
        Smooth the curve by local lines, fitted with Gaussian weights of this standard deviation in frames.

    Examples
    --------
    >>> import numpy as np, pairframe as pf
    >>> from pairframe.testing import embryo
    >>> series = [np.roll(embryo(), (2 * t, -3 * t), axis=(0, 1)) for t in range(4)]
    >>> pf.stage_drift(series).shift_yx_um.tolist()
    [[0.0, 0.0], [2.0, -3.0], [4.0, -6.0], [6.0, -9.0]]
    """
    given = [mask if isinstance(mask, Mask) else Mask.from_array(mask) for mask in masks]
    names = tuple(str(name) for name in (range(len(given)) if frames is None else frames))
    _check(given, names, reference, smooth_frames)
    reference %= len(given)
    links = _links([mask.is_empty for mask in given], reference)
    found, sure = [], 0
    for i, j in links:
        pose = align(given[i], given[j], kind="shift")
        found.append((*(-np.array(pose.shift_yx_um)), pose.iou_after))
        sure += pose.status == PoseStatus.aligned
    measured = np.full((len(given), 2), np.nan)
    residual = np.full(len(given), np.nan)
    px = Units(given[0].px_size_um).px_size
    if links:
        numbers = np.array(found)
        known = sorted({k for link in links for k in link})
        measured[known] = _fit(links, numbers, known, px)
        measured -= measured[reference]
        ends = np.array(links)
        off = np.hypot(*(measured[ends[:, 1]] - measured[ends[:, 0]] - numbers[:, :2]).T)
        for k in known:
            residual[k] = np.median(off[(ends == k).any(axis=1)])
    measured[reference] = 0.0
    shift, kernel = measured, "none"
    if smooth_frames is not None:
        shift = local_lines(measured, _times(names), float(smooth_frames))
        shift = shift - shift[reference]
        kernel = f"local lines with Gaussian weights, standard deviation {smooth_frames:g} frames"
    notices = [f"frame {names[k]} is empty, so its drift is unknown" for k, mask in enumerate(given) if mask.is_empty]
    if links and sure < len(links) / 2:
        notices.append(
            f"{len(links) - sure} of {len(links)} pairs of frames do not determine their shift; look at the curve"
        )
    drift = StageDrift(
        names,
        shift,
        measured,
        reference,
        residual,
        np.full(len(given), np.nan),
        kernel,
        given[0].image_px_size_um,
        tuple(notices),
    )
    return replace(drift, iou=_overlaps(drift, given))


def _links(is_empty: Sequence[bool], reference: int) -> list[tuple[int, int]]:
    """Pairs of frames to align: neighbours among those that are not empty, and each with the reference."""
    known = [k for k, empty in enumerate(is_empty) if not empty]
    pairs = {(known[a - step], known[a]) for step in STEPS for a in range(step, len(known))}
    pairs |= {(min(k, reference), max(k, reference)) for k in known if k != reference}
    return sorted(pairs)


def _fit(links: Sequence[tuple[int, int]], found: Float, known: Sequence[int], px: float) -> Float:
    """The curve (n, 2) at the known frames that minimises the weighted sum of distances, by reweighted least squares."""
    place = {k: n for n, k in enumerate(known)}
    matrix = np.zeros((len(links), len(known)))
    for row, (i, j) in enumerate(links):
        matrix[row, place[i]], matrix[row, place[j]] = -1.0, 1.0
    weights = np.maximum(found[:, 2], 1e-6)
    scale = weights.copy()
    curve: Float = np.zeros((len(known), 2))
    for _ in range(_ROUNDS):
        root = np.sqrt(scale)[:, None]
        before = curve
        curve = np.asarray(np.linalg.lstsq(root * matrix, root * found[:, :2], rcond=None)[0], dtype=np.float64)
        off = np.hypot(*(matrix @ curve - found[:, :2]).T)
        scale = weights / np.maximum(off, _LEAST_SHARE * px)
        if np.abs(curve - before).max() < 1e-6 * px:
            break
    return curve


def local_lines(curve: Float, times: Float, width: float) -> Float:
    """Local lines with Gaussian weights: a steady drift stays as it is, also at the ends. Unknown frames are filled."""
    known = np.isfinite(curve).all(axis=1)
    out = np.array(curve)
    for k, at in enumerate(times):
        ahead = times[known] - at
        root = np.exp(-0.25 * (ahead / width) ** 2)  # of the weight
        line = np.stack([np.ones_like(ahead), ahead], axis=1)
        out[k] = np.linalg.lstsq(root[:, None] * line, root[:, None] * curve[known], rcond=None)[0][0]
    return out


def _times(names: Sequence[str]) -> Float:
    """Numbers of the frames, in units of their smallest step; their order if they are no numbers."""
    try:
        numbers = np.array([float(name) for name in names])
    except ValueError:
        return np.arange(len(names), dtype=np.float64)
    steps = np.diff(np.unique(numbers))
    usable = np.isfinite(numbers).all() and len(steps) == len(numbers) - 1 and len(steps) > 0
    return np.asarray(numbers / steps.min()) if usable else np.arange(len(names), dtype=np.float64)


def _overlaps(drift: StageDrift, masks: Sequence[Mask]) -> Float:
    """IoU of every frame with the one before it, both corrected; by the nearest whole pixels."""
    found = np.full(len(masks), np.nan)
    px = drift.units.px_size
    for k in range(1, len(masks)):
        step = drift.shift_yx_um[k] - drift.shift_yx_um[k - 1]
        if masks[k].is_empty or masks[k - 1].is_empty or not np.isfinite(step).all():
            continue
        one, two = (np.argwhere(mask.values > 0) for mask in (masks[k - 1], masks[k]))
        two = two - np.rint(step / px).astype(int)
        lowest = np.minimum(one.min(axis=0), two.min(axis=0))
        shape = tuple(np.maximum(one.max(axis=0), two.max(axis=0)) - lowest + 1)
        first, second = (np.zeros(shape, bool) for _ in range(2))
        first[tuple((one - lowest).T)] = True
        second[tuple((two - lowest).T)] = True
        found[k] = np.count_nonzero(first & second) / np.count_nonzero(first | second)
    return found


def _check(masks: Sequence[Mask], names: Sequence[str], reference: int, smooth_frames: float | None) -> None:
    if len(masks) < 2:
        raise AlignError("a series of at least two masks", f"{len(masks)}", "give the frames in order", "masks")
    if len(names) != len(masks):
        raise AlignError(f"{len(masks)} names of frames", f"{len(names)}", "give one per mask", "frames")
    checks.integer(reference, "reference", -len(masks), len(masks) - 1, error=AlignError)
    if masks[reference].is_empty:
        raise AlignError("a reference frame with pixels", "an empty mask", "choose another reference", "reference")
    if smooth_frames is not None:
        checks.positive(smooth_frames, "smooth_frames", fix="e.g. 2", error=AlignError)
    sizes = {mask.px_size_um for mask in masks}
    if len(sizes) > 1:
        shown = ", ".join(sorted("unknown" if size is None else f"{size:g}" for size in sizes)[:5])
        raise AlignError(
            "one pixel size in a series", f"{shown} um", "give all masks the pixel size of their stage", "px_size_um"
        )
