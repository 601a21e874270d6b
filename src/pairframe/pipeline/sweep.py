"""`sweep`: one pair at several reaches and blurs, each solve started from the one before.

From long to short, a reach is nearly free as long as it does not matter: the old potentials then solve the new problem,
and so do those of the self-problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pairframe import checks
from pairframe.engines import Start
from pairframe.errors import ArgumentError, ConfigError
from pairframe.pipeline.compare import checked_config
from pairframe.pipeline.frame import WorkPair, frame_pair
from pairframe.pipeline.maps import read_maps
from pairframe.pipeline.plausibility import check_plausibility
from pairframe.pipeline.read import MaskLike, read_pair
from pairframe.pipeline.result import build_result
from pairframe.pipeline.solve import PairSolution, SelfStarts, solve_pair
from pairframe.problem import TransportConfig, penalties_of
from pairframe.results.result import TransportResult
from pairframe.results.sweep import Sweep, SweepPoint
from pairframe.units import LARGEST_LENGTH, LEAST_LENGTH

N_REACHES = 9
SHORTEST, LONGEST = 1 / 8, 2.0  # of the default reach
OnPoint = Callable[[int, int], None]  # (done, total)


def sweep(
    source: MaskLike,
    target: MaskLike,
    config: TransportConfig | None = None,
    *,
    reach_um: Iterable[float] | None = None,
    blur_um: Iterable[float] | None = None,
    on_point: OnPoint | None = None,
) -> Sweep:
    """Compare a pair at several reaches, blurs, or all combinations of both.

    Parameters
    ----------
    source, target : Mask, (H, W) array or path
        As for `compare`.
    config : TransportConfig, optional
        Everything else. Its own reach (or blur) is replaced by the values given here.
    reach_um : increasing floats, optional
        Default, unless only blurs are given: nine values from an eighth to twice the reach of the config, which is the
        length of the objects if the config has none.
    blur_um : increasing floats, optional
        Default: the blur of the config alone. One of both lists may have a single value.
    on_point : callable (done, total), optional
        Called after each comparison.

    Returns
    -------
    Sweep
        With `table`, a DataFrame, and `recommendation`, a sentence.
    """
    config = _checked(checked_config(config))
    reaches, blurs = _checked_lengths(reach_um, blur_um)
    work = frame_pair(read_pair(source, target, config, None), None)
    if work.transform.is_volume:
        raise ArgumentError(
            "two images", "two volumes", "a sweep is for images; compare the volumes at several reaches"
        )
    if work.is_empty:
        raise ArgumentError("two masks with mass", "an empty one", "check the masks; nothing depends on the reach here")
    if reaches is None and blurs is None:
        reaches = default_reaches_um(_reach_um(work))
    if set(config.penalties_ab) == {"balanced"} and reaches is not None:
        raise ConfigError("a penalty with a reach", "balanced", "leave out --penalty, or sweep the blur", "penalty")
    return Sweep(tuple(_points(work, reaches, blurs, on_point)), work.transform.units)


def default_reaches_um(reach_um: float) -> tuple[float, ...]:
    """Nine values around a reach, evenly spaced on a logarithmic scale, rounded to three digits."""
    values = np.geomspace(SHORTEST * reach_um, LONGEST * reach_um, N_REACHES)
    return tuple(float(f"{value:.3g}") for value in values)


def _checked_lengths(
    reach_um: Iterable[float] | None, blur_um: Iterable[float] | None
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Both lists as increasing, positive lengths, um; at least one of them has two or more."""
    given = {"reach_um": reach_um, "blur_um": blur_um}
    found = {name: _checked_values(values, name) for name, values in given.items() if values is not None}
    if found and max(map(len, found.values())) < 2:
        name = next(iter(found))
        fix = "give more of them, e.g. 50,100,200, or use compare for a single one"
        raise ArgumentError(f"at least two values of {name} to sweep over", "one", fix, name)
    return found.get("reach_um"), found.get("blur_um")


def _checked_values(values: Iterable[float], name: str) -> tuple[float, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} as a list of lengths", checks.shown(values), f"e.g. {name}=(50, 100, 200)", name)
    fix = "give positive lengths, e.g. 50, 100, 200"
    found = tuple(
        checks.within(value, name, LEAST_LENGTH, LARGEST_LENGTH, fix=fix, error=ArgumentError) for value in values
    )
    if not found:
        raise ArgumentError(f"at least two values of {name} to sweep over", "none", fix, name)
    for before, after in pairwise(found):
        if after <= before:
            raise ArgumentError(
                f"increasing values of {name}", f"{after:g} after {before:g}", "sort them and remove duplicates", name
            )
    return found


def _checked(config: TransportConfig) -> TransportConfig:
    for name in ("moved_mass", "moved_share"):
        if getattr(config, name) is not None:
            raise ConfigError(
                f"no {name} in a sweep", f"{getattr(config, name):g}", "a given mass has its own reach", name
            )
    return config


def _reach_um(work: WorkPair) -> float:
    """The reach of the config, given or by default."""
    if work.config.reach_um is not None:
        return work.config.reach_um
    relaxed = [penalty for penalty in work.penalties if not penalty.is_exact]
    if not relaxed:
        raise ConfigError("a penalty with a reach", "balanced", "sweep the blur instead: give blur_um", "penalty")
    return min(work.scales.reach_um(penalty.relaxation_per_reach, penalty.marginal_relaxation) for penalty in relaxed)


def _points(
    work: WorkPair, reaches: tuple[float, ...] | None, blurs: tuple[float, ...] | None, on_point: OnPoint | None
) -> list[SweepPoint]:
    """By blur, then by reach, both increasing; computed in the opposite order."""
    total, found = len(blurs or (0,)) * len(reaches or (0,)), []
    first: PairSolution | None = None  # at the longest reach of the blur before
    for blur in reversed(blurs or (None,)):
        solved = first
        first = None
        for reach in reversed(reaches or (None,)):
            here = _with_scales(work, reach, blur)
            start, self_starts = _starts(solved)
            solved = solve_pair(here, start, self_starts=self_starts)
            first = first or solved
            found.append(SweepPoint.of(_result(here, solved)))
            if on_point is not None:
                on_point(len(found), total)
    return found[::-1]


def _starts(solved: PairSolution | None) -> tuple[Start | None, SelfStarts | None]:
    # A sampled pair has other points each time it is solved by another config; it starts anew.
    if solved is None or solved.samples is not None:
        return None, None
    return solved.potentials, solved.self_starts


def _with_scales(work: WorkPair, reach_um: float | None, blur_um: float | None) -> WorkPair:
    config = work.config
    if reach_um is not None:
        config = replace(config, reach_um=reach_um, marginal_relaxation=None)
    if blur_um is not None:
        config = replace(config, blur_um=blur_um, epsilon=None)
    return replace(work, config=config, penalties=penalties_of(config, work.scales))


def _result(work: WorkPair, solved: PairSolution) -> TransportResult:
    result = build_result(work, solved, read_maps(work, solved))
    return replace(result, notices=(*result.notices, *check_plausibility(result)))
