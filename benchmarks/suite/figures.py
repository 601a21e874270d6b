"""The scaling curves and the races as pictures: Okabe and Ito's colours, and a marker of its own for each contestant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairframe.report.style import new_figure
from suite.curves import TOL
from suite.race import key
from suite.solvers import OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = {
    "grid": ("#000000", "o"),
    "pot": ("#E69F00", "s"),
    "pot-ti": ("#D55E00", "D"),
    "ott": ("#0072B2", "^"),
    "geomloss": ("#009E73", "v"),
    "torch": ("#CC79A7", "P"),
}
_LABELS = {
    "pixels": ("pixels with mass, both masks", "Same physics, finer pixels (blur 8 px and reach 50 px at 29 k pixels)"),
    "blur": ("blur, px of the 256 x 576 canvas", "Less blur (1.8 k pixels with mass, reach 50 px)"),
    "ratio": ("area of the target / area of the source", "One mask larger than the other (half resolution, blur 8 px)"),
    "pairs": ("pairs", "Many whole comparisons (7 k pixels with mass each, maps and self-problems too)"),
}


def write_figures(report: dict[str, Any], folder: Path) -> list[Path]:
    """``scaling_pixels.png``, ``scaling_blur.png``, ``scaling_ratio.png``, ``scaling_pairs.png``, ``scaling_accuracy.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ("pixels", "blur", "ratio"):
        written.append(_save(_curve_figure(report, name), folder / f"scaling_{name}.png"))
    written.append(_save(_pairs_figure(report), folder / "scaling_pairs.png"))
    written.append(_save(_accuracy_figure(report), folder / "scaling_accuracy.png"))
    return written


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    return path


def _curve_figure(report: dict[str, Any], name: str) -> Any:
    figure = new_figure(7.2, 4.4)
    axes = figure.add_subplot()
    points = report["curves"][name]
    for solver in report["contestants"]:
        found = [
            (point["x"], time)
            for point in points
            if (time := point["rows"].get(solver, {}).get("times", {}).get(key(TOL))) is not None
        ]
        _line(axes, solver, found)
        for point in points:
            if _is_beyond(row := point["rows"].get(solver, {})) and "seconds" in row.get("last", {}):
                _mark_beyond(axes, solver, point["x"], row["last"]["seconds"])
    axes.set_xscale("log")
    axes.set_yscale("log")
    _whole_decades(axes)
    label, title = _LABELS[name]
    axes.set_xlabel(label)
    axes.set_ylabel(f"seconds to certified {TOL:.0e}")
    axes.set_title(title, fontsize=10)
    if name == "blur":
        axes.invert_xaxis()
    _finish(axes)
    _legend(figure, report)
    return figure


def _is_beyond(row: dict[str, Any]) -> bool:
    return row.get("ended") in ("limit", "stuck", "cut off") and not row.get("times")


def _mark_beyond(axes: Axes, solver: str, x: float, seconds: float) -> None:
    """Not there after that time: an open marker, and an arrow upwards."""
    colour, marker = STYLES[solver]
    axes.plot([x], [seconds], marker, mfc="white", mec=colour, ms=7, zorder=4)
    axes.plot([x], [2.2 * seconds], alpha=0.0)  # makes room for the arrow
    axes.annotate("", (x, 2.0 * seconds), (x, 1.15 * seconds), arrowprops={"arrowstyle": "->", "color": colour})


