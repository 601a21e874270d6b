"""`OutlineFlicker`: pixels of the masks that switch on and soon off again, or the other way round, also where mass only moves.

A wobbling outline mostly moves mass along itself: little of it is created or destroyed. The pixels tell how much it wobbles,
as long as the object is at rest: one that moves switches pixels too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pairframe.results import TransportResult
from pairframe.types import Bool

AT_REST_PX = 1.0  # mean displacement of a step
HALF = 0.5  # of a pixel's mass: the rest of a pooled pixel counts as outside


@dataclass(eq=False)
class _Switched:
    """Pixels (H, W) that switched in one step and not back yet."""

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

    def add(self, source: Bool, target: Bool) -> None:
        """Add a step between two masks (H, W)."""
        step = len(self.on_px)
        if self._open and self._open[0].on.shape != target.shape:
            self._open = []
        self._open = [one for one in self._open if step - one.step <= self.frames]
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


def masks_of(result: TransportResult) -> tuple[Bool, Bool] | None:
    """Source and target on the canvas, (Hc, Wc); None if their pixels do not correspond: aligned, or moving."""
    if result.pose is not None or not result.mean_displacement_um <= AT_REST_PX * result.units.px_size:
        return None
    source, target = (
        result.transform.rasterize_to_canon(mass) > HALF for mass in (result.work.mass_source, result.work.mass_target)
    )
    return source, target
