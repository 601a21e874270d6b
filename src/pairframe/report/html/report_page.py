"""The page of a cohort: headline, problems, and the table as data for its script."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from pairframe._version import __version__
from pairframe.notices import Notice
from pairframe.report.html.assets import render
from pairframe.results.cohort_table import Cohort, PlainRow, json_of, notices_of, page_name
from pairframe.results.formatting import number
from pairframe.results.motion_words import COHORT_POSE
from pairframe.results.schema import BY_NAME, COLUMNS, FAILED
from pairframe.results.words import label_name, short_name, status_kind, status_word, unit

MOST_IDS = 12  # pairs named in full with a problem
MOST_PROBLEMS = 100
MOST_CONFIGS = 8
_SHOWN = (
    "status",
    "area_source_um2",
    "area_target_um2",
    "growth_percent",
    "percent_created",
    "percent_destroyed",
    "mean_displacement_um",
    "mean_speed_um_per_min",
)
_LEFT_OUT = {"pair_id", "error", "advice", "maps_group", "work_key", "config_json", "versions_json", "notices_json"}
_FIRST_TO_PLOT = ("percent_created", "mean_displacement_um", "growth_percent")


def report_page(
    cohort: Cohort,
    title: str,
    pages: Collection[str],
    pictures: Sequence[str | None],
    damage: Mapping[str, str],
    *,
    made_at: str,
    has_figures: bool,
    has_analysis: bool = False,
    has_series: bool = False,
    embedded: Sequence[str] | None = None,
) -> str:
    """The report's HTML.

    Parameters
    ----------
    title : str
        Heading of the page.
    pages : set of str
        Names of the pair pages.
    pictures : list of str or None
        Address of each pair's thumbnail: data or a relative path.
    damage : mapping of pair_id to str
        Pairs whose maps could not be read, and why.
    made_at : str
        When the page was made.
    has_figures : bool
        Whether the pair pages have drawn figures.
    has_analysis : bool
        Whether there is an analysis of the groups beside it.
    has_series : bool
        Whether there are pages of the series beside it.
    embedded : list of str, optional
        Pages of the pairs whose pictures this page shows itself; links then lead to those instead of to other pages.
    """
    rows = cohort.rows
    only = rows[0] if len(rows) == 1 else None
    if embedded is not None:
        pages = embedded
    links = [page if (page := page_name(row)) in pages else None for row in rows]
    configs = [(json_of(text, {}), count) for text, count in cohort.distinct("config_json")]
    return render(
        "report.html",
        "report.js",
        title=title,
        cohort=cohort,
        data=_data(cohort, links, pictures) | {"embedded": embedded is not None},
        headline=_headline(cohort),
        engines=", ".join(name for name, _ in cohort.distinct("backend")),
        problems=_problems(cohort, links, damage)[:MOST_PROBLEMS],
        notices=_notices(cohort)[:MOST_PROBLEMS],
        most_ids=MOST_IDS,
        only=only,
        only_page=links[0] if only else None,
        has_figures=has_figures,
        has_analysis=has_analysis,
        has_series=has_series,
        embedded=None
        if embedded is None
        else [(page, row["pair_id"]) for page, row in zip(links, rows, strict=True) if page],
        address=(lambda page: f"#{page}") if embedded is not None else (lambda page: f"pairs/{page}.html"),
        configs=configs[:MOST_CONFIGS],
        n_configs=len(configs),
        differing=_differing([config for config, _ in configs]),
        versions=[(json_of(text, {}), count) for text, count in cohort.distinct("versions_json")][:MOST_CONFIGS],
        made_at=made_at,
        pairframe_version=__version__,
    )


def _headline(cohort: Cohort) -> list[dict[str, str]]:
    """Tiles: the number of pairs, their statuses, and medians of the main numbers."""
    rows, units = cohort.rows, cohort.units
    tiles = [{"kind": "", "value": f"{len(rows):,}", "name": "pair" if len(rows) == 1 else "pairs", "note": ""}]
    for (word, kind), count in Counter(_status_of(row) for row in rows).most_common():
        tiles.append({"kind": kind, "value": f"{count:,}", "name": word, "note": ""})
    if not cohort.failed and len(rows) > 1:
        tiles.append({"kind": "good", "value": "0", "name": "failed", "note": ""})
    # A median of micrometres and pixels has no meaning.
    lengths = () if cohort.has_mixed_units else ("mean_displacement_um", "mean_speed_um_per_min")
    counted, note = _counted(cohort)
    for column in ("percent_created", "percent_destroyed", *lengths):
        values = [row[column] for row in counted if row[column] is not None]
        if values:
            name = short_name(column) + (" (median)" if len(values) > 1 else "")
            shown_unit = unit(column, units)
            value = f"{number(median(values), shown_unit)} {shown_unit}"
            missing = "" if len(values) == len(counted) else f"{len(values):,} of {len(counted):,} pairs have one"
            tiles.append(
                {
                    "kind": "way" if "_um" in column else column.split("_")[-1],
                    "value": value,
                    "name": name,
                    "note": "; ".join(filter(None, (note, missing))),
                }
            )
    return tiles


def _status_of(row: PlainRow) -> tuple[str, str]:
    """Status of a pair in words, and its kind; one with warnings is not simply good."""
    has_warnings = bool(row["warnings"])
    return status_word(row["status"], has_warnings=has_warnings), status_kind(row["status"], has_warnings=has_warnings)


def _counted(cohort: Cohort) -> tuple[list[PlainRow], str]:
    """The certified rows that enter the medians, and a note when some are left out.

    A pair without a time is no part of a time course; the plots leave it out as well.
    """
    certified = [row for row in cohort.rows if status_kind(row["status"]) != "bad"]
    if cohort.time is None:
        return certified, ""
    timed = [row for row in certified if row[cohort.time] is not None]
    if len(timed) in (0, len(certified)):
        return certified, ""
    return timed, f"{len(timed):,} {'pair' if len(timed) == 1 else 'pairs'} with a {label_name(cohort.time)}"


def _problems(cohort: Cohort, links: Sequence[str | None], damage: Mapping[str, str]) -> list[dict[str, Any]]:
    """Failures first, then uncertified answers, then unreadable maps; pairs with the same problem are listed together."""
    found: dict[tuple[str, str, str], list[tuple[str, str | None]]] = defaultdict(list)
    linked = list(zip(cohort.rows, links, strict=True))
    for row, link in linked:
        if row["status"] == FAILED:
            found["failed", row["error"] or "no reason given", row["advice"] or ""].append((row["pair_id"], link))
    for row, link in linked:
        if row["status"] != FAILED and status_kind(row["status"]) == "bad":
            what = "not certified to the requested tolerance; do not trust the numbers of these pairs"
            found[status_word(row["status"]), what, row["advice"] or ""].append((row["pair_id"], link))
    for row, link in linked:
        if row["pair_id"] in damage:
            what = damage[row["pair_id"]]
            found["maps unreadable", what, "run this comparison again"].append((row["pair_id"], link))
    return [
        {"kind": kind, "what": what, "advice": advice, "pairs": pairs} for (kind, what, advice), pairs in found.items()
    ]


def _notices(cohort: Cohort) -> list[tuple[Notice, int]]:
    """One notice per code and how many pairs have it: warnings first, then the most frequent."""
    by_code: dict[str, list[Notice]] = defaultdict(list)
    for row in cohort.rows:
        for notice in notices_of(row):
            by_code[notice.code].append(notice)
    if cohort.has_mixed_units:
        sentence = "no pixel size is known, so lengths and areas are in pixels; those of the other pairs are in µm"
        by_code["units"] = [Notice("units", sentence)] * cohort.n_without_pixel_size
    groups = sorted(by_code.values(), key=lambda group: (not group[0].is_warning, -len(group)))
    return [(_example(group), len(group)) for group in groups]


def _example(group: list[Notice]) -> Notice:
    """The first of several notices with one code, marked as an example if the others have other numbers."""
    first = group[0]
    is_same = all(notice.message == first.message for notice in group)
    return first if is_same else replace(first, message=f"for example, {first.message}")


def _differing(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Fields that are not the same in all configs."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({str(config.get(name)) for config in configs}) > 1]


# --- the table as data -----------------------------------------------------------------------


def _data(cohort: Cohort, links: Sequence[str | None], pictures: Sequence[str | None]) -> dict[str, Any]:
    """Column by column, for the page's script."""
    rows, units = cohort.rows, cohort.units
    names = [column.name for column in COLUMNS if column.name not in _LEFT_OUT]
    names.insert(names.index("percent_created"), "growth_percent")
    # Labels come first, then the main numbers.
    shown = [*_labels_to_show(cohort), *_SHOWN]
    names = [*cohort.carried, *_SHOWN, *(name for name in names if name not in _SHOWN)]
    values = {name: [_growth(row) if name == "growth_percent" else row[name] for row in rows] for name in names}
    filled = [name for name in names if any(value is not None for value in values[name])]
    columns = [
        {
            "name": name,
            "label": label_name(name) if name in cohort.carried else short_name(name),
            "unit": "" if name in cohort.carried else unit(name, units, is_euclidean=cohort.is_euclidean),
            "meaning": _meaning(name),
            "numeric": _is_numeric(name, values[name]),
            "carried": name in cohort.carried,
            "shown": name in shown,
        }
        for name in filled
    ]
    return {
        "columns": columns,
        "values": {name: _packed(values[name]) for name in filled},
        "ids": [row["pair_id"] for row in rows],
        "pages": list(links),
        "kinds": [status_kind(row["status"], has_warnings=bool(row["warnings"])) for row in rows],
        "notes": [row["error"] or "\n".join(map(str, notices_of(row))) for row in rows],
        "pictures": list(pictures),
        "words": _packed([_status_of(row)[0] for row in rows]),
        "group": cohort.group,
        "series": cohort.series,
        "time": cohort.time,
        "first": next((name for name in _FIRST_TO_PLOT if any(v is not None for v in values[name])), None),
    }


