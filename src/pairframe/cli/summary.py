"""A result as a person reads it on a terminal, and as a machine reads it from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pairframe._version import __version__
from pairframe.cli.options import option_words
from pairframe.cli.terminal import visible
from pairframe.engines import Status
from pairframe.report.html.assets import plain
from pairframe.report.html.words import number, scientific, share, status_kind, status_word, unit
from pairframe.report.view import UNFINISHED, is_area
from pairframe.results import TransportResult
from pairframe.results.rows import column_unit, lengths_in_px
from pairframe.results.schema import BY_NAME, FEATURES, FIELDS, SCHEMA_VERSION, Row

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_ANSWER_LINES = ("moved", "destroyed", "created", "distance", "total cost", "certificate")
# What only a solve can tell; the rest is known from the masks and the config alone.
_ANSWER_COLUMNS = {column.name for column in (*FIELDS, *FEATURES)} - {
    *("M_source", "M_target", "area_source_um2", "area_target_um2", "growth_rate"),
    *("iterations", "epsilon", "lambda_unbalanced", "backend", "dtype", "device"),
} | {"mean_displacement_um", "percent_created", "percent_destroyed"}
STATUS_STYLES = {"good": "bold green", "odd": "bold yellow", "bad": "bold red"}
_CERTIFIED = "certified to: at most this share of the total cost is error (relative gap)"


class Line(NamedTuple):
    """One line of the summary: what, how much, and what to know about it."""

    name: str
    value: str
    remark: str = ""


def summary_lines(
    result: TransportResult, *, frame_interval_min: float | None = None, seconds: float | None = None
) -> list[Line]:
    """The summary of a result, with the unit of every number."""
    in_px = result.length_unit == "px"
    length, area = ("px", "px²") if in_px else ("µm", "µm²")
    mass = "px" if is_area(result) else "mass"
    cost = unit("divergence", lengths_in_px=in_px, is_euclidean=result.config.metric == "euclidean")
    transform = result.transform
    growth = 100 * (result.M_target / result.M_source - 1) if result.M_source > 0 else None
    moved = [f"{_percent(result.total_mass_moved, result.M_source)} of the source"]
    if result.total_mass_moved > 0:
        speed = f"{number(result.mean_displacement_um)} {length}/frame"
        if frame_interval_min is not None:
            speed += f" ({number(result.mean_displacement_um / frame_interval_min)} {length}/min)"
        moved.append(f"on average by {speed}")
    lines = [
        Line("source", f"{number(result.M_source)} {mass}", f"{number(result.area_source_um2)} {area}"),
        Line(
            "target",
            f"{number(result.M_target)} {mass}",
            f"{number(result.area_target_um2)} {area}" + ("" if growth is None else f", {_signed(growth)} % mass"),
        ),
        Line("moved", f"{number(result.total_mass_moved)} {mass}", ", ".join(moved)),
        Line(
            "destroyed",
            f"{number(result.total_mass_destroyed)} {mass}",
            f"{_percent(result.total_mass_destroyed, result.M_source)} of the source, "
            + _noise(result.noise_floor, result.destroyed_is_noise),
        ),
        Line(
            "created",
            f"{number(result.total_mass_created)} {mass}",
            f"{_percent(result.total_mass_created, result.M_target)} of the target, "
            + _noise(result.noise_floor_target, result.created_is_noise),
        ),
        Line(
            "distance",
            number(result.divergence),
            f"± {number(result.divergence_error)}, between the masks, 0 if they are equal (divergence, {cost})",
        ),
        Line(
            "total cost",
            number(result.objective),
            f"of moving, creating and destroying, certified to ± {number(result.gap)} (objective, {cost})",
        ),
        Line(
            "certificate",
            scientific(result.relative_gap),
            "proved: at most this share of the total cost is error "
            f"(relative gap; marginal error {scientific(result.marginal_error)}; wanted {scientific(result.config.tol, 0)})",
        ),
        Line("blur", f"{number(result.blur_um)} {length}", "below it nothing is resolved"),
        Line("reach", f"{number(result.reach_um)} {length}", _reach_words(result)),
        Line(
            "grid",
            f"{transform.work_shape_hw[0]} × {transform.work_shape_hw[1]}",
            f"work pixels of {number(transform.work_px_size_um)} {length}"
            + ("" if in_px else f", pixels of {number(transform.px_size_um)} {length}"),
        ),
        Line(
            "engine",
            result.backend,
            f"{result.dtype} on {result.device}, {result.iterations} iterations"
            + ("" if seconds is None else f", {seconds:.2f} s"),
        ),
    ]
    if result.status in (Status.empty_source, Status.empty_target):
        hidden = ("distance", "total cost", "certificate", "engine")  # nothing was solved
        lines = [line for line in lines if line.name not in hidden]
    if not result.has_answer:
        lines = [line._replace(value="none", remark="") if line.name in _ANSWER_LINES else line for line in lines]
        remark = "the numbers left what can be computed, so nothing is known about what moved"
        lines = [line._replace(remark=remark) if line.name == "certificate" else line for line in lines]
    return lines


def _reach_words(result: TransportResult) -> str:
    """What the reach does to mass that is far from where it is wanted."""
    kinds = set(result.config.penalties_ab)
    if kinds == {"balanced"}:
        return "all mass moves, however far"
    if kinds != {"kl"}:
        return "beyond about 1.4 times this distance (tv, partial) mass is destroyed and created instead of moved"
    # exp(-d^2 / (2 reach^2)), or exp(-d / (2 reach)), at one, two and three times the reach.
    shares = ("61 %", "14 %", "1 %") if result.config.metric == "sqeuclidean" else ("61 %", "37 %", "22 %")
    return "soft limit: of mass that far from its place {} moves, {} at twice, {} at three times".format(*shares)


def status_text(status: str) -> Text:
    """A status in its colour."""
    from rich.text import Text

    return Text(visible(status_word(status)), style=STATUS_STYLES[status_kind(status)])


def headline(result: TransportResult, source: str, target: str) -> Text:
    """Which pair, and how it ended; with the advice where the answer is not certified or not usual."""
    from rich.text import Text

    line = Text.assemble((f"{visible(source)} → {visible(target)}", "bold"), "  ", status_text(result.status))
    if result.status != Status.converged:
        style = STATUS_STYLES["bad"] if result.status in UNFINISHED else STATUS_STYLES["odd"]
        line.append(f": {option_words(result.status.advice)}", style=style.removeprefix("bold "))
    return line


def as_table(lines: list[Line]) -> Table:
    """Names, numbers and remarks under each other, without a frame."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def pairs_table(rows: list[Row]) -> Table:
    """One line per pair, for a few of them; `rows` as the store has them."""
    from rich import box
    from rich.table import Table

    in_px = all(lengths_in_px(row) for row in rows)
    length = "px" if in_px else "µm"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, caption=_CERTIFIED, caption_justify="left")
    table.add_column("pair", overflow="fold")
    table.add_column("status")
    for head in (
        "source\nmass",
        "target\nmass",
        f"moved by\n{length}/frame",
        "destroyed\n%",
        "created\n%",
        "certified\nto",
    ):
        table.add_column(head, justify="right")
    names = ("M_source", "M_target", "mean_displacement_um", "percent_destroyed", "percent_created", "relative_gap")
    for row in rows:
        numbers = (number(row[name], BY_NAME[name].unit) for name in names)
        table.add_row(visible(row["pair_id"]), status_text(row["status"]), *numbers)
    return table


