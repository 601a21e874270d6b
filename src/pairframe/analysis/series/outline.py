"""`OutlineFlicker`: pixels of the masks that switch on and soon off again, or the other way round, also where mass only moves.

A wobbling outline mostly moves mass along itself: little of it is created or destroyed. The pixels tell how much it wobbles.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pairframe.results import TransportResult
from pairframe.types import Bool

HALF = 0.5  # of a pixel's mass: the rest of a pooled pixel counts as outside


@dataclass(eq=False)
class _Switched:
    """Pixels (H, W) that switched in one step and not back yet, on the image of the latest frame."""

    step: int
    on: Bool
    off: Bool


@dataclass(eq=False)
class OutlineFlicker:
    """Counts flicker while the steps of a series come in, in order.

    Attributes
    ----------
    frames : int
        A pixel that switches back within this many frames flickers.
    on_px, off_px : list of int
        Per step: pixels that switched on, or off, and are part of a flicker. Each switch counts once.
    """

    frames: int
    on_px: list[int] = field(default_factory=list)
    off_px: list[int] = field(default_factory=list)
    _open: list[_Switched] = field(default_factory=list)

    def add(self, source: Bool, target: Bool, displacement_yx_px: tuple[int, int]) -> None:
        """Add a step between two masks (H, W). The object is followed by whole pixels, see `_shift`."""
        step = len(self.on_px)
        if self._open and self._open[0].on.shape != target.shape:
            self._open = []
        shift_yx_px = _shift(source, target, displacement_yx_px)
        source = shifted(source, shift_yx_px)
        self._open = [
            _Switched(one.step, shifted(one.on, shift_yx_px), shifted(one.off, shift_yx_px))
            for one in self._open
            if step - one.step <= self.frames
        ]
        now = _Switched(step, target & ~source, source & ~target)
        self.on_px.append(0)
        self.off_px.append(0)
        for earlier in reversed(self._open):
            appeared, missed = earlier.on & now.off, earlier.off & now.on
            for pixels, first, then in (
                (appeared, self.on_px, self.off_px),
                (missed, self.off_px, self.on_px),
            ):
                count = int(np.count_nonzero(pixels))
                first[earlier.step] += count
                then[step] += count
            earlier.on, now.off = earlier.on & ~appeared, now.off & ~appeared
            earlier.off, now.on = earlier.off & ~missed, now.on & ~missed
        self._open.append(now)

    def skip(self) -> None:
        """Add a step of which nothing is known."""
        self.on_px.append(0)
        self.off_px.append(0)
        self._open = []


def _shift(source: Bool, target: Bool, displacement_yx_px: tuple[int, int]) -> tuple[int, int]:
    """The mean displacement if it makes the masks overlap better, otherwise none.

    The best overlap of all shifts would not do: an outline that shrinks leaves room to follow growth at one side.
    """
    if displacement_yx_px == (0, 0):
        return (0, 0)
    followed = np.count_nonzero(shifted(source, displacement_yx_px) & target)
    return displacement_yx_px if followed > np.count_nonzero(source & target) else (0, 0)


def masks_of(result: TransportResult) -> tuple[Bool, Bool] | None:
    """Source and target on the canvas, (Hc, Wc); None if they were aligned, so that their pixels do not correspond."""
    if result.pose is not None:
        return None
    source, target = (
        result.transform.rasterize_to_canon(mass) > HALF for mass in (result.work.mass_source, result.work.mass_target)
    )
    return source, target


def shifted(mask: Bool, shift_yx_px: tuple[int, int]) -> Bool:
    """The mask moved by whole pixels; what leaves the image is lost."""
    if shift_yx_px == (0, 0):
        return mask
    out = np.zeros_like(mask)
    (h, w), (dy, dx) = mask.shape, shift_yx_px
    if abs(dy) < h and abs(dx) < w:
        out[max(dy, 0) : h + min(dy, 0), max(dx, 0) : w + min(dx, 0)] = mask[
            max(-dy, 0) : h + min(-dy, 0), max(-dx, 0) : w + min(-dx, 0)
        ]
    return out
