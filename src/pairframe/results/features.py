"""Features of a comparison: one number each, raw, from the work grid. `schema.FEATURES` names them and their units.

None of them depends on the canvas, on padding or on where the pair lies on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pairframe.results.result import TransportResult
from pairframe.results.schema import BAND_EDGES_BLUR, BAND_NAMES

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def features_of(result: TransportResult) -> dict[str, float]:
    """Every column of `schema.FEATURES`; NaN where there is nothing to speak of.

    Means, quantiles and root mean squares weigh each work pixel with the mass that left it, as the mean displacement does.
    """
    box = _known_box(result.work.velocity_valid)
    velocity_px, valid = result.work.velocity_px[box], result.work.velocity_valid[box]
    weight = left_mass(result)[box]
    size_um = result.transform.work_px_size_um
    bands = band_energies(velocity_px, valid, result.blur_um / size_um)
    return {
        **_totals(result),
        **_displacements(velocity_px * size_um, weight),
        **_gradients(velocity_px, valid, weight),
        **dict(zip(BAND_NAMES, bands, strict=True)),
    }


def _known_box(valid: Bool) -> tuple[slice, slice]:
    """The smallest box around what is known; empty where nothing is."""
    rows, columns = (np.flatnonzero(valid.any(axis=axis)) for axis in (1, 0))
    if rows.size == 0:
        return np.s_[:0, :0]
    return np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


# --- mass ------------------------------------------------------------------------------------


def _totals(result: TransportResult) -> dict[str, float]:
    moved, created, destroyed = result.total_mass_moved, result.total_mass_created, result.total_mass_destroyed
    # Only masks have an area: intensities and distances do not count pixels.
    area_um2 = result.transform.px_area_um2 if result.config.mass_mode == "uniform" else math.nan
    both = result.M_source > 0 and result.M_target > 0
    whole = moved + created + destroyed or math.nan  # a fixed box may have cut away all of both masks
    return {
        "area_moved_um2": moved * area_um2,
        "area_created_um2": created * area_um2,
        "area_destroyed_um2": destroyed * area_um2,
        "percent_moved": 100 * moved / result.M_source if result.M_source > 0 else math.nan,
        "fraction_moved": moved / whole,
        "fraction_created": created / whole,
        "fraction_destroyed": destroyed / whole,
        "growth_rate": math.log(result.M_target / result.M_source) if both else math.nan,
    }


# --- displacement ----------------------------------------------------------------------------


def left_mass(result: TransportResult) -> Float:
    """Mass that left each work pixel, (Hw, Ww); 0 where the displacement is not known."""
    work = result.work
    return np.where(work.velocity_valid, np.maximum(work.mass_source - work.mass_destroyed, 0.0), 0.0)


def _displacements(velocity_um: Float, weight: Float) -> dict[str, float]:
    on = weight > 0
    velocity_um, weight = velocity_um[on], weight[on]
    speed_um = np.hypot(*velocity_um.T)
    if speed_um.size == 0:
        drift_um = (math.nan, math.nan)
    else:
        share = weight / weight.sum()
        drift_um = (float(share @ velocity_um[:, 0]), float(share @ velocity_um[:, 1]))
    p50_um, p90_um = weighted_quantiles(speed_um, weight, (0.5, 0.9))
    return {
        "p50_displacement_um": p50_um,
        "p90_displacement_um": p90_um,
        "max_displacement_um": float(speed_um.max()) if speed_um.size else math.nan,
        "rms_displacement_um": _weighted_rms(speed_um, weight),
        "drift_dy_um": drift_um[0],
        "drift_dx_um": drift_um[1],
    }


def weighted_quantiles(values: Float, weights: Float, shares: Sequence[float]) -> list[float]:
    """For each share the smallest of the values (n,) such that at least that share of the weight is at or below it; NaN without any."""
    if values.size == 0:
        return [math.nan] * len(shares)
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    # The last sum may lie a rounding error below the wanted share of itself.
    places = np.searchsorted(below, np.array(shares) * below[-1] * (1 - 1e-12))
    return [float(values[order[place]]) for place in places]


# --- derivatives -----------------------------------------------------------------------------


def _gradients(velocity_px: Float, valid: Bool, weight: Float) -> dict[str, float]:
    # Work px per frame, over work px: 1/frame, whatever the pixel size.
    fields = np.ascontiguousarray(np.moveaxis(velocity_px, -1, 0))
    (dy_by_y, dx_by_y), (dy_by_x, dx_by_x) = (known_difference(fields, valid, axis) for axis in (0, 1))
    found = {"velocity_divergence": dy_by_y + dx_by_x, "velocity_curl": dy_by_x - dx_by_y}
    summary = {}
    for name, field in found.items():
        on = np.isfinite(field) & (weight > 0)
        values, weights = field[on], weight[on]
        summary[f"{name}_mean"] = float(weights @ values / weights.sum()) if values.size else math.nan
        summary[f"{name}_rms"] = _weighted_rms(values, weights)
    return summary


def known_difference(fields: Float, valid: Bool, axis: int) -> Float:
    """Derivatives of fields (..., H, W) along an axis of the image, per pixel, from the neighbours that are known (H, W).

    Central where both neighbours are known, one-sided where one is, NaN where none is or the pixel itself is not known.
    """
    before = (..., slice(None, -1), slice(None)) if axis == 0 else (..., slice(None, -1))
    after = (..., slice(1, None), slice(None)) if axis == 0 else (..., slice(1, None))
    both = valid[after] & valid[before]
    step = np.where(both, fields[after] - fields[before], 0.0)
    total, steps = np.zeros(fields.shape), np.zeros(valid.shape)
    for place in (before, after):  # the step after each pixel, and the step before it
        total[place] += step
        steps[place] += both
    steps[steps == 0] = np.nan
    return total / steps


# --- wavelengths -----------------------------------------------------------------------------


def band_energies(velocity_px: Float, valid: Bool, blur_px: float) -> list[float]:
    """Shares of a field's energy by wavelength: six bands that sum to 1, from long to short; NaN for a field of zeros.

    The field is taken on the box around what is known, 0 where it is not, and transformed by an orthonormal DCT-II: its
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
    """
    from scipy.fft import dctn

    if not valid.any():
        return [math.nan] * len(BAND_NAMES)
    box = _known_box(valid)
    fields = np.where(valid[box], np.moveaxis(velocity_px[box], -1, 0), 0.0)
    energy_y, energy_x = np.square(dctn(fields, norm="ortho", axes=(1, 2)))
    energy = energy_y + energy_x
    total = float(energy.sum())
    if total == 0:
        return [math.nan] * len(BAND_NAMES)
    ny, nx = energy.shape
    square_y, square_x = ((np.arange(n) / (2 * n) * blur_px) ** 2 for n in (ny, nx))
    # Squared frequencies, from low to high, so that the mean needs no infinity; an edge belongs to the band below it.
    edges = [edge**-2.0 for edge in reversed(BAND_EDGES_BLUR)]
    band = np.searchsorted(edges, (square_y[:, None] + square_x).ravel(), side="left")
    shares: list[float] = (np.bincount(band, energy.ravel(), len(BAND_NAMES)) / total).tolist()
    return shares


def _weighted_rms(values: Float, weights: Float) -> float:
    return math.sqrt(float(weights @ values**2 / weights.sum())) if values.size else math.nan
