"""From work-grid masses and a config to the problem that engines solve."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pairframe.errors import ProblemError
from pairframe.frame import GridTransform
from pairframe.frame.crop import check_density
from pairframe.problem.config import TransportConfig
from pairframe.problem.penalties import Penalty, penalty_class
from pairframe.problem.problem import TransportProblem, totals_allow_a_plan
from pairframe.problem.reach import with_default_reach
from pairframe.problem.scales import Scales

_BEYOND_BLURS = 1000.0  # so many blurs away nothing is seen


def state_problem(
    mass_work_a: ArrayLike,
    mass_work_b: ArrayLike,
    config: TransportConfig,
    transform: GridTransform,
    penalties: tuple[Penalty, Penalty] | None = None,
) -> tuple[TransportProblem, float]:
    """State one pair as a normalised problem in work pixels.

    Parameters
    ----------
    mass_work_a, mass_work_b : (Hw, Ww)
        Pixel-mass on the work grid of `transform`, both with some mass.
    config : TransportConfig
        Its lengths are read with the pixel size and the downsample factor of `transform`. Without a reach, it is the
        typical length of the objects on the work grid.
    penalties : (Penalty, Penalty), optional
        Of source and target, instead of those of the config.

    Returns
    -------
    problem : TransportProblem
    mass_scale : float
        Multiply plan, maps and costs by it to get back to the input masses. ``joint`` divides both masses by
        sqrt(M_a M_b), which keeps growth (M_b / M_a) and changes nothing for the references ``heat`` and ``product``.
        ``each`` makes both totals 1, scales the plan back by min(M_a, M_b), and so spreads growth evenly.
        Only ``counting`` is not homogeneous: there the normalisation is part of the problem.
    """
    masses, totals = [], []
    for name, array in (("mass_work_a", mass_work_a), ("mass_work_b", mass_work_b)):
        checked, box = check_density(array, name)
        if box is None:
            raise ProblemError(
                f"some mass in {name}", "none", "an empty mask needs no solve: all mass is created or destroyed"
            )
        masses.append(np.asarray(checked, dtype=np.float64))
        totals.append(float(masses[-1].sum()))
    if config.normalization == "joint":
        mass_scale = math.sqrt(totals[0]) * math.sqrt(totals[1])
        divisors = (mass_scale, mass_scale)
    else:
        mass_scale = min(totals)
        divisors = (totals[0], totals[1])
    scales = scales_of(transform, config)
    if penalties is None:
        work_px = scales.work_px_size_um
        config = with_default_reach(config, scales, *masses, px_size_um=work_px, spacing=transform.units.spacing)
        penalties = penalties_of(config, scales)
    if config.normalization == "joint" and not totals_allow_a_plan(*penalties, *totals):
        raise _unequal_masses(config, *totals)
    epsilon = scales.epsilon_work(config.epsilon, config.blur_um)
    problem = TransportProblem(
        mass_a=masses[0] / divisors[0],
        mass_b=masses[1] / divisors[1],
        epsilon=epsilon,
        penalty_a=penalties[0],
        penalty_b=penalties[1],
        reference=config.reference,
        metric=config.metric,
        spacing=_spacing(transform, epsilon),
    )
    return problem, mass_scale


def _spacing(transform: GridTransform, epsilon: float) -> tuple[float, ...]:
    """Sides of a voxel. The planes next to a canvas of one plane do not exist, so the blur must not reach them."""
    sides = zip(transform.units.spacing, transform.canon_shape_hw, strict=True)
    if not transform.is_volume:
        return ()
    return tuple(side if n > 1 else max(side, _BEYOND_BLURS * math.sqrt(epsilon)) for side, n in sides)


def scales_of(transform: GridTransform, config: TransportConfig) -> Scales:
    """The units of a comparison. An axis of one pixel, along which nothing can move, has no say in the default blur.

    Pixels are those of the canvas: the default blur is the same at any downsample factor.
    """
    units = transform.units
    spacing = tuple(
        side for side, n in zip(units.spacing, transform.pair_crop_box_yx.shape, strict=True) if n > 1 and side > 1.0
    )
    return Scales(units.px_size, transform.downsample_factor, config.coord_scale, config.metric, spacing)


def penalties_of(config: TransportConfig, scales: Scales) -> tuple[Penalty, Penalty]:
    """The penalties of source and target, in cost units of the work grid. The config has a reach; see `with_default_reach`."""
    source, target = (_penalty(penalty_class(name), config, scales) for name in config.penalties_ab)
    return source, target


def _unequal_masses(config: TransportConfig, total_source: float, total_target: float) -> ProblemError:
    unit = " pixels" if config.mass.is_area else ""
    if set(config.penalties_ab) == {"balanced"}:
        expected = 'equal masses with penalty "balanced"'
    else:
        partial, balanced = ("source", "target") if config.penalties_ab[1] == "balanced" else ("target", "source")
        expected = f'a {balanced} of no more mass than the {partial} with penalty "{",".join(config.penalties_ab)}"'
    return ProblemError(
        expected,
        f"a source of {total_source:.10g} and a target of {total_target:.10g}{unit}",
        'to move all mass and spread growth evenly, add normalization="each" (--normalization each); to see created and '
        'destroyed mass, use penalty="partial" or "kl"',
        "penalty",
    )


def _penalty(kind: type[Penalty], config: TransportConfig, scales: Scales) -> Penalty:
    if kind.is_exact:
        return kind.from_relaxation(math.inf)
    return kind.from_relaxation(
        scales.relaxation_work(kind.relaxation_per_reach, config.marginal_relaxation, config.reach_um)
    )
