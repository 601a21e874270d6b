"""Displacement interpolation: the mass between source and target as it moves, fades out and fades in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairframe import checks
from pairframe.report.view import Seen
from pairframe.results import TransportResult
from pairframe.types import Bool, Float, Int

MAX_PARTICLES = 400_000
MAX_SPLIT = 64
UNFOLDED_AFTER = 0.15  # share of the displacement
RIGID = 0.01  # px: neighbours whose distance changes by less move rigidly
MIDWAY_BLUR_PX = 0.7  # hides the moire pattern of two grids; none at both ends or without deformation


@dataclass(frozen=True, eq=False)
class _Particles:
    """Mass that starts on pixel centres and moves along straight lines.

    Attributes
    ----------
    mass : (N,)
    home_yx : (N, 2)
        Centre of its pixel, work px (the centre of pixel i is i).
    place_yx : (N, 2)
        Where in its pixel it belongs, work px from the centre. A pixel's mass lies on its centre at home, takes its
        places soon after, and ends as far apart as neighbours do: an expansion leaves no holes.
    way_yx : (N, 2)
        To the other end, work px.
    """

    mass: Float
    home_yx: Float
    place_yx: Float
    way_yx: Float

    @property
    def share_split(self) -> float:
        """Share of the mass in pixels with several particles, which is stretched or squeezed as it moves."""
        total = float(self.mass.sum())
        return float(self.mass[self.place_yx.any(axis=-1)].sum()) / total if total > 0 else 0.0

    def at(self, share: float, shape_hw: tuple[int, int]) -> Float:
        """(H, W) mass after that share of the way."""
        unfolded = min(1.0, share / UNFOLDED_AFTER)
        return splat(self.home_yx + unfolded * self.place_yx + share * self.way_yx, self.mass, shape_hw)


@dataclass(frozen=True, eq=False)
class Interpolation:
    """McCann's displacement interpolation of a result, in mass per work pixel inside the frame.

    Moved mass is followed forward from the source and backward from the target, weighted by how near each end is.
    So both end frames are exact, and the total is linear in time.
    """

    left: _Particles
    arrived: _Particles
    mass_destroyed: Float
    mass_created: Float

    @classmethod
    def of(cls, result: Seen) -> Interpolation:
        """Interpolation along the displacement field of a result."""
        work, valid_box = result.work, result.transform.work_valid_box_yx.slices
        destroyed, created = work.mass_destroyed[valid_box], work.mass_created[valid_box]
        left = np.maximum(work.mass_source[valid_box] - destroyed, 0.0)
        arrived = np.maximum(work.mass_target[valid_box] - created, 0.0)
        velocity = work.velocity_px[valid_box]
        forward = _particles(left, _filled(velocity, np.isfinite(velocity[..., 0])))
        backward = _particles(arrived, _way_back(forward, arrived))
        return cls(forward, backward, destroyed, created)

    def parts(self, time: float) -> tuple[Float, Float, Float]:
        """Moving, created and destroyed mass at a time in 0..1; (H, W) each."""
        shape = (self.mass_created.shape[0], self.mass_created.shape[1])
        on_its_way = (1 - time) * self.left.at(time, shape) + time * self.arrived.at(1 - time, shape)
        deformed = max(self.left.share_split, self.arrived.share_split)
        on_its_way = _blurred(on_its_way, 4 * MIDWAY_BLUR_PX * deformed * time * (1 - time))
        return on_its_way, time * self.mass_created, (1 - time) * self.mass_destroyed

    def frame(self, time: float) -> Float:
        """(H, W) mass at a time in 0..1."""
        moved, created, destroyed = self.parts(time)
        return moved + created + destroyed


def interpolation_frames(result: TransportResult, n: int) -> Float:
    """The pair as `n` frames at even times, the first one the source and the last one the target.

    Moved mass travels straight along the displacement field, destroyed mass fades out, created mass fades in.

    Returns
    -------
    (n, H, W) mass per work pixel inside the frame; totals go from `M_source` to `M_target` in even steps.
    """
    way = Interpolation.of(result)
    return np.stack([way.frame(time) for time in frame_times(n)])


def frame_times(n: int) -> list[float]:
    """`n` even times from 0 to 1."""
    n = checks.integer(n, "n", 2, fix="n counts the source, the target and the frames between them, e.g. 24")
    return [k / (n - 1) for k in range(n)]


def splat(at_yx: Float, mass: Float, shape_hw: tuple[int, int]) -> Float:
    """Share each particle's mass among the four nearest pixel centres; none is lost, at the edge neither.

    Parameters
    ----------
    at_yx : (N, 2)
        Work px; what lies outside is moved to the edge.
    mass : (N,)

    Returns
    -------
    (H, W) mass per pixel.
    """
    h, w = shape_hw
    y, x = np.clip(at_yx[:, 0], 0, h - 1), np.clip(at_yx[:, 1], 0, w - 1)
    y0, x0 = y.astype(np.intp), x.astype(np.intp)
    y1, x1 = np.minimum(y0 + 1, h - 1), np.minimum(x0 + 1, w - 1)
    fy, fx = y - y0, x - x0
    total = np.zeros(h * w)
    for rows, columns, weight in (
        (y0, x0, (1 - fy) * (1 - fx)),
        (y0, x1, (1 - fy) * fx),
        (y1, x0, fy * (1 - fx)),
        (y1, x1, fy * fx),
    ):
        total += np.bincount(rows * w + columns, weights=mass * weight, minlength=h * w)
    return total.reshape(h, w)


# --- parts -----------------------------------------------------------------------------------


def _particles(mass: Float, way_yx: Float) -> _Particles:
    """One particle per pixel with mass (H, W), or several where neighbours part; `way_yx` (H, W, 2) is known everywhere."""
    from scipy.ndimage import map_coordinates

    splits = _splits(_apart(way_yx, mass > 0), mass > 0)
    nothing = np.zeros((0, 2))
    masses, homes, places, ways = [np.zeros(0)], [nothing], [nothing], [nothing]
    for key in np.unique(splits[mass > 0] @ np.array([MAX_SPLIT + 1, 1])):
        ny, nx = divmod(int(key), MAX_SPLIT + 1)
        on = (mass > 0) & (splits[..., 0] == ny) & (splits[..., 1] == nx)
        offsets = np.meshgrid((np.arange(ny) + 0.5) / ny - 0.5, (np.arange(nx) + 0.5) / nx - 0.5, indexing="ij")
        inside = np.stack([offset.ravel() for offset in offsets], axis=-1)  # (ny nx, 2)
        home = np.repeat(np.argwhere(on).astype(np.float64), ny * nx, axis=0)
        place = np.tile(inside, (int(on.sum()), 1))
        starts = (home + place).T
        way = [map_coordinates(way_yx[..., k], starts, order=1, mode="nearest") for k in (0, 1)]
        masses.append(np.repeat(mass[on] / (ny * nx), ny * nx))
        homes.append(home)
        places.append(place)
        ways.append(np.stack(way, axis=-1))
    return _Particles(np.concatenate(masses), np.concatenate(homes), np.concatenate(places), np.concatenate(ways))


def _apart(way_yx: Float, on: Bool) -> Float:
    """(H, W, 2) how far apart neighbours with mass end, along each axis, in px; 1 where they keep their distance."""
    apart = np.ones(way_yx.shape)
    for axis in (0, 1):
        change = np.diff(way_yx, axis=axis)
        change[..., axis] += 1.0  # neighbours start one pixel apart
        distance = np.abs(change).max(axis=-1)
        here, there = ((slice(None),) * axis + (cut,) for cut in (slice(None, -1), slice(1, None)))
        rigid = (np.abs(distance - 1) < RIGID) | ~(on[here] & on[there])
        # Where neighbours come nearer, a pixel is split a little too: the beat of two grids makes stripes.
        distance = np.where(rigid, 1.0, np.maximum(distance, 1 + RIGID))
        for side in (here, there):
            np.maximum(apart[side][..., axis], distance, out=apart[side][..., axis])
    return apart


def _splits(apart: Float, on: Bool) -> Int:
    """(H, W, 2) particles along each axis of a pixel: about twice the distance of its neighbours; 1 where that stays."""
    wanted = np.where(apart > 1, 2 ** np.ceil(np.log2(2 * apart) - 0.25), 1).astype(np.int64)
    most = MAX_SPLIT
    splits = np.minimum(wanted, most)
    while most > 1 and splits[on].prod(axis=-1).sum() > MAX_PARTICLES:
        most //= 2
        splits = np.minimum(wanted, most)
    return splits


def _way_back(forward: _Particles, arrived: Float) -> Float:
    """(H, W, 2) from each target pixel to where its mass came from: the mean over what lands around it."""
    shape = (arrived.shape[0], arrived.shape[1])
    if not forward.mass.any() or not arrived.any():
        return np.zeros((*shape, 2))
    ends = forward.home_yx + forward.place_yx + forward.way_yx
    landed = splat(ends, forward.mass, shape)
    carried = [splat(ends, forward.mass * forward.way_yx[:, k], shape) for k in (0, 1)]
    enough = 0.05 * float(np.median(arrived[arrived > 0]))
    way, known = np.zeros((*shape, 2)), np.zeros(shape, dtype=bool)
    blur = 0.5
    while not known[arrived > 0].all() and blur < max(shape):
        density = _blurred(landed, blur)
        new = ~known & (density > enough)
        for k in (0, 1):
            way[new, k] = -_blurred(carried[k], blur)[new] / density[new]
        known |= new
        blur *= 2
    return _filled(way, known)


def _filled(way_yx: Float, known: Bool) -> Float:
    """Unknown entries of (H, W, 2) take the nearest known one; zero when there is none."""
    from scipy.ndimage import distance_transform_edt

    if not known.any():
        return np.zeros(way_yx.shape)
    nearest = distance_transform_edt(~known, return_distances=False, return_indices=True)
    filled: Float = way_yx[nearest[0], nearest[1]]
    return filled


def _blurred(mass: Float, sigma_px: float) -> Float:
    """Gaussian blur that keeps the total: what would leave the image is reflected into it."""
    from scipy.ndimage import gaussian_filter

    return mass if sigma_px == 0 else np.asarray(gaussian_filter(mass, sigma_px, mode="reflect"), dtype=np.float64)