def summary_json(row: Row, *, frame_interval_min: float | None, files: Mapping[str, str]) -> str:
    """The row of the table as JSON, one name per number, with units; NaN is null, an infinity the text ``inf``.

    Without an answer (``impossible``) every number that would be part of it is null.
    """
    has_answer, in_px = row["status"] != Status.impossible, lengths_in_px(row)
    found: dict[str, Any] = {
        name.removesuffix("_json"): json.loads(value) if name.endswith("_json") and value else value
        for name, value in row.items()
    }
    if not has_answer:
        found |= dict.fromkeys(_ANSWER_COLUMNS)
    if frame_interval_min is not None:
        found["frame_interval_min"] = frame_interval_min
        found["mean_speed_um_per_min"] = row["mean_displacement_um"] / frame_interval_min if has_answer else None
    is_euclidean = found["config"]["metric"] == "euclidean"
    units = {
        column.name: column_unit(column.name, in_px=in_px, is_euclidean=is_euclidean)
        for column in BY_NAME.values()
        if column.unit and column.unit != "1"
    }
    if frame_interval_min is not None:
        units |= {"frame_interval_min": "min", "mean_speed_um_per_min": "px/min" if in_px else "um/min"}
    about = {"pairframe": __version__, "schema_version": SCHEMA_VERSION}
    return json.dumps(
        plain({**about, **found, "px_size_known": not in_px, "units": units, "files": dict(files)}),
        indent=2,
        allow_nan=False,
    )


def _percent(part: float, whole: float) -> str:
    return f"{number(100 * part / whole, '%')} %" if whole > 0 else "– %"


def _noise(floor: float, is_noise: bool) -> str:
    return f"below the noise floor of {share(floor)}" if is_noise and floor > 0 else f"noise floor {share(floor)}"


def _signed(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)
