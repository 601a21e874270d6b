"""The profiles of many pairs in one tidy table, a row per pair and bin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairframe.axis.body_axis import BodyAxis, Orientation, body_axis, mask_of
from pairframe.axis.profile import RadialBy, axis_profile, radial_profile
from pairframe.errors import AlignError, AxisError, BrokenStoreError, FileError, MaskError, StoreVersionError
from pairframe.files import open_regular
from pairframe.masks import Mask
from pairframe.parallel.in_order import in_order
from pairframe.progress import Progress
from pairframe.regions.labels import on_source_canvas
from pairframe.results import ResultStore, TransportResult
from pairframe.results.schema import FAILED

if TYPE_CHECKING:
    import pandas as pd

PROFILES_NAME = "axis_profile.csv"
RADIAL_NAME = "radial_profile.csv"
DEFAULT_BINS = 20
_FEWEST_FOR_PROCESSES = 8  # pairs; for fewer, starting a process takes longer than the profiles
_MASSES = {f"mass_{what}{where}" for what in ("created", "destroyed") for where in ("", "_beyond")}
_DRAWN = frozenset({"bin", "s_low", "s_high", *_MASSES, "thickness_um", "head", "head_y_um"})

ReadHead = Callable[[], Mask]


def axis_rows(
    result: TransportResult,
    pair_id: str,
    *,
    n_bins: int = DEFAULT_BINS,
    before: BodyAxis | None = None,
    head: Mask | None = None,
) -> tuple[pd.DataFrame, BodyAxis | None]:
    """The rows of one pair, and its axis. A pair without an axis has one row, whose `note` says why.

    Parameters
    ----------
    before : BodyAxis, optional
        Of the frame before, which decides where the head is if the mask itself does not.
    head : Mask, optional
        A landmark at the head, on the canvas of the source.
    """
    import pandas as pd

    try:
        axis = body_axis(result, head=None if head is None else _on_canvas(head, result))
        if axis.is_ambiguous and before is not None:
            axis = body_axis(result, reference=before)
    except AxisError as error:
        return pd.DataFrame(
            [{"pair_id": pair_id, "note": f"expected {error.expected}, got {error.got}; {error.fix}"}]
        ), None
    return _rows_of(result, pair_id, axis, n_bins), axis


def radial_rows(result: TransportResult, pair_id: str, by: RadialBy, *, n_bins: int = DEFAULT_BINS) -> pd.DataFrame:
    """The rows of one pair around its centre, as `radial_profile`, with its name first. Without mass, one row with a `note`."""
    import pandas as pd

    try:
        rows = radial_profile(result, by=by, n_bins=n_bins)
    except AxisError as error:
        return pd.DataFrame([{"pair_id": pair_id, "note": f"expected {error.expected}, got {error.got}"}])
    rows.insert(0, "pair_id", pair_id)
    rows["length_unit"], rows["note"] = result.units.length, None
    return rows


def axis_table(
    store: ResultStore,
    *,
    n_bins: int | None = None,
    heads: Mapping[str, ReadHead] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The profiles of all pairs of a folder of results. Pairs of one series (a carried column) follow each other's head.

    Parameters
    ----------
    n_bins : int, optional
        As in the table that is there, else 20.
    heads : mapping of pair_id to callable, optional
        Reads the landmark at the head of a pair's source. Heads found by a landmark in the table that is there stay.
    jobs : int
        Number of processes including this one.
    progress : callable (task, done, total, pair_id), optional
        Called after each pair.
    """
    earlier = read_profiles(store.out)
    if n_bins is None:
        n_bins = next((len(rows) for rows in earlier.values()), DEFAULT_BINS)
    table = store.table()
    table = table[table["status"] != FAILED]
    series: list[Any] = table["series"].tolist() if "series" in table.columns else list(range(len(table)))
    names = table["pair_id"].tolist()
    tasks = [(name, (heads or {}).get(name), _known_head(earlier.get(name))) for name in names]
    found: list[pd.DataFrame] = []
    last: dict[Any, BodyAxis] = {}
    work = partial(_profiles_of, store.out, n_bins)
    results = in_order(work, iter(tasks), len(tasks), jobs) if _is_many(tasks, jobs) else iter(work(tasks))
    for number, (pair_id, name, (rows, axis)) in enumerate(zip(names, series, results, strict=True), start=1):
        if axis is not None and axis.is_ambiguous and name in last:
            rows, axis = axis_rows(store.load(pair_id), pair_id, n_bins=n_bins, before=last[name])
        if axis is not None:
            last[name] = axis
        found.append(rows)
        if progress is not None:
            progress("axis", number, len(table), pair_id)
    return _together(found)


def radial_table(store: ResultStore, by: RadialBy, *, n_bins: int | None = None, jobs: int = 1) -> pd.DataFrame:
    """The profiles of all pairs of a folder of results around their centres; parameters as for `axis_table`."""
    table = store.table()
    names = table["pair_id"][table["status"] != FAILED].tolist()
    work = partial(_radials_of, store.out, by, DEFAULT_BINS if n_bins is None else n_bins)
    found = in_order(work, iter(names), len(names), jobs) if _is_many(names, jobs) else iter(work(names))
    return _together(list(found))


