"""The rows of a store as plain values, and the roles of its carried columns: group, series, time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pairframe import plain_json
from pairframe.masks import MassMode
from pairframe.notices import Notice
from pairframe.results.disk import is_group_name
from pairframe.results.row_units import shared_units, units_of
from pairframe.results.schema import BY_NAME, FAILED
from pairframe.results.store import ResultStore
from pairframe.units import Units

PlainRow = dict[str, Any]
_GROUPS = ("group", "condition", "treatment", "genotype", "class", "category", "label", "experiment", "batch")
_SERIES = ("series", "series_id", "embryo", "embryo_id", "track", "track_id", "sample", "sample_id", "animal", "well")
_TIMES = (
    "time",
    "time_h",
    "time_min",
    "time_s",
    "hpf",
    "t",
    "frame",
    "frame_index",
    "frame_source",
    "timepoint",
    "step",
)
MOST_GROUPS = 60  # a column with more values names pairs, not groups


@dataclass(frozen=True, eq=False)
class Cohort:
    """One row per pair, good or failed, in the order of the table.

    Attributes
    ----------
    rows : list of rows
        None for values that are missing or NaN.
    carried : tuple of str
        Columns beside the fixed ones: labels.
    group, series, time : str or None
        The carried columns that name groups, time series, and time within them.
    """

    rows: list[PlainRow]
    carried: tuple[str, ...]
    group: str | None
    series: str | None
    time: str | None

    @property
    def failed(self) -> list[PlainRow]:
        """Pairs without a result."""
        return [row for row in self.rows if row["status"] == FAILED]

    @property
    def units(self) -> Units:
        """Units to label lengths with: pixels if no pair has a pixel size."""
        return shared_units(self.rows)

    @property
    def n_without_pixel_size(self) -> int:
        """Results whose lengths are in pixels."""
        return sum(units_of(row).in_px for row in self.rows if row["status"] != FAILED)

    @property
    def has_mixed_units(self) -> bool:
        """Whether some lengths are in um and some in pixels."""
        return 0 < self.n_without_pixel_size < len(self.rows) - len(self.failed)

    @property
    def is_euclidean(self) -> bool:
        """Whether all costs are mass times length rather than mass times length squared."""
        return bool(self.rows) and all(is_euclidean(row) for row in self.rows if row["status"] != FAILED)

    def distinct(self, column: str) -> list[tuple[str, int]]:
        """The values of a text column and how many pairs have them, most frequent first."""
        return Counter(row[column] for row in self.rows if row[column] is not None).most_common()


def read_cohort(store: ResultStore) -> Cohort:
    """Read the table of a store."""
    frame = store.table()
    columns = {str(name): [_plain(value) for value in frame[name].tolist()] for name in frame.columns}
    names = list(columns)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return cohort_of(rows, tuple(name for name in names if name not in BY_NAME))


def cohort_of(rows: list[PlainRow], carried: tuple[str, ...]) -> Cohort:
    """Find the roles of the carried columns by their names or their values."""
    values = {name: [row[name] for row in rows if row[name] is not None] for name in carried}
    numeric = [name for name in carried if values[name] and all(_is_number(value) for value in values[name])]
    texts = [name for name in carried if values[name] and name not in numeric]
    series = _first(_SERIES, carried, lambda name: bool(values[name]))
    few = [name for name in texts if name != series and 2 <= len(set(values[name])) <= MOST_GROUPS]
    group = _first(_GROUPS, carried, lambda name: 1 <= len(set(map(str, values[name]))) <= MOST_GROUPS)
    return Cohort(
        rows=rows,
        carried=carried,
        group=group or next(iter(few), None),
        series=series,
        time=_time(rows, carried, numeric, series),
    )


def _time(rows: list[PlainRow], carried: Sequence[str], numeric: list[str], series: str | None) -> str | None:
    """The column of time: of the source, or of the target if every series is compared with one reference frame."""
    found = _first(_TIMES, carried, lambda name: name in numeric)
    target = f"{found}_target"
    if found is None or target not in numeric:
        return found
    sources: dict[Any, list[Any]] = {}
    for row in rows:
        if row[found] is not None:
            sources.setdefault(row[series] if series else None, []).append(row[found])
    several = [times for times in sources.values() if len(times) > 1]
    return target if several and all(len(set(times)) == 1 for times in several) else found


def page_name(row: PlainRow) -> str | None:
    """The name of a pair's page and folder: that of its maps, checked; None without a result."""
    group = row["maps_group"]
    return group if row["status"] != FAILED and is_group_name(group) else None


def json_of(text: Any, otherwise: Any) -> Any:
    """The JSON in a cell, or `otherwise` if it cannot be read."""
    try:
        found = plain_json.parse(text)
    except (TypeError, ValueError):
        return otherwise
    return found if isinstance(found, type(otherwise)) else otherwise


def is_area(row: PlainRow) -> bool:
    """Whether the masses of a pair are pixels."""
    return MassMode.parse(json_of(row["config_json"], {}).get("mass_mode", "uniform")).is_area


def is_euclidean(row: PlainRow) -> bool:
    """Whether a pair's cost is a length rather than a squared length."""
    return bool(json_of(row["config_json"], {}).get("metric") == "euclidean")


def notices_of(row: PlainRow) -> list[Notice]:
    """The notices of a comparison; none if they cannot be read."""
    try:
        return [Notice.from_plain(notice) for notice in json_of(row["notices_json"], [])]
    except (TypeError, ValueError, LookupError):
        return []


def _first(wanted: Sequence[str], carried: Sequence[str], fits: Callable[[str], bool]) -> str | None:
    by_lower = {name.lower(): name for name in carried}
    found = (by_lower[name] for name in wanted if name in by_lower)
    return next((name for name in found if fits(name)), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)
