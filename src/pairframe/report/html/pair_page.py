"""The page of one pair: its numbers and its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pairframe.engines import Status
from pairframe.regions.flow_table import BLUR_EXCHANGE
from pairframe.report.html.assets import render
from pairframe.report.html.motion_section import motion_section
from pairframe.report.html.pictures import View
from pairframe.results.cohort_table import PlainRow, is_area, is_euclidean, json_of, notices_of
from pairframe.results.error_bars import PARTS, QUANTITIES, column_name
from pairframe.results.formatting import number, scientific, share
from pairframe.results.motion_words import COHORT_POSE
from pairframe.results.row_units import units_of
from pairframe.results.schema import ABOUT_THE_PAIR, BY_NAME, COLUMNS
from pairframe.results.words import label_name, short_name, status_kind, status_word, unit
from pairframe.units import pretty

BAR_WIDTH = 200  # units of the drawing
_HIDDEN = {"config_json", "versions_json", "notices_json"}


@dataclass(frozen=True)
class Neighbour:
    """A link to another pair: the name of its page and of the pair."""

    page: str
    pair_id: str


def pair_page(
    row: PlainRow,
    page: str,
    view: View | None,
    damage: str | None,
    *,
    has_flows: bool = False,
    has_radial: bool = False,
    sweep: str | None = None,
    carried: tuple[str, ...] = (),
    before: Neighbour | None = None,
    after: Neighbour | None = None,
) -> str:
    """The page's HTML.

    Parameters
    ----------
    row : row
        Of the pair.
    page : str
        Name of the page and of the folder with its pictures.
    view : View, optional
        About its pictures; None when there are none.
    damage : str, optional
        Why the maps could not be read.
    has_flows : bool
        Whether the flows between labels are drawn.
    has_radial : bool
        Whether a radial profile is drawn.
    sweep : str, optional
        Recommendation of a sweep, whose figure is among the pictures.
    carried : tuple of str
        Labels beside the fixed columns.
    before, after : Neighbour, optional
        The pairs before and after it in the table.
    """
    config = json_of(row["config_json"], {})
    return render(
        "pair.html",
        "pair.js",
        row=row,
        page=page,
        view=view,
        damage=damage,
        has_flows=has_flows,
        blur_exchange=_blur_exchange(row),
        has_radial=has_radial,
        sweep=None if sweep is None else pretty(sweep),
        before=before,
        after=after,
        status_word=status_word(row["status"], has_warnings=bool(row["warnings"])),
        status_kind=status_kind(row["status"], has_warnings=bool(row["warnings"])),
        tiles=_tiles(row),
        error_bars=_error_bars(row),
        error_bars_words=_error_bars_words(row),
        certificate=_certificate(row, config),
        notices=notices_of(row),
        motion=motion_section(row),
        labels=[
            (label_name(name), number(row[name]))
            for name in carried
            if row[name] is not None and not name.startswith(COHORT_POSE)  # said in the section about the pose
        ],
        scalars=_scalars(row),
        length=units_of(row).length_text,
        config=config,
        versions=json_of(row["versions_json"], {}),
        number=number,
        python_name=ascii(row["pair_id"]),
    )


def _blur_exchange(row: PlainRow) -> str | None:
    """Area that touching labels exchange per length of border; None if masses are not areas, or plans not Gaussian."""
    if row["blur_um"] is None or is_euclidean(row) or not is_area(row):
        return None
    about = float(f"{BLUR_EXCHANGE * row['blur_um']:.2g}")
    return f"{number(about)} {units_of(row).area_text}"


def _tiles(row: PlainRow) -> list[dict[str, str]]:
    """The four headline numbers, each with the number to compare it with."""
    units = units_of(row)
    moved, total = row["total_mass_moved"], row["M_source"]
    length, area = units.length_text, units.area_text
    per_px_um2 = _px_extent(row)
    tiles = []
    for kind, of, floor in (("created", "target", "noise_floor_target"), ("destroyed", "source", "noise_floor")):
        mass, percent = row[f"total_mass_{kind}"], row[f"percent_{kind}"]
        shown = 0.0 if percent is not None and number(percent, "%") == "0" else mass  # no digits below the percents
        amount = f"{number(shown * per_px_um2)} {area}" if is_area(row) else f"{number(shown)} mass"
        below = percent is not None and row[floor] is not None and percent <= 100 * row[floor]
        tiles.append(
            {
                "kind": kind,
                "name": kind,
                "value": f"{number(percent, '%')} %" if percent is not None else "–",
                "note": f"of the {of}: {amount}",
                "floor": f"{'within the ' if below else ''}bias of the method {share(row[floor])}",
            }
        )
    moved_share = f"{number(100 * moved / total, '%')} %" if total else "–"
    tiles.append(
        {"kind": "moved", "name": "stayed or moved", "value": moved_share, "note": "of the source", "floor": ""}
    )
    mean = row["mean_displacement_um"]
    speed = row["mean_speed_um_per_min"]
    per_min = "" if speed is None else f" ({number(speed)} {length}/min)"
    when = "mean displacement" if row["pose_status"] is None else "mean displacement, after the pose"
    note = f"{when}{per_min}; blur {number(row['blur_um'])}, reach {number(row['reach_um'])} {length}"
    tiles.append(
        {
            "kind": "way",
            "name": "displacement",
            "value": f"{number(mean)} {length}" if mean is not None else "–",
            "note": note,
            "floor": "",
        }
    )
    return tiles


def _error_bars(row: PlainRow) -> list[dict[str, str]]:
    """The main numbers with their intervals, and where these lie on a scale from 0 to the upper end."""
    if row["error_bar_draws"] is None:
        return []
    units, found = units_of(row), []
    for name in QUANTITIES:
        value, low, high, se = (row[name], *(row[column_name(name, part)] for part in PARTS))
        column = BY_NAME[name].unit
        # Created and destroyed are drawn on one scale.
        most = high
        if column == "%":
            most = (
                100.0
                if name == "percent_moved"
                else max(row["percent_created_high"] or 0, row["percent_destroyed_high"] or 0)
            )
        known = None not in (value, low, high) and most > 0
        found.append(
            {
                "name": short_name(name),
                "value": number(value, column),
                "low": number(low, column),
                "high": number(high, column),
                "se": number(se, column),
                "unit": unit(name, units, is_euclidean=is_euclidean(row)),
                "left": f"{BAR_WIDTH * low / most:.2f}" if known else "",
                "width": f"{BAR_WIDTH * (high - low) / most:.2f}" if known else "",
                "at": f"{BAR_WIDTH * value / most:.2f}" if known else "",
            }
        )
    return found


def _error_bars_words(row: PlainRow) -> str:
    """Where the error bars come from, and what they do not cover."""
    if row["error_bar_draws"] is None and row["px_size_z_um"] is not None:
        return (
            "The bias of the method above is what it reports when nothing happens; it says nothing about the segmentation. Error bars "
            "for the segmentation are not computed for volumes yet."
        )
    if row["error_bar_draws"] is None:
        return (
            "No error bars were asked for. The bias of the method above is what it reports when nothing happens; it says nothing about "
            "the segmentation. For that, compare again with --error-bars."
        )
    rim = row["rim_um"]
    if rim is None:
        cause = f"if the outlines are as uncertain as the {number(row['error_bar_draws'])} segmentations differ"
    else:
        cause = f"if the outlines are uncertain by {number(rim)} {units_of(row).length_text} (one standard deviation)"
    return (
        f"The interval that holds the true number with a probability of about 95 %, {cause}. It covers errors of the segmentation alone, "
        "not the choice of reach and hypothesis."
    )


def _certificate(row: PlainRow, config: dict[str, Any]) -> dict[str, str]:
    """The certificate of a solve in plain words, and the engine that solved it."""
    cost = unit("objective_um2", units_of(row), is_euclidean=is_euclidean(row))
    work_px = (row["px_size_um"] or 1.0) * (row["downsample_factor"] or 1)
    to_um = work_px if is_euclidean(row) else work_px**2
    gap, error = scientific(row["relative_gap"]), scientific(row["marginal_error"])
    if row["status"] in (Status.empty_source, Status.empty_target):
        sentence = "One mask is empty, so there is nothing to solve: the answer is exact."
    elif row["objective"] is None:
        sentence = "There is no answer: the numbers left the range of floating point. Nothing is certified."
    else:
        sentence = (
            f"The total cost of moving, creating and destroying mass (the objective) is {number(to_um * row['objective'])} {cost}. "
            f"It is proved that no other plan is cheaper by more than {number(to_um * row['gap'])}, a relative gap of {gap}. The masses "
            f"of both masks are reproduced to within {error} (marginal error). The requested tolerance (tol) was "
            f"{scientific(config.get('tol'), 0)}."
        )
    engine = f"{row['backend']}, {row['dtype']}, {row['device']}; {number(row['iterations'])} kernel applications"
    if row["seconds"] is not None:
        engine += f", {number(row['seconds'])} s"
    return {"sentence": sentence, "engine": engine}


def _scalars(row: PlainRow) -> list[dict[str, str]]:
    """All numbers of the row with unit and meaning."""
    units, euclidean = units_of(row), is_euclidean(row)
    return [
        {
            "name": column.name,
            "short": short_name(column.name),
            "value": number(row[column.name], column.unit),
            "exact": "" if row[column.name] is None else str(row[column.name]),
            "unit": unit(column.name, units, is_euclidean=euclidean),
            "meaning": column.meaning.replace("`", ""),
        }
        for column in COLUMNS
        if column not in ABOUT_THE_PAIR and column.name not in _HIDDEN
    ]


def _px_extent(row: PlainRow) -> float:
    """Area of a pixel, or volume of a voxel."""
    if row["px_size_z_um"] is not None:
        return float(row["px_size_z_um"] * row["px_size_y_um"] * row["px_size_x_um"])
    return float(row["px_size_um"] ** 2) if row["px_size_um"] is not None else 1.0
