"""The labels of a mask itself: the ids of its label image, or its connected pieces."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FileError
from pairframe.masks.io import read_labels, read_mask
from pairframe.masks.pieces import label_pieces
from pairframe.masks.spec import MaskSpec, parse_spec

OWN = "own"


def labels_of_mask(path: str | os.PathLike[str], *, density: bool = False) -> NDArray[np.integer]:
    """Label image (H, W) of the mask that `read_mask` would read from there.

    The ids of a label image; only the chosen one of ``labels.tif:3``. The connected pieces of a binary or grey image.
    """
    spec = parse_spec(path)
    if not density:
        labels = _ids(spec)
        if labels is not None:
            return labels if spec.label in (None, "all") else np.where(labels == spec.label, labels, 0)
    return label_pieces(read_mask(path, density=density).values > 0)[0]


def _ids(spec: MaskSpec) -> NDArray[np.integer] | None:
    """The ids of an integer image with several of them; None for a binary image."""
    try:
        labels, _ = read_labels(str(replace(spec, label=None)))
    except FileError:
        if spec.label is not None:
            raise
        return None
    return labels if len(np.unique(labels[labels > 0])) > 1 or spec.label is not None else None
