"""Profiles of a result: its maps summed in bins along the body axis, or around a centre."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from pairframe import checks
from pairframe.axis.body_axis import BodyAxis, body_axis
from pairframe.errors import AxisError
from pairframe.results import TransportResult
from pairframe.results.coverage import covered_work_px
from pairframe.results.strain_maps import areal_expansion, without_rim
from pairframe.types import Float

if TYPE_CHECKING:
    import pandas as pd

MOST_BINS = 1000
RADIAL_BY = ("centre", "outline", "angle")
RadialBy = Literal["centre", "outline", "angle"]


def axis_profile(result: TransportResult, axis: BodyAxis | None = None, *, n_bins: int = 20) -> pd.DataFrame:
    """Created, destroyed and moved mass, displacement and thickness along the body axis, one row per bin of S.

    Parameters
    ----------
    axis : BodyAxis, optional
        On the canvas of the result; by default ``body_axis(result)``, that of the source. Mass beyond its ends is in the
        first or the last bin, and the columns `mass_created_beyond` and `mass_destroyed_beyond` say how much of it.

    Returns
    -------
    DataFrame; docs/results.md lists its columns. Masses sum to those of the result.
    """
    axis = body_axis(result) if axis is None else axis
    if axis.s.shape != result.transform.canon_shape_hw or axis.units != result.units:
        raise AxisError(
            f"an axis on the canvas of the result, {result.transform.canon_shape_hw} px of {result.units.px_size:g} "
            f"{result.units.length}",
            f"one on {axis.s.shape} px of {axis.units.px_size:g} {axis.units.length}",
            "use body_axis(result), or leave axis out",
            "axis",
        )
    n_bins = checks.integer(n_bins, "n_bins", 1, MOST_BINS, error=AxisError)
    pixels = _Pixels(result)
    s = axis.coordinate(pixels.at_yx_um)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    profile = pixels.summed(s, edges, axis.direction(s), ("along", "across"))
    profile = profile.rename(columns={"low": "s_low", "high": "s_high"})
    for number, name in enumerate(
        ("mass_created", "mass_destroyed"), start=list(profile.columns).index("mass_moved") + 1
    ):
        beyond = np.zeros(n_bins)
        beyond[0] += pixels.mass(name)[s <= 0.0].sum()
        beyond[-1] += pixels.mass(name)[s >= 1.0].sum()
        profile.insert(number, f"{name}_beyond", beyond)
    middles = 0.5 * (edges[1:] + edges[:-1])
    profile["thickness_um"] = np.interp(middles, np.linspace(0.0, 1.0, len(axis.thickness_um)), axis.thickness_um)
    return profile


def radial_profile(
    result: TransportResult,
    *,
    by: RadialBy = "centre",
    centre_yx_um: tuple[float, float] | None = None,
    n_bins: int = 20,
) -> pd.DataFrame:
    """The same around a centre, for round objects and invasion assays.

    Parameters
    ----------
    by : {"centre", "outline", "angle"}
        Bins of the distance from the centre; of the distance from the outline of the source, negative inside; or of the angle
        around the centre, degrees counter-clockwise from the right as the image is shown.
    centre_yx_um : (y, x), optional
        From the upper left corner of the image; the centroid of the source (of the target, if the source is empty).
    """
    checks.choice(by, "by", RADIAL_BY, error=AxisError)
    n_bins = checks.integer(n_bins, "n_bins", 1, MOST_BINS, error=AxisError)
    if isinstance(result, TransportResult) and result.transform.is_volume:
        raise AxisError("an image", "a volume", "radial profiles are for images; leave them out", "result")
    pixels = _Pixels(result)
    if not pixels.any:
        raise AxisError("a result with some mass", "two empty masks", "leave this pair out", "result")
    centre = pixels.centroid if centre_yx_um is None else _checked_centre(centre_yx_um)
    from_centre = pixels.at_yx_um - centre
    distance = np.hypot(*from_centre.T)
    with np.errstate(invalid="ignore", divide="ignore"):
        outward = np.where(distance[:, None] > 0, from_centre / distance[:, None], np.nan)
    if by == "angle":
        value: Float = np.degrees(np.arctan2(-from_centre[:, 0], from_centre[:, 1]))
        edges: Float = np.linspace(-180.0, 180.0, n_bins + 1)
    elif by == "centre":
        value, edges = distance, np.linspace(0.0, max(float(distance.max()), 1e-12), n_bins + 1)
    else:
        value = pixels.from_outline_um
        # The outline itself is an edge of bins, so that none mixes inside and outside.
        low, high = float(value.min()), max(float(value.max()), 0.0)
        step = (high - low) / max(n_bins - 1, 1)
        first = min(math.ceil(-low / step), n_bins)
        edges = step * np.arange(-first, n_bins + 1 - first, dtype=np.float64)
    profile = pixels.summed(value, edges, outward, ("outward", "clockwise"))
    unit = "deg" if by == "angle" else "um"
    name = "angle" if by == "angle" else f"from_{by}"
    return profile.rename(columns={"low": f"{name}_low_{unit}", "high": f"{name}_high_{unit}"})


def _checked_centre(centre_yx_um: ArrayLike) -> Float:
    centre = np.asarray(centre_yx_um, dtype=np.float64)
    if centre.shape != (2,) or not np.isfinite(centre).all():
        raise AxisError("centre_yx_um of two finite numbers", repr(centre_yx_um), "e.g. (120.5, 80.0)", "centre_yx_um")
    return centre


class _Pixels:
    """The work pixels of a result that hold mass of either mask.

    Attributes
    ----------
    at_yx_um : (n, 2)
        Centres, from the upper left corner of the image.
    """

    def __init__(self, result: TransportResult) -> None:
        work, transform = result.work, result.transform
        self._result, self._on = result, (work.mass_source > 0) | (work.mass_target > 0)
        self.at_yx_um: Float = transform.work_to_canon_yx(np.argwhere(self._on) + 0.5) * result.units.px_size

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._on.any())

    def mass(self, name: str) -> Float:
        """(n,): one of the masses on the work grid."""
        found: Float = getattr(self._result.work, name)[self._on]
        return found

    @property
    def centroid(self) -> Float:
        """Of the source, or of the target if that is empty."""
        work = self._result.work
        mass = (work.mass_source if work.mass_source.any() else work.mass_target)[self._on]
        centre: Float = mass @ self.at_yx_um / mass.sum()
        return centre

    @property
    def from_outline_um(self) -> Float:
        """(n,): distance from the outline of the source, negative inside; from the edges of the pixels that count."""
        source = np.pad(covered_work_px(self._result, "source"), 1)
        if not source.any():
            is_empty = not self._result.work.mass_source.any()
            got = "an empty source" if is_empty else "one without a work pixel that is at least half covered"
            raise AxisError("a source with an outline", got, 'use by="centre"', "by")
        inside, outside = (ndimage.distance_transform_edt(on) - 0.5 for on in (source, ~source))
        signed = np.where(source, -inside, outside)[1:-1, 1:-1]
        distance: Float = signed[self._on] * self._result.transform.work_px_size_um
        return distance

    def summed(self, value: Float, edges: Float, along: Float, names: tuple[str, str]) -> pd.DataFrame:
        """Sums and means in bins of a value (n,); displacements along unit vectors (n, 2) and across, to their right as shown."""
        import pandas as pd

        result, on, n_bins = self._result, self._on, len(edges) - 1
        work, size = result.work, result.transform.work_px_size_um
        index = np.clip(np.searchsorted(edges, value, side="right") - 1, 0, n_bins - 1)

        def total(amount: Float) -> Float:
            return np.asarray(np.bincount(index, amount, n_bins), dtype=np.float64)

        columns: dict[str, Any] = {"bin": np.arange(n_bins), "low": edges[:-1], "high": edges[1:]}
        for name in ("mass_source", "mass_target", "mass_created", "mass_destroyed"):
            columns[name] = total(self.mass(name))
        left = np.where(work.velocity_valid, np.maximum(work.mass_source - work.mass_destroyed, 0.0), 0.0)[on]
        columns["mass_moved"] = total(left)

        def mean(values: Float) -> Float:
            known = np.isfinite(values) & (left > 0)
            weight = total(np.where(known, left, 0.0))
            with np.errstate(invalid="ignore", divide="ignore"):
                found: Float = total(np.where(known, left * np.where(known, values, 0.0), 0.0)) / weight
            return found

        velocity = work.velocity_px[on] * size
        columns["displacement_um"] = mean(np.hypot(velocity[:, 0], velocity[:, 1]))
        columns[f"displacement_{names[0]}_um"] = mean((velocity * along).sum(axis=1))
        columns[f"displacement_{names[1]}_um"] = mean(velocity[:, 0] * along[:, 1] - velocity[:, 1] * along[:, 0])
        strain = without_rim(result)
        if strain is not None and work.local_growth_rate is not None:
            columns["areal_expansion"] = mean(areal_expansion(strain[on]))
            rate, mass = work.local_growth_rate[on], work.mass_source[on]
            known = ~np.isnan(rate)
            with np.errstate(invalid="ignore", divide="ignore"):
                descends = total(np.where(known, mass * np.exp(np.where(known, rate, 0.0)), 0.0))
                columns["local_growth_rate"] = np.log(descends / total(np.where(known, mass, 0.0)))
        frame = pd.DataFrame(columns)
        frame.attrs["length_unit"] = result.units.length
        return frame
