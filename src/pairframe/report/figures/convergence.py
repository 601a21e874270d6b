"""Convergence of a solve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pairframe.engines import Status
from pairframe.report.figures.axes import title
from pairframe.report.style import CROP_COLOUR, SMALL_SIZE, SOURCE_COLOUR
from pairframe.report.view import mark_unfinished
from pairframe.results import TransportResult
from pairframe.results.formatting import minus

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def convergence_plot(result: TransportResult, ax: Axes) -> Axes:
    """Relative gap and marginal error over iterations, with the requested tolerance.

    Iterations are kernel applications on the work grid; cheaper ones on coarser grids count proportionally less.
    """
    trace = result.work.trace
    if not trace or result.status in (Status.empty_source, Status.empty_target):
        ax.set_axis_off()
        ax.text(0.5, 0.5, f"no solve: {result.status}", transform=ax.transAxes, ha="center", va="center")
        return title(ax, "convergence")
    iterations = np.array([record.iterations for record in trace])
    # The cost that the relative gap is relative to; a gap of 0 does not tell.
    known = 0 < result.relative_gap < np.inf
    size = result.gap / result.relative_gap if known else abs(result.objective)
    gaps = np.array([record.gap for record in trace]) / size if size > 0 else np.full(iterations.size, np.nan)
    errors = np.array([record.marginal_error for record in trace])
    series = (("relative gap", gaps, SOURCE_COLOUR, "o"), ("marginal error", errors, CROP_COLOUR, "s"))
    for name, values, colour, marker in series:
        # A log axis has no place for 0 and no number for infinity.
        drawn = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        label = f"{name}, 0 at the end" if values[-1] == 0 else name
        ax.plot(iterations, drawn, color=colour, marker=marker, ms=3.5, lw=1.2, label=label)
    ax.axhline(result.config.tol, color="0.3", lw=1, ls="--", label=minus(f"tolerance {result.config.tol:g}"))
    ax.set_yscale("log")
    ax.set_xlabel("iterations; those on coarser grids count by their share of the pixels", fontsize=SMALL_SIZE)
    ax.set_ylabel("error", fontsize=SMALL_SIZE)
    ax.tick_params(labelsize=SMALL_SIZE)
    ax.grid(True, color="0.9", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=SMALL_SIZE)
    mark_unfinished(result, ax)
    ends = minus(f"relative gap {result.relative_gap:.1e}, marginal error {result.marginal_error:.1e}")
    return title(ax, f"{result.status} after {result.iterations} iterations at full resolution", ends)
