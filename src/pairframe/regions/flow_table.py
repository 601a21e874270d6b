"""`flow_table`: the mass that goes from every label of the source to every label of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pairframe.alignment import Pose
from pairframe.engines import Status
from pairframe.errors import ArgumentError
from pairframe.maps import Flows, PlanOperator, flows_between
from pairframe.maps.flows import NEGLIGIBLE
from pairframe.masks import Mask, mass_density
from pairframe.pipeline.align import samples_of
from pairframe.problem import Partial, state_problem
from pairframe.regions.labels import (
    CREATED,
    DESTROYED,
    RegionShares,
    checked_labels,
    moved_region_shares,
    on_source_canvas,
    region_shares,
)
from pairframe.results import TransportResult
from pairframe.types import Float, Int

if TYPE_CHECKING:
    import pandas as pd

# Of the blur: the mass that a plan at rest carries one way across a unit of border. Along one axis, it spreads mass with a
# standard deviation s of blur / sqrt(2), so s / sqrt(2 pi).
BLUR_EXCHANGE = 0.282
FLOW_COLUMNS = ("source_label", "target_label", "mass", "dy_um", "dx_um", "distance_um", "area_um2")


def flow_table(
    result: TransportResult,
    source_labels: ArrayLike,
    target_labels: ArrayLike,
    *,
    masks: tuple[Mask, Mask] | None = None,
) -> pd.DataFrame:
    """The mass that goes from every source label to every target label, read from the potentials of a result.

    Parameters
    ----------
    result : TransportResult
        Fresh from `compare` or loaded from a store.
    source_labels, target_labels : (H, W) integers
        On the canvas of their masks; of an aligned target, its own canvas. 0 is the background.
    masks : (Mask, Mask), optional
        Source and target, needed only if a work pixel can hold several labels (a downsample factor above 1, or an aligned
        target) and pixels differ in mass (a mass mode other than ``uniform``).

    Returns
    -------
    DataFrame with one row per flow, in the order of the labels:

    source_label : int
        0 for created mass, -1 for mass on pixels without a label.
    target_label : int
        0 for destroyed mass, -1 for mass on pixels without a label.
    mass : float
        In pixel-mass. The rows of a source label sum to its mass, those of a target label to its mass.
    dy_um, dx_um : float
        Mean displacement as in `TransportResult.velocity_field`; NaN for created and destroyed mass.
    distance_um : float
        Mean length of the displacement, so also of mass that spreads without a mean displacement.
    area_um2 : float
        The mass as an area; NaN if pixels differ in mass (a mass mode other than ``uniform``).

    Notes
    -----
    The plan is blurred: labels that touch exchange about 0.28 times the blur times the length of their common border, each
    way, even if nothing moves. Flows below 1e-12 of the smaller label are left out.
    """
    return flows_of(result, source_labels, target_labels, masks=masks).to_frame()


@dataclass(frozen=True, eq=False)
class LabelFlows:
    """The flows of a result between labels, in pixel-mass and um; see `flow_table`.

    Attributes
    ----------
    source_labels, target_labels : (K,), (L,) int
        The labels that have mass.
    source, target : (n,) int
        Of each flow; places in the labels.
    mass, distance_um : (n,)
    displacement_um : (n, 2)
    source_mass, target_mass : (K,), (L,)
        Mass of each label.
    destroyed, created : (K,), (L,)
    px_area_um2 : float
        Area of a unit of mass; NaN if a mass is no area.
    applications : float
        See `pairframe.maps.Flows`.
    """

    source_labels: Int
    target_labels: Int
    source: Int
    target: Int
    mass: Float
    displacement_um: Float
    distance_um: Float
    source_mass: Float
    target_mass: Float
    destroyed: Float
    created: Float
    px_area_um2: float
    applications: float

    def after_motion(self, motion_um: Mapping[int, Sequence[float]]) -> LabelFlows:
        """The same flows of a source whose labels had been moved by (dy, dx) each before it was compared."""
        by_place: Float = np.array([motion_um.get(int(label), (0.0, 0.0)) for label in self.source_labels])
        displacement = self.displacement_um + by_place.reshape(-1, 2)[self.source]
        # The spread about the mean stays.
        spread = np.maximum(self.distance_um**2 - (self.displacement_um**2).sum(axis=1), 0.0)
        distance = np.sqrt((displacement**2).sum(axis=1) + spread)
        return replace(self, displacement_um=displacement, distance_um=distance)

    def to_frame(self) -> pd.DataFrame:
        """The table; see `flow_table`."""
        import pandas as pd

        lost = self.destroyed > NEGLIGIBLE * self.source_mass
        new = self.created > NEGLIGIBLE * self.target_mass
        n_changed = int(lost.sum() + new.sum())
        unknown = np.full(n_changed, np.nan)
        source = [self.source_labels[self.source], self.source_labels[lost], np.full(int(new.sum()), CREATED)]
        target = [self.target_labels[self.target], np.full(int(lost.sum()), DESTROYED), self.target_labels[new]]
        mass = np.concatenate([self.mass, self.destroyed[lost], self.created[new]])
        columns = (
            np.concatenate(source).astype(np.int64),
            np.concatenate(target).astype(np.int64),
            mass,
            np.concatenate([self.displacement_um[:, 0], unknown]),
            np.concatenate([self.displacement_um[:, 1], unknown]),
            np.concatenate([self.distance_um, unknown]),
            mass * self.px_area_um2,
        )
        frame = pd.DataFrame(dict(zip(FLOW_COLUMNS, columns, strict=True)))
        return frame.sort_values(["source_label", "target_label"], kind="stable", ignore_index=True)


def flows_of(
    result: TransportResult,
    source_labels: ArrayLike,
    target_labels: ArrayLike,
    *,
    masks: tuple[Mask, Mask] | None = None,
) -> LabelFlows:
    """The flows of a result as arrays; parameters as for `flow_table`."""
    if not isinstance(result, TransportResult):
        raise ArgumentError("a TransportResult", type(result).__name__, "pass a result of compare or load", "result")
    if result.transform.is_volume:
        raise ArgumentError(
            "a result of images", "one of volumes", "flows between labels are for images so far", "result"
        )
    _require_whole_plan(result)
    source, target = _shares_of(result, source_labels, target_labels, masks)
    if result.status in (Status.empty_source, Status.empty_target):
        return _without_flows(result, source, target)
    work = result.work
    problem, mass_scale = state_problem(
        work.mass_source, work.mass_target, result.config, result.transform, _penalties(result)
    )
    plan = PlanOperator(problem, work.potential_source, work.potential_target)
    pose = result.pose
    whole = None if pose is None else _Whole(result, pose)
    flows = flows_between(plan, source.shares, target.shares, work.velocity_px, whole)
    return _in_units(result, source, target, flows, mass_scale)


def _require_whole_plan(result: TransportResult) -> None:
    if not result.has_answer:
        raise ArgumentError(
            "a result with an answer", f"the status {result.status}", str(result.status.advice), "result"
        )
    if any(notice.code == "sampled" for notice in result.notices):
        raise ArgumentError(
            "a result of all pixels",
            f"one of masks sampled to {result.config.max_support_points} points",
            "compare without max_support_points, e.g. with the engine grid",
            "result",
        )


def _shares_of(
    result: TransportResult, source_labels: ArrayLike, target_labels: ArrayLike, masks: tuple[Mask, Mask] | None
) -> tuple[RegionShares, RegionShares]:
    transform, work, pose = result.transform, result.work, result.pose
    source, target = checked_labels(source_labels, "source_labels"), checked_labels(target_labels, "target_labels")
    is_pooled = transform.downsample_factor > 1
    densities: tuple[Float | None, Float | None] = (None, None)
    if is_pooled or pose is not None:
        if masks is not None:
            densities = (_density(result, masks[0], 0), _density(result, masks[1], 1))
        elif result.config.mass.is_area:
            ones = tuple(np.ones(labels.shape) for labels in (source, target))
            densities = (ones[0], ones[1] if pose is None else ones[1] * _moved_area(pose))
        else:
            raise ArgumentError(
                "the masks of a result whose work pixels can hold several labels",
                f"none, with a mass mode of {result.config.mass_mode}",
                "pass masks=(source, target)",
                "masks",
            )
    if pose is not None:
        source = on_source_canvas(source, pose, "source_labels")
        own = None if densities[0] is None else on_source_canvas(densities[0], pose, "source_labels")
        assert densities[1] is not None
        samples = samples_of(result.config)
        moved = moved_region_shares(target, work.mass_target, transform, densities[1], pose, "target_labels", samples)
        return region_shares(source, work.mass_source, transform, own if is_pooled else None, "source_labels"), moved
    return (
        region_shares(source, work.mass_source, transform, densities[0], "source_labels"),
        region_shares(target, work.mass_target, transform, densities[1], "target_labels"),
    )


def _density(result: TransportResult, mask: Mask, side: int) -> Float:
    """Mass per pixel of a mask of the result; of an aligned target, as it arrives on the canvas of the source."""
    pose = result.pose
    px_size_um = result.transform.px_size_um if pose is None else pose.px_size_um[side]
    density = mass_density(mask, result.config.mass_mode, px_size_um)
    total = float(density.sum())
    factor = 1.0 if pose is None or side == 0 or not total else result.M_target / total
    return density * factor


def _moved_area(pose: Pose) -> float:
    """The area of a pixel of the target, moved, in pixels of the source."""
    scale: float = pose.scale * pose.target_canvas.px / pose.source_canvas.px
    return scale**2


def _penalties(result: TransportResult) -> tuple[Partial, Partial] | None:
    """The penalties that were settled by a moved mass; None for those of the config."""
    config = result.config
    if config.moved_mass is None and config.moved_share is None:
        return None
    penalty = Partial(result.scales.cost_work_from_cost_units(result.lambda_unbalanced))
    return penalty, penalty


class _Whole:
    """Displacements to the target's own image, from those to the moved target; work px."""

    def __init__(self, result: TransportResult, pose: Pose) -> None:
        self._transform = result.transform
        self._corner_um = np.array(pose.source_canvas.origin_yx) * pose.source_canvas.px
        self._back = pose.change.inverse()

    def __call__(self, positions: Float, displacements: Float) -> Float:
        transform = self._transform
        at = transform.work_to_canon_yx(positions + 0.5) * transform.units.px_size - self._corner_um
        whole: Float = self._back.of_points(at + displacements * transform.work_px_size_um) - at
        return whole / transform.work_px_size_um


