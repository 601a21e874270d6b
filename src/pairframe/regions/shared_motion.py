"""Motion that an object shares with its neighbours, found from a first linking, and taken out before the second.

Objects that move with their neighbours by more than a fraction of their size look like objects that vanish beside ones that
appear. After the first linking, the sure continuations around an object say how far its neighbourhood moved. The object is
moved along, and what is left to explain is its own motion, which is shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pairframe.types import Bool, Float, Int

if TYPE_CHECKING:
    import pandas as pd

_NEIGHBOURS = 9  # sure continuations, the object itself included if it is one
_FEWEST = 4  # fewer say nothing about a neighbourhood
_FARTHEST = 4.0  # typical lengths to the neighbours that count
_SURE = 0.5  # share of both objects that a sure continuation has
LEAST_MOTION = 0.06  # of the typical length of the objects: a shorter shared motion is not worth a second look


def shared_motion_px(
    source: pd.DataFrame, target: pd.DataFrame, links: pd.DataFrame, px_size: float, *, is_aligned: bool
) -> Int | None:
    """How far the neighbourhood of each object of a frame moves to the next one, (n, 2) whole pixels: dy, dx.

    Parameters
    ----------
    source, target : DataFrame
        The objects of both frames; see `measure_objects`.
    links : DataFrame
        Between them, from a first look.
    px_size : float
        Side of a pixel, um.
    is_aligned : bool
        Whether the frames are aligned before they are compared: then only the difference to the common motion counts.

    Returns
    -------
    None if no neighbourhood moves far enough to matter.
    """
    degree_source, degree_target = links["source_label"].value_counts(), links["target_label"].value_counts()
    is_sure = (
        (links["source_label"].map(degree_source) == 1)
        & (links["target_label"].map(degree_target) == 1)
        & (links[["share_of_source", "share_of_target"]].min(axis=1) >= _SURE)
    )
    sure = links[is_sure]
    if len(sure) < _FEWEST:
        return None
    yx = ["y_um", "x_um"]
    before = source.set_index("label")[yx]
    start: Float = before.loc[sure["source_label"]].to_numpy()
    move: Float = target.set_index("label")[yx].loc[sure["target_label"]].to_numpy() - start
    if is_aligned:
        move = move - np.median(move, axis=0)
    length = float(np.median(source["length_um"]))
    distance, nearest = cKDTree(start).query(before.to_numpy(), k=min(_NEIGHBOURS, len(start)))
    near: Bool = np.asarray(distance <= _FARTHEST * length)
    around = np.where(near[..., None], move[nearest], np.nan)
    around[near.sum(axis=1) < _FEWEST] = 0.0
    shared: Float = np.nanmedian(around, axis=1)
    if np.hypot(*shared.T).max() < LEAST_MOTION * length:
        return None
    return np.rint(shared / px_size).astype(np.int64)


def moved_labels(labels: NDArray[np.integer], ids: Int, motion_px: Int) -> NDArray[np.integer]:
    """A label image (H, W) with each object moved, cut off at the border; pixels that two objects reach go to the later one.

    Parameters
    ----------
    ids : (n,)
        All labels, in rising order.
    motion_px : (n, 2)
    """
    y, x = np.nonzero(labels)
    values = labels[y, x]
    motion = motion_px[np.searchsorted(ids, values)]
    to = np.stack([y, x], axis=1) + motion
    kept = ((to >= 0) & (to < labels.shape)).all(axis=1)
    moved = np.zeros_like(labels)
    moved[tuple(to[kept].T)] = values[kept]
    return moved