def _profiles_of(
    out: Path, n_bins: int, tasks: list[tuple[str, ReadHead | None, tuple[float, float] | None]]
) -> list[tuple[pd.DataFrame, BodyAxis | None]]:
    """Rows and axis of some pairs, each for itself; in any process."""
    import pandas as pd

    store, found = ResultStore(out), []
    for pair_id, read_head, known_head in tasks:
        try:
            result = store.load(pair_id)
            rows, axis = axis_rows(result, pair_id, n_bins=n_bins, head=None if read_head is None else read_head())
            if axis is not None and read_head is None and known_head is not None:
                axis = _with_head_at(axis, known_head, "landmark")
                rows = _rows_of(result, pair_id, axis, n_bins)
        except (BrokenStoreError, StoreVersionError, MaskError, FileError, AlignError) as error:
            rows, axis = pd.DataFrame([{"pair_id": pair_id, "note": str(error)}]), None
        found.append((rows, axis))
    return found


def _radials_of(out: Path, by: RadialBy, n_bins: int, pair_ids: list[str]) -> list[pd.DataFrame]:
    import pandas as pd

    store, found = ResultStore(out), []
    for pair_id in pair_ids:
        try:
            found.append(radial_rows(store.load(pair_id), pair_id, by, n_bins=n_bins))
        except (BrokenStoreError, StoreVersionError) as error:
            found.append(pd.DataFrame([{"pair_id": pair_id, "note": str(error)}]))
    return found


def _is_many(tasks: Sequence[Any], jobs: int) -> bool:
    return jobs > 1 and len(tasks) >= _FEWEST_FOR_PROCESSES


def _together(found: list[pd.DataFrame]) -> pd.DataFrame:
    """One table; rows of pairs without a profile come last, so that they do not change the order of the columns."""
    import pandas as pd

    ordered = [rows for rows in found if len(rows) > 1] + [rows for rows in found if len(rows) == 1]
    return pd.concat(ordered, ignore_index=True) if found else pd.DataFrame({"pair_id": [], "note": []})


def _rows_of(result: TransportResult, pair_id: str, axis: BodyAxis, n_bins: int) -> pd.DataFrame:
    rows = axis_profile(result, axis, n_bins=n_bins)
    rows.insert(0, "pair_id", pair_id)
    rows["axis_length_um"], rows["target_axis_length_um"] = axis.length_um, target_axis_length_um(result)
    rows["head"] = axis.orientation
    rows["head_y_um"], rows["head_x_um"] = axis.head_yx_um
    rows["length_unit"] = result.units.length
    rows["note"] = "head and tail cannot be told apart" if axis.is_ambiguous else None
    return rows


def target_axis_length_um(result: TransportResult) -> float:
    """Length of the axis of the target; NaN if it has none."""
    try:
        return body_axis(mask_of(result, "target")).length_um
    except AxisError:
        return math.nan


def _on_canvas(head: Mask, result: TransportResult) -> Mask:
    """A landmark on the canvas of the result, which alignment may have made larger than that of the source."""
    values = head.values > 0
    # Its pixel size is that of the result, whatever its file says.
    return Mask.from_array(values if result.pose is None else on_source_canvas(values, result.pose, "head"))


def _known_head(rows: pd.DataFrame | None) -> tuple[float, float] | None:
    """Where a landmark had put the head of a pair in the table that is there."""
    if rows is None or rows["head"].iloc[0] != "landmark":
        return None
    return float(rows["head_y_um"].iloc[0]), float(rows["head_x_um"].iloc[0])


def _with_head_at(axis: BodyAxis, head_yx_um: tuple[float, float], orientation: Orientation) -> BodyAxis:
    """The axis with its head at the end nearer to a point."""
    tail = tuple(axis.centreline_yx_um[-1])
    if math.dist(head_yx_um, tail) < math.dist(head_yx_um, axis.head_yx_um):
        axis = axis.reversed()
    return replace(axis, orientation=orientation)


def read_profiles(out: Path) -> dict[str, pd.DataFrame]:
    """The profiles in a folder of results by pair, without pairs that have no axis; none if the table is missing or damaged."""
    table = _read(out / PROFILES_NAME)
    if table is None or not {"pair_id", *_DRAWN} <= set(table.columns):
        return {}
    table = table[table["bin"].notna()]
    return {str(name): rows.reset_index(drop=True) for name, rows in table.groupby("pair_id", sort=False)}


def read_radial(out: Path) -> pd.DataFrame | None:
    """The radial profiles in a folder of results; None if the table is missing or damaged."""
    table = _read(out / RADIAL_NAME)
    return None if table is None or "pair_id" not in table.columns else table


def with_rows_of(path: Path, pair_id: str, rows: pd.DataFrame | None) -> bytes | None:
    """A table of profiles, as CSV, with the rows of one pair replaced, or removed; None if there is nothing to write."""
    import pandas as pd

    old = _read(path)
    if old is not None and "pair_id" in old.columns:
        kept = old[old["pair_id"].astype(str) != pair_id]
        if rows is None and len(kept) == len(old):
            return None
        rows = kept if rows is None else rows if kept.empty else pd.concat([kept, rows], ignore_index=True)
    return None if rows is None else to_csv(rows)


def to_csv(table: pd.DataFrame) -> bytes:
    """As a file: UTF-8, all digits, unknown numbers empty."""
    return table.to_csv(index=False).encode()


def drawn_axis(result: TransportResult, rows: pd.DataFrame) -> BodyAxis:
    """The axis of a pair with its head where its rows have it."""
    head = (float(rows["head_y_um"].iloc[0]), float(rows["head_x_um"].iloc[0]))
    return _with_head_at(body_axis(result), head, rows["head"].iloc[0])


def _read(path: Path) -> pd.DataFrame | None:
    import pandas as pd

    try:
        with open_regular(path) as stream:
            return pd.read_csv(stream, dtype={"pair_id": str, "note": str, "head": str})
    except (OSError, ValueError):  # missing, or not a table: it is written again
        return None