def _without_flows(result: TransportResult, source: RegionShares, target: RegionShares) -> LabelFlows:
    none: Int = np.empty(0, dtype=np.int64)
    pixels = (source.shares.shape[0], target.shares.shape[0])
    flows = Flows(none, none, np.empty(0), np.empty((0, 2)), np.empty(0), np.zeros(pixels[0]), np.zeros(pixels[1]), 0.0)
    return _in_units(result, source, target, flows, 1.0)


def _in_units(
    result: TransportResult, source: RegionShares, target: RegionShares, flows: Flows, mass_scale: float
) -> LabelFlows:
    work, um = result.work, result.transform.work_px_size_um
    mass_source, mass_target = work.mass_source[work.mass_source > 0], work.mass_target[work.mass_target > 0]
    return LabelFlows(
        source_labels=source.labels,
        target_labels=target.labels,
        source=flows.source,
        target=flows.target,
        mass=flows.mass * mass_scale,
        displacement_um=flows.displacement * um,
        distance_um=flows.distance * um,
        source_mass=source.shares.T @ mass_source,
        target_mass=target.shares.T @ mass_target,
        destroyed=source.shares.T @ np.maximum(mass_source - flows.left * mass_scale, 0.0),
        created=target.shares.T @ np.maximum(mass_target - flows.arrived * mass_scale, 0.0),
        px_area_um2=result.units.px_area if result.config.mass.is_area else np.nan,
        applications=flows.applications,
    )
