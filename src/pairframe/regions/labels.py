"""Label images: checked, and as shares of the mass of each work pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.alignment import Pose
from pairframe.alignment.resample import splat_weights
from pairframe.errors import MaskError
from pairframe.frame import GridTransform
from pairframe.types import Bool, Float, Int
from pairframe.units import Units

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CREATED = DESTROYED = 0  # the source of created mass, and the target of destroyed mass
UNLABELLED = -1  # pixels that have mass and the label 0
MAX_LABELS = 65_000
_MANY, _SPECK_PX = 100, 2  # more labels than this, and most of them no larger than this: intensities
_CHUNK_PIXELS = 1 << 18
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class RegionShares:
    """Which share of the mass of each work pixel belongs to which label.

    Attributes
    ----------
    labels : (K,) int
        In rising order; `UNLABELLED` for mass without a label.
    shares : (n, K) sparse
        Over the pixels with mass in row-major order; rows sum to 1.
    """

    labels: Int
    shares: csr_array


def checked_labels(given: ArrayLike, name: str) -> NDArray[np.integer]:
    """An (H, W) array of integers >= 0 with at most `MAX_LABELS` different labels."""
    labels = np.asarray(given)
    if labels.ndim != 2:
        raise MaskError(
            f"{name} to be one label image (height, width)",
            f"an array of shape {labels.shape}",
            "choose one frame, such as stack[0] (FILE@PAGE on the command line); labels of volumes are not supported yet",
            name,
        )
    if labels.dtype == np.bool_:
        labels = labels.astype(np.uint8)
    if labels.dtype.kind not in "iu":
        raise MaskError(
            f"{name} to hold integers",
            f"{labels.dtype} values",
            "labels are ids of objects: convert them, such as labels.astype(np.uint16), after checking that none is a fraction",
            name,
        )
    if labels.size and labels.min() < 0:
        raise MaskError(
            f"labels >= 0 in {name}", f"a minimum of {labels.min()}", "use 0 for the background and ids above it", name
        )
    # Cheap for usual images: only those with high ids can have too many.
    if labels.size and int(labels.max()) > MAX_LABELS:
        n_labels = len(np.unique(labels[labels > 0]))
        if n_labels > MAX_LABELS:
            raise MaskError(
                f"at most {MAX_LABELS} labels in {name}",
                f"{n_labels}",
                "check that it is a label image and not an intensity image; otherwise compare parts of it",
                name,
            )
    if labels.size and int(labels.max()) > _MANY:
        n_pixels = np.unique(labels[labels > 0], return_counts=True)[1]
        if len(n_pixels) > _MANY and np.median(n_pixels) <= _SPECK_PX:
            raise MaskError(
                f"{name} to hold labels",
                f"{len(n_pixels)} different values, most of them on {_SPECK_PX} pixels or fewer",
                "this looks like an image of intensities: segment it first, and give the labels",
                name,
            )
    return labels


def require_canvas(labels: NDArray[Any], canvas_hw: tuple[int, ...], name: str) -> None:
    """Refuse labels (H, W) that are not on the canvas of their mask."""
    if labels.shape != canvas_hw:
        raise _other_canvas(labels.shape, canvas_hw, name)


def region_shares(
    labels: NDArray[np.integer], mass_work: Float, transform: GridTransform, density: Float | None, name: str
) -> RegionShares:
    """The shares of labels on the canonical image.

    Parameters
    ----------
    labels : (Hc, Wc)
        See `checked_labels`.
    mass_work : (Hw, Ww)
        Mass per work pixel.
    density : (Hc, Wc), optional
        Mass per canonical pixel. None if a work pixel is a canonical pixel, and so belongs to one label as a whole.
    """
    require_canvas(labels, transform.canon_shape_hw, name)
    inside = labels[transform.pair_crop_box_yx.slices]
    used = inside > 0
    if density is not None:
        used = used & (density[transform.pair_crop_box_yx.slices] > 0)
    yx = np.argwhere(used)
    ids, column = np.unique(inside[used], return_inverse=True)
    place = yx // transform.downsample_factor + np.array(transform.work_pad_offsets_yx)
    pixel = np.ravel_multi_index(tuple(place.T), transform.work_shape_hw)
    if density is None:
        return _shares(pixel, column, mass_work.ravel()[pixel], ids, mass_work)
    amount = np.asarray(density[transform.pair_crop_box_yx.slices][used], dtype=np.float64)
    return _shares(pixel, column, amount, ids, mass_work)


def moved_region_shares(
    labels: NDArray[np.integer],
    mass_work: Float,
    transform: GridTransform,
    density: Float,
    pose: Pose,
    name: str,
    samples: int,
) -> RegionShares:
    """The shares of the labels of a target that was moved by a pose.

    Every pixel is divided onto the pixels of the source as its mass was.

    Parameters
    ----------
    labels, density : (Ht, Wt)
        On the target's own canvas; mass per pixel as it arrives on the source's.
    samples : int
        Per pixel and side, with which the target was moved.
    """
    require_canvas(labels, pose.target_canvas.shape_hw, name)
    used = (labels > 0) & (density > 0)
    yx, own = np.argwhere(used), np.asarray(density[used], dtype=np.float64)
    ids, column = np.unique(labels[used], return_inverse=True)
    crop, px = np.array(transform.pair_crop_box_yx.lo), Units(pose.px_size_um[1]).px_size
    pixels, columns, amounts = [], [], []
    for first in range(0, max(len(yx), 1), _CHUNK_PIXELS):
        part = slice(first, first + _CHUNK_PIXELS)
        at, weights = splat_weights(yx[part], px, pose.change, pose.source_canvas, samples)
        place = np.floor_divide(at - crop, transform.downsample_factor) + np.array(transform.work_pad_offsets_yx)
        inside = ((place >= 0) & (place < np.array(transform.work_shape_hw))).all(axis=-1) & (weights > 0)
        pixels.append(np.ravel_multi_index(tuple(place[inside].T), transform.work_shape_hw))
        columns.append(np.broadcast_to(column[part, None], weights.shape)[inside])
        amounts.append((weights * own[part, None])[inside])
    return _shares(np.concatenate(pixels), np.concatenate(columns), np.concatenate(amounts), ids, mass_work)


def on_source_canvas(labels: NDArray[Any], pose: Pose, name: str) -> NDArray[Any]:
    """An image (H, W) of the source on the canvas of an aligned pair, which may be larger."""
    shape, (top, left) = pose.source_canvas.shape_hw, pose.source_canvas.origin_yx
    if labels.shape == shape:
        return labels
    height, width = labels.shape
    if top + height > shape[0] or left + width > shape[1]:
        raise _other_canvas(labels.shape, shape, name)
    placed = np.zeros(shape, dtype=labels.dtype)
    placed[top : top + height, left : left + width] = labels
    return placed


def _shares(pixel: Int, column: Int, amount: Float, ids: NDArray[np.integer], mass_work: Float) -> RegionShares:
    """From masses of labels in work pixels (flat indices) to shares of their mass; the rest is unlabelled."""
    from scipy.sparse import csr_array

    on: Bool = mass_work > 0
    n = int(on.sum())
    row = np.full(on.size, -1, dtype=np.int64)
    row[on.ravel()] = np.arange(n)
    kept = row[pixel] >= 0
    labelled = csr_array((amount[kept], (row[pixel[kept]], column[kept] + 1)), shape=(n, len(ids) + 1))
    total: Float = np.asarray(labelled.sum(axis=1))
    rest = np.where(mass_work[on] > total * _ROUNDING, mass_work[on] - total, 0.0)
    unlabelled = csr_array((rest, (np.arange(n), np.zeros(n, dtype=np.int64))), shape=labelled.shape)
    both = csr_array(labelled + unlabelled)
    both.eliminate_zeros()
    both.data /= np.repeat(both.sum(axis=1), np.diff(both.indptr))
    present = np.unique(both.indices)
    names = np.concatenate([[UNLABELLED], ids.astype(np.int64)])
    return RegionShares(names[present], csr_array(both.tocsc()[:, present]))


def _other_canvas(shape: tuple[int, ...], canvas: tuple[int, ...], name: str) -> MaskError:
    return MaskError(
        f"{name} on the canvas of its mask, {canvas[0]} x {canvas[1]} px",
        f"{shape[0]} x {shape[1]} px",
        "give the label image of this mask, neither cropped nor scaled",
        name,
    )
