"""A result as a table on the terminal and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pairframe._version import __version__
from pairframe.cli.terminal import visible
from pairframe.engines import Status
from pairframe.plain_json import plain
from pairframe.problem import penalty_class
from pairframe.report.view import UNFINISHED, is_area
from pairframe.results import TransportResult
from pairframe.results.error_bars import ErrorBars
from pairframe.results.formatting import number, part_of, scientific, share
from pairframe.results.row_units import column_unit, shared_units, units_of
from pairframe.results.schema import (
    BY_NAME,
    COSTS,
    ERROR_BARS,
    FEATURES,
    FIELDS,
    INTERVAL,
    RATES,
    SCHEMA_VERSION,
    Row,
)
from pairframe.results.words import status_kind, status_word, unit

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_SAME_MASS = 0.001  # relative
_ANSWER_LINES = ("moved", "destroyed", "created", "divergence", "total cost", "certificate")
# Columns that come from the solve; the others follow from the masks and the config.
_ANSWER_COLUMNS = {column.name for column in (*FIELDS, *COSTS, *FEATURES, *RATES, *ERROR_BARS)} - {
    *("M_source", "M_target", "area_source_um2", "area_target_um2", "growth_rate", "growth_rate_per_h"),
    *("iterations", "epsilon", "lambda_unbalanced", "backend", "dtype", "device"),
}
STATUS_STYLES = {"good": "bold green", "odd": "bold yellow", "bad": "bold red"}
_CERTIFIED = "certified to: at most this share of the plan's cost is error (relative gap)"


class Line(NamedTuple):
    """One line of the summary: a name, a value and a remark."""

    name: str
    value: str
    remark: str = ""


def summary_lines(
    result: TransportResult, *, frame_interval_min: float | None = None, seconds: float | None = None
) -> list[Line]:
    """The summary of a result, with the unit of every number."""
    units = result.units
    length, area = units.length_text, units.area_text
    mass = ("voxels" if result.transform.is_volume else "px") if is_area(result) else "mass"
    cost = unit("divergence_um2", units, is_euclidean=result.config.metric == "euclidean")
    transform = result.transform
    growth = 100 * (result.M_target / result.M_source - 1) if result.M_source > 0 else None
    bars = result.error_bars
    moved = [f"{_percent(result.total_mass_moved, result.M_source)} of the source"]
    if result.total_mass_moved > 0:
        speed = f"{number(result.mean_displacement_um)} {length}"
        if frame_interval_min is not None:
            speed += f" ({number(result.mean_displacement_um / frame_interval_min)} {length}/min)"
        moved.append(f"on average by {speed}{_bar(bars, 'mean_displacement_um', length)}")
    lines = [
        Line("source", f"{number(result.M_source)} {mass}", f"{number(result.extents_um[0])} {area}"),
        Line(
            "target",
            f"{number(result.M_target)} {mass}",
            f"{number(result.extents_um[1])} {area}" + ("" if growth is None else f", {_signed(growth)} % mass"),
        ),
        Line("moved", f"{number(result.total_mass_moved)} {mass}", ", ".join(moved)),
        Line(
            "destroyed",
            f"{number(part_of(result.total_mass_destroyed, result.M_source))} {mass}",
            f"{_percent(result.total_mass_destroyed, result.M_source)} of the source, "
            + _noise(result.noise_floor, result.destroyed_is_noise)
            + _bar(bars, "percent_destroyed", "%"),
        ),
        Line(
            "created",
            f"{number(part_of(result.total_mass_created, result.M_target))} {mass}",
            f"{_percent(result.total_mass_created, result.M_target)} of the target, "
            + _noise(result.noise_floor_target, result.created_is_noise)
            + _bar(bars, "percent_created", "%"),
        ),
        Line(
            "divergence",
            f"{number(result.divergence_length_um)} {length}",
            f"per unit of mass, {_divergence_words(result)} ({number(result.divergence_um2)} ± "
            f"{number(result.divergence_error_um2)} {cost})",
        ),
        Line(
            "total cost",
            number(result.objective_um2),
            f"of moving, creating and destroying, certified to ± {number(result.scales.cost_um_from_cost_work(result.gap))} "
            f"(objective, {cost})",
        ),
        Line(
            "certificate",
            scientific(result.relative_gap),
            "proved: at most this share of the plan's cost is error "
            f"(relative gap; marginal error {scientific(result.marginal_error)}; tolerance {scientific(result.config.tol, 0)})",
        ),
        Line("blur", f"{number(result.blur_um)} {length}", "smallest length that is resolved"),
        Line("reach", f"{number(result.reach_um)} {length}", _reach_words(result)),
        Line(
            "grid",
            " × ".join(map(str, transform.work_shape_hw)),
            _grid_words(result),
        ),
        Line(
            "engine",
            result.backend,
            f"{result.dtype} on {result.device}, {result.iterations} iterations"
            + ("" if seconds is None else f", {seconds:.2f} s"),
        ),
    ]
    if result.status in (Status.empty_source, Status.empty_target):
        hidden = ("divergence", "total cost", "certificate", "engine")  # nothing was solved
        lines = [line for line in lines if line.name not in hidden]
    if not result.has_answer:
        lines = [line._replace(value="none", remark="") if line.name in _ANSWER_LINES else line for line in lines]
        remark = "the solve left the range of floating-point numbers, so there is no answer"
        lines = [line._replace(remark=remark) if line.name == "certificate" else line for line in lines]
    return lines


def _grid_words(result: TransportResult) -> str:
    transform, units = result.transform, result.units
    if transform.is_volume:
        sides = " × ".join(number(transform.downsample_factor * side) for side in units.px_sides)
        return f"work voxels of {sides} {units.length_text} (z, y, x)"
    return f"work pixels of {number(transform.work_px_size_um)} {units.length_text}" + (
        "" if units.in_px else f", pixels of {number(units.px_size)} {units.length_text}"
    )


def _divergence_words(result: TransportResult) -> str:
    if result.config.normalization == "each":
        return "0 if the masks have one shape, both taken as one unit of mass"
    if math.isclose(result.M_source, result.M_target, rel_tol=_SAME_MASS):
        return "0 if the masks are equal"
    return "with the price of unequal masses, which grows with the reach: no distance"


def _reach_words(result: TransportResult) -> str:
    """What the reach means for mass that is far from its target."""
    source, target = (
        penalty_class(name).reach_description(result.config.metric) for name in result.config.penalties_ab
    )
    return source if source == target else f"source: {source}; target: {target}"


def status_text(status: str, *, has_warnings: bool = False) -> Text:
    """A status in its colour."""
    from rich.text import Text

    word = status_word(status, has_warnings=has_warnings)
    return Text(visible(word), style=STATUS_STYLES[status_kind(status, has_warnings=has_warnings)])


def headline(result: TransportResult, source: str, target: str) -> Text:
    """The pair and its status, with advice unless it converged."""
    from rich.text import Text

    line = Text.assemble(
        (f"{visible(source)} → {visible(target)}", "bold"),
        "  ",
        status_text(result.status, has_warnings=bool(result.warnings)),
    )
    if result.status != Status.converged:
        style = STATUS_STYLES["bad"] if result.status in UNFINISHED else STATUS_STYLES["odd"]
        line.append(f": {result.status.advice}", style=style.removeprefix("bold "))
    return line


def as_table(lines: list[Line]) -> Table:
    """The lines as a table without borders."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def pairs_table(rows: list[Row]) -> Table:
    """A table with one line per pair, from rows of the store."""
    from rich import box
    from rich.table import Table

    length = shared_units(rows).length_text
    speed = "mean_speed_um_per_min"
    has_speed = any(row.get(speed) is not None for row in rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, caption=_CERTIFIED, caption_justify="left")
    table.add_column("pair", overflow="fold")
    table.add_column("status")
    for head in (
        "source\nmass",
        "target\nmass",
        f"moved by\n{length}",
        *([f"speed\n{length}/min"] if has_speed else []),
        "destroyed\n%",
        "created\n%",
        "certified\nto",
    ):
        table.add_column(head, justify="right")
    moved = ("mean_displacement_um", *([speed] if has_speed else []))
    names = ("M_source", "M_target", *moved, "percent_destroyed", "percent_created", "relative_gap")
    for row in rows:
        numbers = (number(row[name], BY_NAME[name].unit) for name in names)
        table.add_row(
            visible(row["pair_id"]), status_text(row["status"], has_warnings=bool(row.get("warnings"))), *numbers
        )
    return table