def _legend(figure: Figure, report: dict[str, Any]) -> None:
    """All contestants, whether they came far or not, beside the picture."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], color=STYLES[name][0], marker=STYLES[name][1], ms=5, lw=2.2 if name == OURS else 1.2, label=label
        )
        for name, label in report["contestants"].items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def _line(axes: Axes, solver: str, found: list[tuple[float, dict[str, Any]]]) -> None:
    if not found:
        return
    colour, marker = STYLES[solver]
    xs = [x for x, _ in found]
    middle = [time["median_s"] for _, time in found]
    spread = [
        [time["median_s"] - time["min_s"] for _, time in found],
        [time["max_s"] - time["median_s"] for _, time in found],
    ]
    axes.errorbar(
        xs,
        middle,
        yerr=spread,
        color=colour,
        marker=marker,
        ms=6 if solver == OURS else 5,
        lw=2.2 if solver == OURS else 1.2,
        capsize=2,
        zorder=3 if solver == OURS else 2,
    )


def _pairs_figure(report: dict[str, Any]) -> Any:
    figure = new_figure(7.2, 4.4)
    axes = figure.add_subplot()
    points = report["curves"]["pairs"]
    styles = (("#000000", "o", "-"), ("#0072B2", "s", "--"))
    for jobs, (colour, marker, dash) in zip(_jobs(points), styles, strict=False):
        found = [
            (point["x"], point["rows"][jobs]["seconds"]) for point in points if "seconds" in point["rows"].get(jobs, {})
        ]
        if found:
            label = f"{jobs} core{'s' if jobs != '1' else ''}: {found[-1][1] / found[-1][0]:.3f} s per pair"
            axes.plot(*zip(*found, strict=True), color=colour, marker=marker, ls=dash, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(_LABELS["pairs"][0])
    axes.set_ylabel("seconds, compare_many")
    axes.set_title(_LABELS["pairs"][1], fontsize=10)
    _finish(axes)
    if axes.lines:
        axes.legend(fontsize=8, frameon=False)
    return figure


def _jobs(points: Iterable[dict[str, Any]]) -> list[str]:
    return sorted({jobs for point in points for jobs in point["rows"]}, key=int)


def _accuracy_figure(report: dict[str, Any]) -> Any:
    """The timed runs: what each was worth, for each setting at the smallest resolution, where all run."""
    smallest: dict[str, dict[str, Any]] = {}
    for one in report["races"]:
        smallest.setdefault(one["setting"], one)
    figure = new_figure(4.0 * max(1, len(smallest)), 4.2)
    for number, (setting, one) in enumerate(smallest.items()):
        axes = figure.add_subplot(1, len(smallest), number + 1)
        for solver in report["contestants"]:
            found = _timed_errors(one["rows"].get(solver, {}))
            if found:
                colour, marker = STYLES[solver]
                width = 2.2 if solver == OURS else 1.2
                axes.plot(*zip(*found, strict=True), color=colour, marker=marker, ms=5, lw=width)
        axes.set_xscale("log")
        axes.set_yscale("log")
        _whole_decades(axes)
        axes.set_xlabel("seconds")
        if number == 0:
            axes.set_ylabel("certified error: larger of gap and marginals")
        axes.set_title(setting.split(" (")[0].replace(": ", "\n"), fontsize=9)
        _finish(axes)
    _legend(figure, report)
    return figure


def _timed_errors(row: dict[str, Any]) -> list[tuple[float, float]]:
    """(seconds, larger error) of the runs to each accuracy and of the last one; broken ones have no error to show."""
    runs = [(time["median_s"], time) for time in row.get("times", {}).values()]
    if "relative_gap" in row.get("last", {}):
        runs.append((row["last"]["seconds"], row["last"]))
    errors = [(seconds, run["relative_gap"], run["marginal_error"]) for seconds, run in runs]
    finite = [(seconds, max(both)) for seconds, *both in errors if None not in both]  # JSON has no infinity
    return [(seconds, error) for seconds, error in finite if 0 < error < 10]


def _whole_decades(axes: Axes) -> None:
    """Limits at powers of ten, so that at least two of them are written."""
    for low_high, set_limits in ((axes.get_xlim(), axes.set_xlim), (axes.get_ylim(), axes.set_ylim)):
        low, high = sorted(low_high)
        set_limits(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))


def _finish(axes: Axes) -> None:
    """A grid, and words where there is nothing."""
    if not axes.lines and not axes.containers:
        axes.text(0.5, 0.5, "not measured: the time was up", transform=axes.transAxes, ha="center", color="#555555")
    axes.grid(True, which="major", color="#DDDDDD", lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
