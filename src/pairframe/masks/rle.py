"""Masks as COCO run-length encoding: lengths of runs, off and on in turn, down the columns of the image.

The lengths are a list (uncompressed), or a text in which each is written as its difference from the one two before it, in
digits of five bits. The text is decoded here and not by `pycocotools`, which takes it on trust: of a truncated one it reads
and writes beyond its memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.checks import shown
from pairframe.errors import FileError, MaskError
from pairframe.masks.arrays import MAX_PIXELS
from pairframe.masks.mask import Mask
from pairframe.types import Bool

_FIRST, _DIGITS, _MORE, _SIGN = 48, 31, 32, 16  # of a character: code of 0, value, whether another follows, sign
_MOST_DIGITS = 8  # of a length: 40 bit, more than any image has pixels
_LONGEST = 2 ** (5 * (_MOST_DIGITS - 1))
_FIX = "write the mask again, e.g. with pycocotools.mask.encode"


@dataclass(frozen=True)
class CocoRle:
    """A mask as run lengths.

    Parameters
    ----------
    shape_hw : (H, W)
        Of the canvas, pixels.
    counts : str
        Run lengths, compressed as `pycocotools` does; checked when they are decoded.
    """

    shape_hw: tuple[int, int]
    counts: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape_hw", _checked_shape(self.shape_hw))
        if not isinstance(self.counts, str):
            raise MaskError("compressed counts as text", shown(self.counts), "use CocoRle.from_coco")

    @classmethod
    def from_coco(cls, counts: str | bytes | Sequence[int], size: Sequence[int]) -> CocoRle:
        """From the two values of COCO: ``counts``, compressed or a list of lengths, and ``size``, (H, W)."""
        if isinstance(counts, bytes):
            try:
                counts = counts.decode("ascii")
            except UnicodeDecodeError as error:
                raise MaskError("run lengths as ASCII text", shown(counts[:20]), _FIX, "counts") from error
        if isinstance(counts, str):
            return cls(_checked_shape(size), counts)
        return cls(_checked_shape(size), _compressed(_checked_lengths(counts)))

    @classmethod
    def from_mask(cls, mask: ArrayLike | Mask) -> CocoRle:
        """Encode a binary mask, (H, W)."""
        own = mask if isinstance(mask, Mask) else Mask.from_array(mask)
        if not own.is_binary:
            raise MaskError("a binary mask", "a density", "threshold it first, or write it as a TIFF")
        flat = own.values.ravel(order="F")
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        start = [0, 0] if flat[0] else [0]  # the first run is off
        lengths = np.diff(np.concatenate([start, changes, [flat.size]]))
        return cls(own.shape_hw, _compressed(lengths))

    def decode(self) -> Bool:
        """The mask, (H, W) bool; an error if the lengths do not add up to the pixels of the canvas."""
        height, width = self.shape_hw
        lengths = self.lengths()
        total = int(lengths.sum())
        if total != height * width:
            raise MaskError(
                f"run lengths that add up to {height} x {width} = {height * width} px",
                f"{total} px" + (": it may be truncated" if total < height * width else ""),
                f"{_FIX}, or correct its size (height before width)",
                "counts",
            )
        flat = np.repeat(np.arange(lengths.size) % 2 == 1, lengths)
        return np.ascontiguousarray(flat.reshape(width, height).T)

    def lengths(self) -> NDArray[np.int64]:
        """The run lengths, uncompressed."""
        codes = np.frombuffer(self.counts.encode("utf-8", "replace"), np.uint8).astype(np.int64) - _FIRST
        if codes.size == 0 or codes.min() < 0 or codes.max() >= 2 * _MORE:
            raise MaskError("run lengths in the letters of COCO, 0 to o", shown(self.counts[:40]), _FIX, "counts")
        is_last = (codes & _MORE) == 0
        if not is_last[-1]:
            raise MaskError("complete run lengths", "a text that ends within a number: it is truncated", _FIX, "counts")
        ends = np.flatnonzero(is_last)
        starts = np.concatenate([[0], ends[:-1] + 1])
        n_digits = ends - starts + 1
        if n_digits.max() > _MOST_DIGITS:
            raise MaskError(f"run lengths of at most {_MOST_DIGITS} digits", f"one of {n_digits.max()}", _FIX, "counts")
        place = np.arange(codes.size) - np.repeat(starts, n_digits)
        values = np.add.reduceat((codes & _DIGITS) << (5 * place), starts)
        values -= np.where(codes[ends] & _SIGN, np.int64(1) << (5 * n_digits), 0)
        values[1::2] = np.cumsum(values[1::2])
        values[2::2] = np.cumsum(values[2::2])
        return _checked_lengths(values)

    def to_coco(self) -> dict[str, Any]:
        """``{"size": [H, W], "counts": "..."}``, as `pycocotools` takes it."""
        return {"size": list(self.shape_hw), "counts": self.counts}

    @property
    def sha256(self) -> str:
        """Hash of the content."""
        return hashlib.sha256(
            f"{self.shape_hw[0]}x{self.shape_hw[1]}:{self.counts}".encode("utf-8", "replace")
        ).hexdigest()


def _compressed(lengths: NDArray[np.int64]) -> str:
    rest = lengths.copy()
    rest[3:] -= lengths[1:-2]
    digits = np.zeros((_MOST_DIGITS, lengths.size), np.uint8)
    is_used = np.zeros(digits.shape, bool)
    is_open = np.ones(lengths.size, bool)
    for k in range(_MOST_DIGITS):
        digit = rest & _DIGITS
        rest = rest >> 5
        goes_on = is_open & (rest != np.where(digit & _SIGN, -1, 0))
        digits[k], is_used[k] = digit + _FIRST + np.where(goes_on, _MORE, 0), is_open
        is_open = goes_on
    return digits.T[is_used.T].tobytes().decode("ascii")


def _checked_lengths(given: Any) -> NDArray[np.int64]:
    try:
        lengths = np.asarray(given)
        is_whole = lengths.ndim == 1 and lengths.size > 0 and lengths.dtype.kind in "iu"
    except (ValueError, TypeError, OverflowError):
        is_whole = False
    if not is_whole or lengths.min() < 0 or lengths.max() >= _LONGEST:
        raise MaskError("run lengths that are whole numbers of pixels, 0 or more", shown(given), _FIX, "counts")
    return lengths.astype(np.int64)


def _checked_shape(size: Any) -> tuple[int, int]:
    """(H, W); an error before anything is allocated if an image of this size is not read."""
    sides = list(size) if isinstance(size, list | tuple | np.ndarray) else []
    whole = [side for side in sides if isinstance(side, int | np.integer) and not isinstance(side, bool) and side > 0]
    if len(sides) != 2 or len(whole) != 2:
        raise MaskError(
            "a size of two positive integers, height and width in pixels", shown(size), "e.g. [256, 576]", "size"
        )
    height, width = int(whole[0]), int(whole[1])
    if height * width > MAX_PIXELS:
        raise FileError(
            f"at most {MAX_PIXELS} pixels", f"{height} x {width} = {height * width}", "crop or shrink the mask", "size"
        )
    return height, width