def summary_json(row: Row, *, files: Mapping[str, str]) -> str:
    """The row of the table as JSON, one name per number, with units; NaN is null, an infinity the text ``inf``.

    If there is no answer (``impossible``), every number of the answer is null.
    """
    has_answer, lengths = row["status"] != Status.impossible, units_of(row)
    found: dict[str, Any] = {
        name.removesuffix("_json"): json.loads(value) if name.endswith("_json") and value else value
        for name, value in row.items()
    }
    if not has_answer:
        found |= dict.fromkeys(_ANSWER_COLUMNS)
    is_euclidean = found["config"]["metric"] == "euclidean"
    units = {
        column.name: column_unit(column.name, lengths, is_euclidean=is_euclidean)
        for column in BY_NAME.values()
        if column.unit and column.unit != "1"
    }
    if INTERVAL in row:
        units[INTERVAL] = "min"
    about = {"pairframe": __version__, "schema_version": SCHEMA_VERSION}
    return json.dumps(
        plain({**about, **found, "px_size_known": not lengths.in_px, "units": units, "files": dict(files)}),
        indent=2,
        allow_nan=False,
    )


def _percent(part: float, whole: float) -> str:
    return f"{number(100 * part / whole, '%')} %" if whole > 0 else "– %"


def _noise(floor: float, is_noise: bool) -> str:
    words = f"bias of the method {share(floor)}"
    return f"below the {words}" if is_noise and floor > 0 else words


def _bar(bars: ErrorBars | None, name: str, unit: str) -> str:
    """The interval of a number for uncertain outlines, to follow it."""
    if bars is None:
        return ""
    bar = getattr(bars, name)
    unknown = "from several segmentations" if bars.is_from_replicates else "for uncertain outlines"
    return f", {number(bar.low, unit)} to {' '.join((number(bar.high, unit), unit)).strip()} {unknown}"


def _signed(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)
