"""Which reach and blur to take from a sweep, and why, in words.

A choice is safe where it does not matter: on a plateau, a run of neighbouring values that all give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pairframe.units import Units

if TYPE_CHECKING:
    from pairframe.results.sweep import SweepPoint

SAME_PERCENT = 0.5  # percentage points of created, destroyed
SAME_SHARE = 0.05  # of the mean displacement
LEAST_SPAN = 1.5  # factor that a plateau spans, first to last value
TURNOVER_PERCENT = 10.0  # destroyed and created beyond net growth: as the notice `motion_called_growth`


@dataclass(frozen=True)
class Advice:
    """The outcome of a sweep.

    Attributes
    ----------
    reach_um, blur_um : float or None
        What to take; None if the sweep does not show it, or did not vary it.
    plateau_um : (float, float) or None
        First and last value between which nothing changes, of the quantity that was swept (of the reach, if both were).
    sentence : str
        The recommendation with its reason.
    """

    reach_um: float | None
    blur_um: float | None
    plateau_um: tuple[float, float] | None
    sentence: str


def advise(points: Sequence[SweepPoint], units: Units) -> Advice:
    """Recommend scales from the points of a sweep."""
    blurs = sorted({point.blur_um for point in points})
    reaches = sorted({point.reach_um for point in points})
    unit = units.length
    if len(reaches) == 1:
        found, words = _blur_words(sorted(points, key=lambda point: point.blur_um), unit)
        ends = None if found is None else (found[0].blur_um, found[-1].blur_um)
        return Advice(None, None if found is None else found[0].blur_um, ends, words)
    by_reach = [point for point in points if point.blur_um == blurs[0]]
    plateau, chosen, words = _reach_words(by_reach, unit)
    ends = None if plateau is None else (plateau[0].reach_um, plateau[-1].reach_um)
    if chosen is None or len(blurs) == 1:
        return Advice(None if chosen is None else chosen.reach_um, None, ends, words)
    at_reach = [point for point in points if point.reach_um == chosen.reach_um]
    found, more = _blur_words(sorted(at_reach, key=lambda point: point.blur_um), unit)
    return Advice(chosen.reach_um, None if found is None else found[0].blur_um, ends, f"{words} {more}")


# --- reach -----------------------------------------------------------------------------------


def _reach_words(points: Sequence[SweepPoint], unit: str) -> tuple[list[SweepPoint] | None, SweepPoint | None, str]:
    """The plateau, the point to take, and the words."""
    runs = [run for run in plateaus(points) if run[-1].reach_um >= LEAST_SPAN * run[0].reach_um]
    # On a run where nothing moves the reach is below every distance; one where objects exchange mass is beyond them.
    moving = [run for run in runs if not _is_still(run[0], points)]
    if not moving:
        return None, None, _no_plateau(points, runs, unit)
    apart = [run for run in moving if not _mixes(run[0])]
    best = max(apart or moving, key=lambda run: run[-1].reach_um / run[0].reach_um)
    first, last = best[0], best[-1]
    chosen = best[1] if len(best) > 2 else best[-1]
    if first is points[0] and last is points[-1]:
        reason = (
            f"it is enough, and no reach from {_length(first.reach_um, unit)} to {_length(last.reach_um, unit)} changes what "
            "is created, destroyed and moved"
        )
    elif last is points[-1]:
        reason = f"from {_length(first.reach_um, unit)} on nothing changes"
    else:
        reason = f"between {_length(first.reach_um, unit)} and {_length(last.reach_um, unit)} nothing changes"
        after = points[points.index(last) + 1 :]
        if any(_mixes(point) for point in after):
            reason += ", and beyond that separate objects exchange mass"
    words = f"Take a reach of {_length(chosen.reach_um, unit)}: {reason} ({_values(chosen, unit)})."
    turnover = _turnover(chosen)
    if turnover > TURNOVER_PERCENT:
        words += (
            f" But {turnover:.3g} % are both created and destroyed even there: either objects vanished and others appeared, or "
            "this is motion that is called growth. If the objects moved as a whole, align first."
        )
    elif _mixes(chosen):
        words += " Separate objects exchange mass at this reach: compare them one by one, or give a shorter reach."
    return best, chosen, words


def plateaus(points: Sequence[SweepPoint]) -> list[list[SweepPoint]]:
    """Runs of at least two neighbouring points that all agree with each other, none within another."""
    runs: list[list[SweepPoint]] = []
    for start in range(len(points)):
        end = start + 1
        while end < len(points) and all(same_answer(points[end], before) for before in points[start:end]):
            end += 1
        if end - start >= 2 and not (runs and runs[-1][-1] is points[end - 1]):
            runs.append(list(points[start:end]))
    return runs


def same_answer(one: SweepPoint, other: SweepPoint) -> bool:
    """Whether two points say the same about created and destroyed mass and about the mean displacement."""
    shares = ((one.percent_created, other.percent_created), (one.percent_destroyed, other.percent_destroyed))
    if any(not abs(a - b) <= SAME_PERCENT for a, b in shares):
        return False
    a, b = one.mean_displacement_um, other.mean_displacement_um
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    # Displacements far below the blur are noise.
    return abs(a - b) <= max(SAME_SHARE * max(a, b), 0.05 * min(one.blur_um, other.blur_um))


def _is_still(point: SweepPoint, points: Sequence[SweepPoint]) -> bool:
    """Whether the reach is too short for mass that moves at longer ones.

    Then much is created and destroyed here, and much less at some longer reach at which objects do not exchange mass.
    """
    if _turnover(point) <= TURNOVER_PERCENT:
        return False
    longer = [_turnover(other) for other in points if other.reach_um > point.reach_um and not _mixes(other)]
    return math.isnan(point.mean_displacement_um) or min(longer, default=math.inf) < 0.5 * _turnover(point)


def _turnover(point: SweepPoint) -> float:
    """Mass both created and destroyed, percent; net growth is not part of it."""
    return min(point.percent_created, point.percent_destroyed)


def _mixes(point: SweepPoint) -> bool:
    return "mass_between_pieces" in point.notices


def _no_plateau(points: Sequence[SweepPoint], runs: Sequence[Sequence[SweepPoint]], unit: str) -> str:
    first, last = points[0], points[-1]
    span = f"from {_length(first.reach_um, unit)} to {_length(last.reach_um, unit)}"
    if runs:
        return (
            f"No recommendation: the answer settles only at reaches up to {_length(runs[-1][-1].reach_um, unit)}, too short for "
            f"mass that moves at longer ones; beyond, it keeps changing. Align first, or sweep to longer reaches."
        )
    return (
        f"No recommendation: there is no plateau, the answer changes with every reach {span} "
        f"({_values(first, unit)}; then {_values(last, unit)}). Growth and motion cannot be told apart here: align first."
    )


# --- blur ------------------------------------------------------------------------------------


def _blur_words(points: Sequence[SweepPoint], unit: str) -> tuple[list[SweepPoint] | None, str]:
    """The blurs that agree with the shortest one, and the words."""
    runs = plateaus(points)
    if not runs or runs[0][0] is not points[0]:
        return None, (
            f"No blur is recommended: the answer changes already between {_length(points[0].blur_um, unit)} and "
            f"{_length(points[1].blur_um, unit)}. Try shorter ones."
        )
    last = runs[0][-1]
    if last is points[-1]:
        reason = f"all blurs up to {_length(last.blur_um, unit)} give the same answer"
    else:
        reason = f"blurs up to {_length(last.blur_um, unit)} give the same answer, longer ones do not"
    return runs[0], f"Take a blur of {_length(points[0].blur_um, unit)}: {reason}, and the shortest shows most detail."


# --- words -----------------------------------------------------------------------------------


def _length(um: float, unit: str) -> str:
    return f"{float(f'{um:.3g}'):g} {unit}"


def _values(point: SweepPoint, unit: str) -> str:
    moved = "nothing moved"
    if not math.isnan(point.mean_displacement_um):
        moved = f"moved by {point.mean_displacement_um:.3g} {unit} on average"
    return f"created {_percent(point.percent_created)}, destroyed {_percent(point.percent_destroyed)}, {moved}"


def _percent(value: float) -> str:
    return f"{0.0 if value < 5e-4 else value:.3g} %"
