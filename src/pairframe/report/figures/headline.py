"""The lines above the panels of a figure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from pairframe.engines import Status
from pairframe.report.style import SMALL_SIZE, WARNING_COLOUR
from pairframe.report.view import UNFINISHED, is_area
from pairframe.results import TransportResult
from pairframe.results.formatting import in_words, minus, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST_NOTICE = 160
CHARACTERS_PER_IN = 13  # of the headline


def headline(result: TransportResult, figure: Figure) -> None:
    """Two lines above the panels: the masses and lengths, and how sure the answer is; then the notices."""
    unit, gap = result.units.length_text, minus(f"{result.relative_gap:.1e}")
    mass_unit = ("voxels" if result.transform.is_volume else "px") if is_area(result) else "of mass"
    growth = "" if result.M_source == 0 else f" ({percent(result.M_target, result.M_source)} of the source)"
    lines = [
        f"source {in_words(result.M_source)}, target {in_words(result.M_target)} {mass_unit}{growth}; "
        f"blur {in_words(result.blur_um)} {unit}, reach {in_words(result.reach_um)} {unit}",
        f"{_solved(result)}, error at most {gap} of the cost that depends on the plan (relative gap); "
        f"bias of the method {percent(result.noise_floor, 1.0)}",
    ]
    if result.status in (Status.empty_source, Status.empty_target):
        lines[1] = f"{result.status}: nothing to solve"
    elif result.status in UNFINISHED:
        lines[1] = (
            f"NOT CONVERGED ({result.status}), error up to {gap} of the plan's cost (relative gap): {result.status.advice}"
        )
    lines += [_shortened(f"{notice.severity}: {notice}") for notice in result.notices]
    width = int(CHARACTERS_PER_IN * figure.get_figwidth())
    lines = [textwrap.fill(line, width) for line in lines]
    colour = WARNING_COLOUR if result.status in UNFINISHED or result.warnings else "black"
    figure.suptitle("\n".join(lines), fontsize=SMALL_SIZE + 2, color=colour, parse_math=False)


def _solved(result: TransportResult) -> str:
    return "solved exactly, but read this: certified" if result.warnings else f"{result.status}: certified"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NOTICE else f"{text[: LONGEST_NOTICE - 1]}…"
