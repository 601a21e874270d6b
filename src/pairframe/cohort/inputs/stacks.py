"""`stack_frames`: the frames of a stack of label images, and remarks about how it was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.cohort.inputs.cells import absolute
from pairframe.cohort.inputs.pairing import Frame
from pairframe.cohort.inputs.tasks import MaskRef
from pairframe.cohort.inputs.volume_stacks import holds_volumes
from pairframe.errors import ManifestError
from pairframe.masks import MaskSpec, positive_ids, read_labels, stack_header
from pairframe.masks.readers import format_suffix
from pairframe.notices import Notice, warning

FEWEST_STEPS = 5  # of an id to the next frame, before anything is said about them
LEAST_FOLLOWED = 0.5  # share of these steps on which an id stays on the object that it was on
_NOT_TIME = {"Z": "slices (Z)", "C": "channels (C)", "S": "samples (S)"}


@dataclass(frozen=True)
class _Page:
    """A page of the flattened leading axes: which frame of which series it is."""

    number: int
    time: int
    where: str  # such as "z3", empty if time is the only leading axis


def stack_frames(
    spec: MaskSpec, axes: str | None, volume: bool | None = None
) -> tuple[list[Frame], tuple[Notice, ...]]:
    """A frame per id and page, or per page if all labels are one mask; pages without an id are left out.

    A stack of volumes has volumes for pages: (T, Z, Y, X) is a series of T masks.

    Parameters
    ----------
    spec : MaskSpec
        The stack; its label is an id, ``all`` for one mask of all labels, or None for every id.
    axes : str, optional
        Letters of the axes in order, such as ``TYX`` or ``TZYX``: T is time, other axes make separate series. Default: as the file
        says if it says T, otherwise all pages are frames.
    volume : bool, optional
        Whether the last axis before YX is depth, so that a mask is a volume. None: if OME or NIfTI metadata say so.
    """
    shape, found = stack_header(str(replace(spec, page=None, label=None)))
    are_volumes = holds_volumes(spec, shape, axes, found, volume)
    notices: list[Notice] = []
    if axes is not None:
        axes = _checked_axes(axes, shape, spec)
    elif found is not None and "T" in found[:-2]:
        axes = found
    elif found is not None:
        notices += _axes_notices(found, shape, spec)
    if are_volumes:
        shape = (*shape[:-3], *shape[-2:])
        axes = None if axes is None or "T" not in axes[:-3] else f"{axes[:-3]}YX"
    pages = list(_pages(shape, axes))
    volume = True if are_volumes else None
    whole = Path(absolute(str(replace(spec, page=None, label=None)), Path.cwd()))
    file, named = str(whole), whole.name
    frames: list[Frame] = []
    if spec.label == "all":
        for page in pages:
            mask = MaskRef(f"{file}@{page.number}:all", f"{named}@{page.number}:all", volume=volume)
            frames.append(Frame(page.where or spec.path.name[: -len(format_suffix(spec.path))], str(page.time), mask))
        return frames, tuple(notices)
    followed = _Followed()
    for page in pages:
        labels = read_labels(file, page=page.number, volume=are_volumes)[0]
        followed.see(page.where, labels)
        for label in positive_ids(labels):
            if spec.label is None or spec.label == label:
                mask = MaskRef(f"{file}@{page.number}:{label}", f"{named}@{page.number}:{label}", volume=volume)
                series = f"{page.where}_{label}" if page.where else str(label)
                frames.append(Frame(series, str(page.time), mask))
    if len(pages) > 1 and len({frame.series for frame in frames}) == len(frames) > 0 and spec.label is None:
        raise ManifestError(
            "ids that occur on more than one page, so that an id is a series",
            f"{len(frames)} ids on {len(pages)} pages of {str(spec)!r}, each on one page only",
            f"track the objects first, or compare all labels of a page as one mask: {spec.path.name}:all",
        )
    return frames, (*notices, *followed.notices())


class _Followed:
    """Counts on how many steps from a page to the next an id stays on its object."""

    def __init__(self) -> None:
        self._before: dict[str, NDArray[Any]] = {}
        self.steps = self.kept = 0

    def see(self, where: str, labels: NDArray[Any]) -> None:
        """The next page of a series of pages."""
        before = self._before.get(where)
        self._before[where] = labels
        if before is None or before.shape != labels.shape:
            return
        both = np.intersect1d(positive_ids(before), positive_ids(labels))
        overlap = (before > 0) & (labels > 0)
        # For every id the one that most of its pixels have on the next page; itself if it overlaps nothing else.
        pairs, counts = np.unique(np.stack([before[overlap], labels[overlap]]), axis=1, return_counts=True)
        best: dict[int, tuple[int, int]] = {}
        for (old, new), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            if count > best.get(old, (0, 0))[1]:
                best[old] = (new, count)
        for label in both.tolist():
            self.steps += 1
            self.kept += best.get(label, (0, 0))[0] == label

    def notices(self) -> list[Notice]:
        if self.steps < FEWEST_STEPS or self.kept >= LEAST_FOLLOWED * self.steps:
            return []
        share = 100 * self.kept / self.steps
        return [
            warning(
                "labels_not_tracks",
                f"only {share:.2g} % of the ids lie on the same object in the next frame, so the labels are probably "
                "numbered anew in every frame and are no tracks",
                "track the objects first, or compare all labels of a page as one mask: STACK:all",
            )
        ]


def _axes_notices(found: str, shape: tuple[int, ...], spec: MaskSpec) -> list[Notice]:
    odd = [axis for axis, side in zip(found[:-2], shape[:-2], strict=True) if side > 1 and axis in _NOT_TIME]
    if not odd:
        return []
    kinds = " and ".join(_NOT_TIME[axis] for axis in odd)
    message = f"{spec.path.name} says that its pages are {kinds}, and they are read as frames of a time series"
    return [Notice("pages_not_time", message, "say what they are, such as --axes TYX if they are frames after all")]


def _checked_axes(axes: str, shape: tuple[int, ...], spec: MaskSpec) -> str:
    letters = axes.upper()
    if not (letters.isascii() and letters.isalpha() and len(set(letters)) == len(letters)):
        raise ManifestError("axes as different letters, such as TYX or TZYX", repr(axes), "name each axis once", "axes")
    if len(letters) != len(shape):
        raise ManifestError(
            f"{len(shape)} axes for {str(spec)!r}, whose shape is {shape}",
            f"{len(letters)}: {axes!r}",
            "name every axis once, such as TYX",
            "axes",
        )
    if not letters.endswith("YX"):
        raise ManifestError(
            "axes that end with YX, so that a page is an image",
            repr(axes),
            "transpose the stack and save it again, such as numpy.moveaxis(stack, -1, 0) for YXT",
            "axes",
        )
    if "T" not in letters:
        raise ManifestError("an axis T, which is time", repr(axes), "name the axis along which frames follow T", "axes")
    return letters


def _pages(shape: tuple[int, ...], axes: str | None) -> Iterator[_Page]:
    """Pages in the order of series, and of time within a series."""
    leading = shape[:-2]
    if axes is None:
        for number in range(int(np.prod(leading, dtype=np.int64))):
            yield _Page(number, number, "")
        return
    time = axes.index("T")
    others = [k for k in range(len(leading)) if k != time]
    for index in np.ndindex(*(leading[k] for k in others)):
        place = dict(zip(others, index, strict=True))
        where = "_".join(f"{axes[k].lower()}{place[k]}" for k in others if leading[k] > 1)
        for frame in range(leading[time]):
            at = tuple(frame if k == time else place[k] for k in range(len(leading)))
            yield _Page(int(np.ravel_multi_index(at, leading)), frame, where)
