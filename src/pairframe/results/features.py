"""Features of a comparison: one number each, from the work grid. `schema.FEATURES` lists their names and units.

None of them depends on the canvas, on padding or on where the pair lies on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from types import EllipsisType
from typing import Any

import numpy as np

from pairframe.frame import tight_box
from pairframe.problem import penalty_class
from pairframe.results.result import TransportResult
from pairframe.results.schema import BAND_EDGES_BLUR, BAND_NAMES, FEATURES
from pairframe.results.strain_maps import anisotropy, areal_expansion, without_rim
from pairframe.types import Bool, Float

Place = tuple[EllipsisType | slice, ...]  # of pixels, along all axes of the grid


def features_of(result: TransportResult) -> dict[str, float]:
    """Every column of `schema.FEATURES`; NaN if there is nothing to measure."""
    parts = Parts(result)
    return {column.name: FUNCTIONS[column.name](parts) for column in FEATURES}


def volume_columns(result: TransportResult) -> dict[str, Any]:
    """Every column of `volume_columns.VOLUME` but the motion, for a volume."""
    parts, transform = Parts(result), result.transform
    per_mass = parts.extent_per_mass
    return {
        "volume_created_um3": result.total_mass_created * per_mass,
        "volume_destroyed_um3": result.total_mass_destroyed * per_mass,
        "volume_moved_um3": result.total_mass_moved * per_mass,
        "mean_displacement_dz_um": parts.mean_vector_um[0],
        **{f"px_size_{axis}_um": side for axis, side in zip("zyx", transform.px_sides_um, strict=True)},
        "canon_depth_px": transform.canon_shape_hw[0],
        "work_grid_depth_px": transform.work_shape_hw[0],
    }


class Parts:
    """The quantities that several features share, each computed once.

    Means, quantiles and root mean squares weigh each work pixel with the mass that left it, as the mean displacement does.

    Attributes
    ----------
    velocity_px : (H, W, 2)
        Displacement on the smallest box around the pixels where it is known, work px.
    valid : (H, W) bool
        Where it is known.
    weight : (H, W)
        Mass that left each pixel.
    """

    def __init__(self, result: TransportResult) -> None:
        box = _known_box(result.work.velocity_valid)
        self.result = result
        self.velocity_px, self.valid = result.work.velocity_px[box], result.work.velocity_valid[box]
        self.weight = left_mass(result)[box]
        self._box = box

    @property
    def total(self) -> float:
        """Moved, created and destroyed mass; NaN if a fixed box has cut away all of both masks."""
        result = self.result
        return result.total_mass_moved + result.total_mass_created + result.total_mass_destroyed or math.nan

    @property
    def area_per_mass_um2(self) -> float:
        """Area of a unit of mass; NaN for intensities and distances, which do not count pixels, and for volumes."""
        return math.nan if self.result.transform.is_volume else self.extent_per_mass

    @property
    def extent_per_mass(self) -> float:
        """Area, or volume, of a unit of mass; NaN if mass does not count pixels."""
        result = self.result
        return result.transform.px_area_um2 if result.config.mass.is_area else math.nan

    @cached_property
    def moved(self) -> tuple[Float, Float]:
        """Displacements (N, 2) in um of the pixels that mass left, and that mass (N,)."""
        on = self.weight > 0
        return self.velocity_px[on] * self.result.transform.work_px_size_um, self.weight[on]

    @cached_property
    def speed_um(self) -> Float:
        """Their lengths, (N,)."""
        return lengths_of(self.moved[0])

    @cached_property
    def mean_vector_um(self) -> tuple[float, ...]:
        """Mean displacement vector, (dy, dx), or (dz, dy, dx)."""
        velocity_um, weight = self.moved
        n_axes = int(velocity_um.shape[1])
        if weight.size == 0:
            return (math.nan,) * n_axes
        share = weight / weight.sum()
        return tuple(float(share @ velocity_um[:, axis]) for axis in range(n_axes))

    @cached_property
    def quantiles_um(self) -> list[float]:
        """Median and 90th percentile of the displacement."""
        return weighted_quantiles(self.speed_um, self.moved[1], (0.5, 0.9))

    @cached_property
    def expansion_and_rotation(self) -> tuple[Float, Float]:
        """Divergence and curl of the displacement field of an image, (H, W) each; work px per work px, so the same in any unit.

        The curl of a volume is a vector; NaN stands for it.
        """
        if self.valid.ndim != 2:
            spacing = self.result.units.spacing
            expansion = sum(
                known_difference(np.ascontiguousarray(self.velocity_px[..., axis]), self.valid, axis) / side
                for axis, side in enumerate(spacing)
            )
            return np.asarray(expansion), np.broadcast_to(np.nan, self.valid.shape)
        fields = np.ascontiguousarray(np.moveaxis(self.velocity_px, -1, 0))
        (dy_by_y, dx_by_y), (dy_by_x, dx_by_x) = (known_difference(fields, self.valid, axis) for axis in (0, 1))
        return dy_by_y + dx_by_x, dy_by_x - dx_by_y

    @cached_property
    def strain(self) -> Float:
        """Gradient of the displacement (H, W, 2, 2), NaN in the rim and if it was not computed; a single one for volumes."""
        found = without_rim(self.result)
        if found is None:
            return np.full((*(self.valid.shape if self.valid.ndim == 2 else self._one_px), 2, 2), np.nan)
        return found[self._box]

    @property
    def _one_px(self) -> tuple[int, ...]:
        return (1,) * self.valid.ndim

    @cached_property
    def local_growth_rate(self) -> Float:
        """(H, W); NaN if it was not computed, or no mass is left."""
        found = self.result.work.local_growth_rate
        if found is None:
            return np.full(self.valid.shape if self.valid.ndim == 2 else self._one_px, np.nan)
        return found[self._box]

    @cached_property
    def response(self) -> tuple[float, float]:
        """See `shift_response`."""
        return shift_response(self.result)

    @cached_property
    def bands(self) -> list[float]:
        """See `band_energies`."""
        blur_px = self.result.blur_um / self.result.transform.work_px_size_um
        return band_energies(self.velocity_px, self.valid, blur_px, self.result.units.spacing)

    def mean_of(self, field: Float) -> float:
        """Weighted mean of a field (H, W) where it is known."""
        values, weights = self._known(field)
        return float(weights @ values / weights.sum()) if values.size else math.nan

    def rms_of(self, field: Float) -> float:
        """Weighted root mean square of a field (H, W) where it is known."""
        return _weighted_rms(*self._known(field))

    def _known(self, field: Float) -> tuple[Float, Float]:
        on = np.isfinite(field) & (self.weight > 0)
        return np.broadcast_to(field, on.shape)[on], self.weight[on]


def _known_box(valid: Bool) -> tuple[slice, ...]:
    """Index of the smallest box around the known pixels; empty if there are none."""
    box = tight_box(valid)
    return (slice(0),) * valid.ndim if box is None else box.slices


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole > 0 else math.nan


def shift_response(result: TransportResult) -> tuple[float, float]:
    """Shares of a small rigid shift that are seen as motion, along the source's long axis and across it.

    ``kl`` tilts the marginals instead of moving a large object: for Gaussians, and about so for other shapes, the share is
    ``1 / (1 + 2 s^2/lambda + 2 t^2/lambda)`` with the spreads s and t of source and target along the shift. Other
    penalties do not tilt; they see all of a shift that is within their reach.
    """
    config, work = result.config, result.work
    if config.metric != "sqeuclidean" or not (work.mass_source.any() and work.mass_target.any()):
        return math.nan, math.nan
    covariances = [_covariance(mass, result.units.spacing) for mass in (work.mass_source, work.mass_target)]
    axes = np.linalg.eigh(covariances[0])[1][:, ::-1]  # long axis first
    relaxation = result.scales.cost_work_from_cost_units(result.lambda_unbalanced)
    tilt = np.zeros(axes.shape[0])
    for name, covariance in zip(config.penalties_ab, covariances, strict=True):
        if penalty_class(name).tilts:
            tilt += 2.0 * (axes * (covariance @ axes)).sum(axis=0) / relaxation
    share = 1.0 / (1.0 + tilt)
    return float(share[0]), float(share[-1])


def _covariance(mass: Float, spacing: tuple[float, ...]) -> Float:
    """(ndim, ndim): of the positions of the mass, px^2."""
    on = mass > 0
    positions, weights = np.array(on.nonzero()) * np.array(spacing)[:, None], mass[on]
    weights = weights / weights.sum()
    # `np.cov` would wake the threads of BLAS, which spin.
    positions -= np.einsum("in,n->i", positions, weights)[:, None]
    return np.asarray(np.einsum("in,jn->ij", positions * weights, positions))


def _growth_rate(result: TransportResult) -> float:
    both = result.M_source > 0 and result.M_target > 0
    return math.log(result.M_target / result.M_source) if both else math.nan


# --- displacement ----------------------------------------------------------------------------


def left_mass(result: TransportResult) -> Float:
    """Mass that left each work pixel, (Hw, Ww); 0 where the displacement is not known."""
    work = result.work
    return np.where(work.velocity_valid, np.maximum(work.mass_source - work.mass_destroyed, 0.0), 0.0)


def lengths_of(vectors: Float) -> Float:
    """(N,): lengths of vectors (N, ndim)."""
    lengths: Float = reduce(np.hypot, vectors.T)
    return lengths


def weighted_quantiles(values: Float, weights: Float, shares: Sequence[float]) -> list[float]:
    """For each share the smallest of the values (n,) such that at least that share of the weight is at or below it; NaN without any."""
    if values.size == 0:
        return [math.nan] * len(shares)
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    # The last sum may be a rounding error below the requested share of itself.
    places = np.searchsorted(below, np.array(shares) * below[-1] * (1 - 1e-12))
    return [float(values[order[place]]) for place in places]


# --- derivatives -----------------------------------------------------------------------------


def known_difference(fields: Float, valid: Bool, axis: int) -> Float:
    """Derivatives of fields (..., H, W) along an axis of the grid, per pixel, from the neighbours that are known (H, W).

    Central where both neighbours are known, one-sided where one is, NaN where none is or the pixel itself is not known.
    """
    later = (slice(None),) * (valid.ndim - 1 - axis)
    before: Place = (..., slice(None, -1), *later)
    after: Place = (..., slice(1, None), *later)
    both = valid[after] & valid[before]
    step = np.where(both, fields[after] - fields[before], 0.0)
    total, steps = np.zeros(fields.shape), np.zeros(valid.shape)
    for place in (before, after):  # the step after each pixel, and the step before it
        total[place] += step
        steps[place] += both
    steps[steps == 0] = np.nan
    return total / steps


# --- wavelengths -----------------------------------------------------------------------------


def band_energies(velocity_px: Float, valid: Bool, blur_px: float, spacing: Sequence[float] = ()) -> list[float]:
    """Shares of a field's energy by wavelength: six bands that sum to 1, from long to short; NaN for a field of zeros.

    The field is taken on the box around the known pixels, 0 where it is unknown, and transformed by an orthonormal DCT-II: its
    squared coefficients sum to the squared field. A coefficient (ky, kx) on (Ny, Nx) pixels has the wavelength
    ``1 / hypot(ky / 2 Ny, kx / 2 Nx)``; that of the mean is infinite.

    Parameters
    ----------
    velocity_px : (H, W, 2)
        In any unit.
    valid : (H, W) bool
        Where it is known.
    blur_px : float
        The unit of the band edges, pixels.
    spacing : one float per axis
        Sides of a pixel, px; 1 along each axis by default.
    """
    from scipy.fft import dctn

    if not valid.any():
        return [math.nan] * len(BAND_NAMES)
    box = _known_box(valid)
    fields = np.where(valid[box], np.moveaxis(velocity_px[box], -1, 0), 0.0)
    energy = np.square(dctn(fields, norm="ortho", axes=range(1, fields.ndim))).sum(axis=0)
    total = float(energy.sum())
    if total == 0:
        return [math.nan] * len(BAND_NAMES)
    sides = spacing or (1.0,) * energy.ndim
    squares = ((np.arange(n) / (2 * n) * (blur_px / side)) ** 2 for n, side in zip(energy.shape, sides, strict=True))
    # Squared frequencies, from low to high, so that the mean needs no infinity; an edge belongs to the band below it.
    edges = [edge**-2.0 for edge in reversed(BAND_EDGES_BLUR)]
    band = np.searchsorted(edges, reduce(np.add.outer, squares).ravel(), side="left")
    shares: list[float] = (np.bincount(band, energy.ravel(), len(BAND_NAMES)) / total).tolist()
    return shares


def _weighted_rms(values: Float, weights: Float) -> float:
    return math.sqrt(float(weights @ values**2 / weights.sum())) if values.size else math.nan


# --- the features ----------------------------------------------------------------------------

FUNCTIONS: Mapping[str, Callable[[Parts], float]] = {
    "percent_created": lambda of: _percent(of.result.total_mass_created, of.result.M_target),
    "percent_destroyed": lambda of: _percent(of.result.total_mass_destroyed, of.result.M_source),
    "percent_moved": lambda of: _percent(of.result.total_mass_moved, of.result.M_source),
    "fraction_created": lambda of: of.result.total_mass_created / of.total,
    "fraction_destroyed": lambda of: of.result.total_mass_destroyed / of.total,
    "fraction_moved": lambda of: of.result.total_mass_moved / of.total,
    "area_created_um2": lambda of: of.result.total_mass_created * of.area_per_mass_um2,
    "area_destroyed_um2": lambda of: of.result.total_mass_destroyed * of.area_per_mass_um2,
    "area_moved_um2": lambda of: of.result.total_mass_moved * of.area_per_mass_um2,
    "growth_rate": lambda of: _growth_rate(of.result),
    "mean_displacement_um": lambda of: of.result.mean_displacement_um,
    "mean_displacement_dy_um": lambda of: of.mean_vector_um[-2],
    "mean_displacement_dx_um": lambda of: of.mean_vector_um[-1],
    "p50_displacement_um": lambda of: of.quantiles_um[0],
    "p90_displacement_um": lambda of: of.quantiles_um[1],
    "max_displacement_um": lambda of: float(of.speed_um.max()) if of.speed_um.size else math.nan,
    "rms_displacement_um": lambda of: _weighted_rms(of.speed_um, of.moved[1]),
    "expansion_mean": lambda of: of.mean_of(of.expansion_and_rotation[0]),
    "expansion_rms": lambda of: of.rms_of(of.expansion_and_rotation[0]),
    "rotation_mean": lambda of: of.mean_of(of.expansion_and_rotation[1]),
    "rotation_rms": lambda of: of.rms_of(of.expansion_and_rotation[1]),
    "shift_response_long": lambda of: of.response[0],
    "shift_response_short": lambda of: of.response[1],
    "areal_expansion_mean": lambda of: of.mean_of(areal_expansion(of.strain)),
    "areal_expansion_rms": lambda of: of.rms_of(areal_expansion(of.strain)),
    "anisotropy_mean": lambda of: of.mean_of(anisotropy(of.strain)),
    "local_growth_rate_rms": lambda of: of.rms_of(of.local_growth_rate),
    **{name: lambda of, number=number: of.bands[number] for number, name in enumerate(BAND_NAMES)},  # type: ignore[misc]
}
