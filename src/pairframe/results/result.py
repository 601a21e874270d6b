"""`TransportResult`: the outcome of a comparison, with the unit of every number."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe.engines import Status
from pairframe.frame import GridTransform, golden
from pairframe.notices import Notice
from pairframe.problem import Scales, TransportConfig, penalty_class
from pairframe.problem.state import scales_of
from pairframe.results.error_bars import ErrorBars
from pairframe.results.formatting import part_of, percent, share_with_bias, span
from pairframe.results.work_maps import FrozenArrays, WorkMaps
from pairframe.types import Bool, Float
from pairframe.units import Units

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from pairframe.alignment import Pose
    from pairframe.maps.motion import Motion

NO_ANSWER = "answer     none: the numbers left the range of floating point, so the maps mean nothing"
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class TransportResult(FrozenArrays):
    """The outcome of a comparison of two masks. Arrays are (Hc, Wc) on the canonical image, so they overlay on it.

    Of two volumes, arrays are (Zc, Yc, Xc), and displacements (..., 3) have the components dz, dy, dx.

    Masses are in pixel-mass units; "cost" is mass times work px^2 with `coord_scale` undone (``euclidean``: work px).
    Where a name says um, the unit is that of `units`: pixels if no pixel size is known.

    Attributes
    ----------
    mass_created, mass_destroyed : (Hc, Wc)
        Mass per canonical pixel. `total_mass_moved` + destroyed = `M_source`, and + created = `M_target`.
    velocity_field : (Hc, Wc, 2)
        ``[..., 0]`` is dy, ``[..., 1]`` is dx, um, on source pixels; NaN where unknown (see `velocity_valid`).
        If the target was aligned, this is the whole displacement, onto the target's own image; `work` and all numbers
        computed from it are about the moved target.
    cost_source, cost_target : (Hc, Wc)
        Transport cost at the source pixel and at the target pixel, mass times um^2; each sums to `total_transport_cost_um2`.
    transform : GridTransform
    M_source, M_target : float
        Mass inside the frame: all of it unless clipping was allowed.
    total_transport_cost_work_px2, total_transport_cost_um2 : float
        ``<C, Q>`` of the feasible part Q that the maps show.
    area_source_um2, area_target_um2 : float
        Area of the pixels with mass; NaN for volumes.
    volume_source_um3, volume_target_um3 : float
        Volume of the voxels with mass; NaN for images.
    transport_cost, entropy_term, marginal_penalty : float
        The terms of the optimal plan itself. A hard marginal (``balanced``; the bound of ``partial``) adds nothing.
    objective, dual_objective, gap : float
        Certified upper and lower bound of the optimum, and their distance.
    divergence, divergence_error : float
        See `pairframe.maps.Divergence`; cost units. NaN when a mask is empty.
    noise_floor, noise_floor_target : float
        Bias of the method: share of its mass that is reported as destroyed when a mask is compared with itself. It says nothing
        about errors of the segmentation; see `error_bars`. NaN if a mask is empty.
    epsilon, lambda_unbalanced : float
        Cost units after `coord_scale`, as a config sets them; `lambda_unbalanced` is inf when both sides are balanced.
    status : Status
        `status.advice` suggests what to do.
    iterations : int
        Kernel applications on the work grid.
    relative_gap, marginal_error : float
        What `config.tol` bounds. The gap is relative to the cost that depends on the plan; see `pairframe.problem.Certificate`.
    config : TransportConfig
        As used: with the pixel size that was found.
    versions : mapping of name to version
    notices : tuple of Notice
        Remarks about this comparison; see `warnings`.
    work : WorkMaps
    debiased_transport_cost_um2 : float
        `total_transport_cost_um2` less the cost of mass at rest, which the blur spreads: 0 for a mask against itself, M k^2 for
        a mass M that was shifted by k. NaN when a mask is empty.
    pose : Pose or None
        How the target was moved onto the source first; None for masks compared as given.
    error_bars : ErrorBars or None
        How far the main numbers may be off because the outlines of the masks are uncertain; None unless asked for.
    """

    mass_created: Float
    mass_destroyed: Float
    velocity_field: Float
    velocity_valid: Bool
    cost_source: Float
    cost_target: Float
    transform: GridTransform
    M_source: float
    M_target: float
    total_transport_cost_work_px2: float
    total_transport_cost_um2: float
    total_mass_moved: float
    total_mass_created: float
    total_mass_destroyed: float
    area_source_um2: float
    area_target_um2: float
    transport_cost: float
    entropy_term: float
    marginal_penalty: float
    objective: float
    dual_objective: float
    gap: float
    divergence: float
    divergence_error: float
    noise_floor: float
    noise_floor_target: float
    epsilon: float
    lambda_unbalanced: float
    status: Status
    iterations: int
    relative_gap: float
    marginal_error: float
    backend: str
    dtype: str
    device: str
    config: TransportConfig
    versions: Mapping[str, str]
    notices: tuple[Notice, ...]
    work: WorkMaps
    pose: Pose | None = None
    debiased_transport_cost_um2: float = math.nan
    error_bars: ErrorBars | None = None
    volume_source_um3: float = math.nan
    volume_target_um3: float = math.nan

    @property
    def motion(self) -> Motion:
        """The displacement of the moved mass as a shift, a turn, a scale and the deformation that is left; pose included."""
        from pairframe.results.pose_maps import motion_of

        return motion_of(self)

    @property
    def deformation_field(self) -> Float:
        """Displacement (Hc, Wc, 2) in um without the pose; without alignment, less the shift, turn and scale of `motion`."""
        from pairframe.results.pose_maps import deformation_of

        return deformation_of(self)

    @property
    def field_in_frame(self) -> Float:
        """Displacement (Hc, Wc, 2) in um from the source to the target as `work` has it: after the pose, if there is one."""
        return self.velocity_field if self.pose is None else self.deformation_field

    @property
    def strain(self) -> Float:
        """Gradient of `field_in_frame`, (Hc, Wc, 2, 2): rows dy, dx; columns d/dy, d/dx. NaN where it is unknown.

        From the plan, not from differences of pixels, so it is symmetric: a plan does not turn. Needs ``strain=True`` in the
        config, like the four maps that follow from it.
        """
        from pairframe.results.strain_maps import on_canvas

        return on_canvas(self, "strain")

    @property
    def areal_expansion(self) -> Float:
        """Factor of areas less 1, (Hc, Wc): 0.1 where the moved tissue covers 10 % more; from `strain`."""
        from pairframe.results.strain_maps import areal_expansion

        return areal_expansion(self.strain)

    @property
    def anisotropy(self) -> Float:
        """Logarithm of the larger over the smaller stretch, (Hc, Wc); 0 if all directions are stretched alike."""
        from pairframe.results.strain_maps import anisotropy

        return anisotropy(self.strain)

    @property
    def stretch_direction_deg(self) -> Float:
        """Direction of the larger stretch, (Hc, Wc), in (-90, 90] degrees counter-clockwise from the right as shown."""
        from pairframe.results.strain_maps import stretch_direction_deg

        return stretch_direction_deg(self.strain)

    @property
    def local_growth_rate(self) -> Float:
        """Logarithm of the mass that descends from each source pixel over its own, (Hc, Wc).

        See `pairframe.maps.local_growth_rate`.
        """
        from pairframe.results.strain_maps import on_canvas

        return on_canvas(self, "local_growth_rate")

    @property
    def mass_created_on_target(self) -> Float:
        """Created mass on the target's own image, (Ht, Wt), with its pixels; `mass_created` itself without a pose."""
        from pairframe.results.pose_maps import created_on_target

        return created_on_target(self)

    @property
    def scales(self) -> Scales:
        """The units of this comparison."""
        return scales_of(self.transform, self.config)

    @property
    def units(self) -> Units:
        """The unit of lengths and areas, wherever a name says um."""
        return self.transform.units

    @property
    def extents_um(self) -> tuple[float, float]:
        """Areas of source and target, um^2; of volumes, their volumes, um^3."""
        if self.transform.is_volume:
            return self.volume_source_um3, self.volume_target_um3
        return self.area_source_um2, self.area_target_um2

    @property
    def length_unit(self) -> str:
        """``um``, or ``px`` if no pixel size is known."""
        return self.units.length

    @property
    def has_answer(self) -> bool:
        """Whether the numbers mean anything. After ``impossible`` they do not; they only balance the mass."""
        return self.status != Status.impossible

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """The notices that should be read before the numbers are used."""
        return tuple(notice for notice in self.notices if notice.is_warning)

    @property
    def destroyed_is_noise(self) -> bool:
        """Whether no more mass was destroyed than when the source is compared with itself."""
        return self.total_mass_destroyed <= self.M_source * self.noise_floor * _ROUNDING

    @property
    def created_is_noise(self) -> bool:
        """Whether no more mass was created than when the target is compared with itself."""
        return self.total_mass_created <= self.M_target * self.noise_floor_target * _ROUNDING

    @property
    def blur_um(self) -> float:
        """Below this length nothing is resolved, um."""
        return self._length_um(self.epsilon)

    @property
    def reach_um(self) -> float:
        """Limit of the displacement, um: mass that would have to go farther is destroyed and created; inf if balanced.

        With ``kl`` the limit is soft; see `docs/concepts.md`.
        """
        kinds = [penalty_class(name) for name in self.config.penalties_ab]
        relaxed = [kind for kind in kinds if not kind.is_exact]
        if not relaxed or self.config.reach_um is not None:
            return math.inf if not relaxed else float(self.config.reach_um or 0.0)
        relaxation = self.scales.cost_work_from_cost_units(self.lambda_unbalanced)
        return min(self.scales.reach_um(kind.relaxation_per_reach, relaxation) for kind in relaxed)

    @property
    def divergence_um2(self) -> float:
        """`divergence` in mass times um^2 (``euclidean``: um)."""
        return self.scales.cost_um_from_cost_work(self.divergence)

    @property
    def divergence_error_um2(self) -> float:
        """`divergence_error` in mass times um^2 (``euclidean``: um)."""
        return self.scales.cost_um_from_cost_work(self.divergence_error)

    @property
    def objective_um2(self) -> float:
        """`objective` in mass times um^2 (``euclidean``: um)."""
        return self.scales.cost_um_from_cost_work(self.objective)

    @property
    def divergence_length_um(self) -> float:
        """The divergence per unit of mass as a length, um: k for a mask that was shifted by k; does not depend on the pixel size.

        The mass is the mean of both masks; with ``normalization="each"``, which makes both equal, that of the smaller one. NaN
        when one is empty.
        """
        masses = self.M_source, self.M_target
        return self._root_um(
            self.divergence_um2, min(masses) if self.config.normalization == "each" else 0.5 * sum(masses)
        )

    @property
    def transport_length_um(self) -> float:
        """The debiased transport cost per unit of moved mass as a length, um: about the root mean square displacement."""
        return self._root_um(self.debiased_transport_cost_um2, self.total_mass_moved)

    @property
    def mean_displacement_um(self) -> float:
        """Mean length of the displacement of the moved mass, um; NaN if none moved."""
        work = self.work
        left = (work.mass_source - work.mass_destroyed)[work.velocity_valid]
        if left.sum() <= 0:
            return float("nan")
        length_px = reduce(np.hypot, work.velocity_px[work.velocity_valid].T)
        return float((left * length_px).sum() / left.sum() * self.transform.work_px_size_um)

    def _root_um(self, cost_um: float, mass: float) -> float:
        """A cost per unit of mass as a length; NaN without mass. A cost below 0 is a rounding error."""
        if not mass > 0 or math.isnan(cost_um):
            return math.nan
        return float(max(cost_um / mass, 0.0) ** (1 / self.scales.power))

    def _length_um(self, cost: float) -> float:
        scales = self.scales
        return scales.length_um_from_cost_work(scales.cost_work_from_cost_units(cost))

    def check_books(self) -> None:
        """Golden test 6.4: moved + destroyed is the source's mass, moved + created the target's."""
        golden.check_books(
            self.M_source, self.M_target, self.total_mass_moved, self.total_mass_created, self.total_mass_destroyed
        )

    def summary(self) -> str:
        """A few lines of text with units."""
        unit = self.length_unit
        lines = [
            f"source     {self.M_source:.6g} mass, {self.extents_um[0]:.6g} {unit}^{self.transform.n_axes}",
            f"target     {self.M_target:.6g} mass, {self.extents_um[1]:.6g} {unit}^{self.transform.n_axes}",
            *([] if self.pose is None else self.pose.summary_lines()),
            *(self._answer_lines() if self.has_answer else [NO_ANSWER]),
            f"scales     blur {self.blur_um:.4g} {unit}, reach {self.reach_um:.4g} {unit}, penalty "
            f"{' and '.join(dict.fromkeys(self.config.penalties_ab))}, {self._pixel_text()}",
            f"solve      {self.status}{', but read the warnings below,' if self.warnings else ''} by {self.backend} ({self.dtype}, {self.device}) after {self.iterations} iterations",
        ]
        if self.status != Status.converged:
            lines.append(f"advice     {self.status.advice}")
        return "\n".join([*lines, *(f"{notice.severity:<10} {notice}" for notice in self.notices)])

    def _pixel_text(self) -> str:
        unit = self.length_unit
        if not self.transform.is_volume:
            return f"work pixel {self.transform.work_px_size_um:.4g} {unit}, canonical pixel {self.units.px_size:.4g} {unit}"
        return f"voxel {' x '.join(f'{side:.4g}' for side in self.units.px_sides)} {unit}, downsampled by {self.transform.downsample_factor}"

    def _answer_lines(self) -> list[str]:
        cost = f"mass {self.length_unit}^2" if self.scales.power == 2 else f"mass {self.length_unit}"
        moved = f"moved      {self.total_mass_moved:.6g} mass"
        if self.total_mass_moved > 0:
            moved += f", on average by {self.mean_displacement_um:.4g} {self.length_unit}"
        bars = self.error_bars
        if bars is not None and self.total_mass_moved > 0:
            moved += f" ({span(bars.mean_displacement_um.low, bars.mean_displacement_um.high, self.length_unit)})"
        sides = (
            ("destroyed", "source", self.M_source, self.noise_floor, self.destroyed_is_noise),
            ("created", "target", self.M_target, self.noise_floor_target, self.created_is_noise),
        )
        lines = [moved]
        for what, of, whole, floor, is_noise in sides:
            part = self.total_mass_destroyed if what == "destroyed" else self.total_mass_created
            line = f"{what:<10} {part_of(part, whole):.6g} mass, {share_with_bias(part, whole, f'of the {of}', floor, is_noise)}"
            if bars is not None:
                bar = bars.percent_destroyed if what == "destroyed" else bars.percent_created
                line += f" ({span(bar.low, bar.high, '%')})"
            lines.append(line)
        return [
            *lines,
            f"divergence {self.divergence_length_um:.6g} {self.length_unit} per unit of mass "
            f"({self.divergence_um2:.6g} +- {self.divergence_error_um2:.1g} {cost})",
            f"objective  {self.objective_um2:.6g} {cost}, certified to a relative gap of {self.relative_gap:.1e}",
        ]

    # --- keeping and showing -----------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, pair_id: str = "pair", overwrite: bool = False) -> None:
        """Save this result in the folder `path`, which may hold many; `pairframe.load` returns it bit for bit.

        Parameters
        ----------
        path : path
            A new or empty folder, or one with results.
        pair_id : str
            Name of this result there.
        overwrite : bool
            Replace the pair of that name; also allow a folder that holds other files, which stay.
        """
        from pairframe.results.store import save

        save(self, path, pair_id=pair_id, overwrite=overwrite)

    def to_xarray(self) -> xr.Dataset:
        """All maps with coordinates (um, or px: see `length_unit`) and units; ``work_maps`` are those of the work grid."""
        from pairframe.results.xarray_view import to_xarray

        return to_xarray(self)

    def save_tif(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write an ImageJ stack of the maps that opens calibrated in Fiji. See `pairframe.results.export`."""
        from pairframe.results.export import export_tif

        export_tif(self, path, overwrite=overwrite)

    def save_csv(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one line per work pixel, and the scalars beside it. See `pairframe.results.export`."""
        from pairframe.results.export import export_csv

        export_csv(self, path, overwrite=overwrite)

    def _repr_html_(self) -> str:
        from pairframe.results.repr_html import repr_html

        return repr_html(self)

    def plot(self, kind: str = "summary", **options: Any) -> Figure:
        """Draw it: ``"summary"``, ``"overview"``, ``"motion"``, ``"strain"``, ``"convergence"`` or ``"morph"``.

        A notebook shows the figure; elsewhere, ``result.plot().savefig("pair.png")``. See `pairframe.report.plot.plot_result`.
        """
        drawing = import_module("pairframe.report.plot")  # found by name: results know nothing of drawing
        figure: Figure = drawing.plot_result(self, kind, **options)
        return figure

    def __repr__(self) -> str:
        canvas = " x ".join(map(str, self.transform.canon_shape_hw))
        shares = [
            ("created", self.total_mass_created, self.M_target),
            ("destroyed", self.total_mass_destroyed, self.M_source),
        ]
        parts = [f"{percent(part, whole)} {what}" for what, part, whole in shares if whole > 0]
        moved = (
            f"moved by {self.mean_displacement_um:.4g} {self.length_unit}"
            if self.total_mass_moved > 0
            else "nothing moved"
        )
        return f"TransportResult({canvas} {'voxels' if self.transform.is_volume else 'px'}: {', '.join([moved, *parts])}; {self.status})"

    def __str__(self) -> str:
        canvas = " x ".join(map(str, self.transform.canon_shape_hw))
        return f"TransportResult on a {canvas} canvas\n{self.summary()}"