def _packed(values: list[Any]) -> list[Any]:
    """Values with eight digits, enough for a page; a constant column is sent as one value."""
    if all(value == values[0] for value in values):
        return values[:1]
    return [float(f"{value:.8g}") if isinstance(value, float) else value for value in values]


def _labels_to_show(cohort: Cohort) -> list[str]:
    """Labels whose columns are shown at first; a series that only repeats the group is not."""
    series = cohort.series
    if cohort.group is not None and series is not None:
        both = {(row[cohort.group], row[series]) for row in cohort.rows}
        series = None if len(both) == len({group for group, _ in both}) else series
    roles = [name for name in (cohort.group, series, cohort.time) if name is not None]
    others = [name for name in cohort.carried if name != cohort.series and not name.startswith(COHORT_POSE)]
    return list(dict.fromkeys([*roles, *others]))[: max(3, len(roles))]


def _growth(row: PlainRow) -> float | None:
    """Change of mass, in percent of the source."""
    before, after = row["M_source"], row["M_target"]
    return 100 * (after / before - 1) if before and after is not None else None


def _meaning(name: str) -> str:
    if name == "growth_percent":
        return "change of mass from source to target, of the source"
    return BY_NAME[name].meaning.replace("`", "") if name in BY_NAME else "a label from the manifest"


def _is_numeric(name: str, values: Sequence[Any]) -> bool:
    if name in BY_NAME:
        return BY_NAME[name].kind != "string"
    return all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)
