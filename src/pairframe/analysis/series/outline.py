"""`OutlineFlicker`: thin bands of an outline that switch on and soon off again, or the other way round, pixel by pixel.

Transport nets flicker against growth: in a step in which an object grows at one end and its whole outline shrinks, mass moves
from the outline to the tip, and only the difference is created or destroyed. Pixels are not netted. But pixels switch where an
object moves or bends too, so only bands of at most `WIDEST_PX` count, after the shift of the whole object is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from pairframe.results import TransportResult
from pairframe.types import Float, Int

WIDEST_PX = 2  # of a band that flickers; a wider one is motion or growth, or a blink that transport sees
LEAST_GAIN = 2 / 3  # of the difference of two images: less of it is left after a shift of the whole object
_LEAST = 1e-6  # of a pixel: rounding
_HALF_RANGE = 1 << 30


@dataclass(eq=False)
class Band:
    """Pixels that switched in one step: (n, 2) places on the image, (n,) area that is left and that flickers, px."""

    yx_px: Int
    left: Float
    flickers: Float
    keys: Int

    @classmethod
    def of(cls, gained: Float, origin_yx: tuple[int, int], path_yx: Int) -> Band:
        """The thin parts of an area (H, W) that a frame gained; `path_yx` is how far the object is from where it began."""
        side = WIDEST_PX + 1
        thin = ndimage.white_tophat(gained, size=(side, side))
        on = np.argwhere(thin > _LEAST)
        at = on + np.array(origin_yx)
        home = at - path_yx + _HALF_RANGE
        values = np.asarray(thin[tuple(on.T)], dtype=np.float64)
        return cls(at, values, np.zeros(len(at)), (home[:, 0] << 31) + home[:, 1])

    def match(self, other: Band) -> None:
        """Move area of the same pixels in both from `left` to `flickers`."""
        _, i, j = np.intersect1d(self.keys, other.keys, assume_unique=True, return_indices=True)
        area = np.minimum(self.left[i], other.left[j])
        for band, at in ((self, i), (other, j)):
            band.left[at] -= area
            band.flickers[at] += area


@dataclass(eq=False)
class OutlineFlicker:
    """Finds flicker while the steps of a series come in, in order.

    Attributes
    ----------
    frames : int
        A pixel that switches back within this many frames flickers.
    on, off : list of Band or None
        Per step: pixels that switched on, on the image of the target, and off, on that of the source; None if unknown.
        `flickers` of a step is final when all steps are added.
    """

    frames: int
    on: list[Band | None] = field(default_factory=list)
    off: list[Band | None] = field(default_factory=list)
    _path_yx: Int = field(default_factory=lambda: np.zeros(2, np.int64))

    def add(self, result: TransportResult, drift_yx_um: tuple[float, float]) -> None:
        """Add a step with its mean displacement; one whose pair was aligned is skipped: its pixels do not correspond."""
        if result.pose is not None:
            self.skip()
            return
        box = result.transform.pair_crop_box_yx.clamp(result.transform.canon_shape_hw)
        source, target = (
            result.transform.rasterize_to_canon(mass)[box.slices]
            for mass in (result.work.mass_source, result.work.mass_target)
        )
        shift = best_shift(source, target, np.array(drift_yx_um) / result.units.px_size)
        before, after = self._path_yx, self._path_yx + np.array(shift)
        on = Band.of(np.maximum(target - shifted(source, shift), 0.0), (box.y0, box.x0), after)
        off = Band.of(np.maximum(source - shifted(target, (-shift[0], -shift[1])), 0.0), (box.y0, box.x0), before)
        for earlier in range(len(self.on) - 1, max(-1, len(self.on) - 1 - self.frames), -1):
            was_on, was_off = self.on[earlier], self.off[earlier]
            if was_on is None or was_off is None:
                break
            was_on.match(off)
            was_off.match(on)
        self.on.append(on)
        self.off.append(off)
        self._path_yx = after

    def skip(self) -> None:
        """Add a step of which nothing is known."""
        self.on.append(None)
        self.off.append(None)


def best_shift(source: Float, target: Float, start_yx: Float) -> tuple[int, int]:
    """The shift of the source by whole pixels, (dy, dx), that overlaps best with the target, near none or near `start_yx`.

    Overlap and not the mean displacement: an object that grows at one end does not move as a whole. It fits a little better
    when shifted to that end, so a shift must make the difference of the two images smaller by a third.
    """
    starts = {(0, 0)}
    if np.isfinite(start_yx).all():
        starts.add((round(float(start_yx[0])), round(float(start_yx[1]))))
    if len(starts) == 1:
        return 0, 0
    known: dict[tuple[int, int], float] = {}

    def overlap(shift: tuple[int, int]) -> float:
        if shift not in known:
            known[shift] = float(np.minimum(shifted(source, shift), target).sum())
        return known[shift]

    for here in starts:
        while True:
            around = [(here[0] + dy, here[1] + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
            best = max(around, key=lambda shift: (overlap(shift), -abs(shift[0]) - abs(shift[1])))
            if overlap(best) <= overlap(here):
                break
            here = best
    best = max(known, key=lambda shift: (known[shift], -abs(shift[0]) - abs(shift[1])))
    both = float(source.sum() + target.sum())
    return best if both - 2 * known[best] <= LEAST_GAIN * (both - 2 * known[0, 0]) else (0, 0)


def shifted(image: Float, shift_yx: tuple[int, int]) -> Float:
    """An image (H, W) moved by whole pixels; zero comes in at the edges."""
    found = np.zeros_like(image)
    to, of = [], []
    for side, step in zip(image.shape, shift_yx, strict=True):
        to.append(slice(max(step, 0), max(side + min(step, 0), 0)))
        of.append(slice(max(-step, 0), max(side - max(step, 0), 0)))
    found[tuple(to)] = image[tuple(of)]
    return found
