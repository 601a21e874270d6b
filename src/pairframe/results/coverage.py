"""Which pixels of a mask count as its body: one rule for the body axis, outlines and the rim of the strain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from pairframe.types import Bool

if TYPE_CHECKING:
    from pairframe.results.result import TransportResult

LEAST_COVERAGE = 0.5  # of a pixel that belongs to the body


def covered(values: NDArray[Any], *, is_area: bool, full: float = 1.0) -> Bool:
    """Pixels that count: those at least half covered, as outlines of moved masks are grey; all with mass if it is no area.

    Parameters
    ----------
    full : float
        Mass of a pixel that is covered completely.
    """
    on: Bool = values >= LEAST_COVERAGE * full if is_area else values > 0
    return on


def covered_work_px(result: TransportResult, side: Literal["source", "target"]) -> Bool:
    """The work pixels (Hw, Ww) of one mask of a result that count."""
    mass = result.work.mass_source if side == "source" else result.work.mass_target
    return covered(mass, is_area=result.config.mass.is_area, full=float(result.transform.downsample_factor**2))
