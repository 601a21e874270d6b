"""The profiles of many pairs in one tidy table, a row per pair and bin."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairframe.axis.body_axis import BodyAxis, body_axis
from pairframe.axis.profile import axis_profile
from pairframe.errors import AxisError, BrokenStoreError, StoreVersionError
from pairframe.files import open_regular
from pairframe.progress import Progress
from pairframe.results import ResultStore, TransportResult
from pairframe.results.schema import FAILED

if TYPE_CHECKING:
    import pandas as pd

PROFILES_NAME = "axis_profile.csv"
_DRAWN = frozenset({"bin", "s_low", "s_high", "mass_created", "mass_destroyed", "thickness_um", "head", "head_y_um"})


def axis_rows(
    result: TransportResult, pair_id: str, *, n_bins: int = 20, before: BodyAxis | None = None
) -> tuple[pd.DataFrame, BodyAxis | None]:
    """The rows of one pair, and its axis. A pair without an axis has one row, whose `note` says why.

    Parameters
    ----------
    before : BodyAxis, optional
        Of the frame before, which decides where the head is if the mask itself does not.
    """
    import pandas as pd

    try:
        axis = body_axis(result)
        if axis.is_ambiguous and before is not None:
            axis = body_axis(result, reference=before)
    except AxisError as error:
        return pd.DataFrame([{"pair_id": pair_id, "note": f"expected {error.expected}, got {error.got}"}]), None
    rows = axis_profile(result, axis, n_bins=n_bins)
    rows.insert(0, "pair_id", pair_id)
    rows["axis_length_um"], rows["head"] = axis.length_um, axis.orientation
    rows["head_y_um"], rows["head_x_um"] = axis.head_yx_um
    rows["length_unit"] = result.units.length
    rows["note"] = "head and tail cannot be told apart" if axis.is_ambiguous else None
    return rows, axis


def axis_table(store: ResultStore, *, n_bins: int = 20, progress: Progress | None = None) -> pd.DataFrame:
    """The profiles of all pairs of a folder of results. Pairs of one series (a carried column) follow each other's head.

    Parameters
    ----------
    progress : callable (task, done, total, pair_id), optional
        Called after each pair.
    """
    import pandas as pd

    table = store.table()
    table = table[table["status"] != FAILED]
    series: list[Any] = table["series"].tolist() if "series" in table.columns else list(range(len(table)))
    found: list[pd.DataFrame] = []
    last: dict[Any, BodyAxis] = {}
    for number, (pair_id, name) in enumerate(zip(table["pair_id"], series, strict=True), start=1):
        try:
            rows, axis = axis_rows(store.load(pair_id), pair_id, n_bins=n_bins, before=last.get(name))
        except (BrokenStoreError, StoreVersionError) as error:
            rows, axis = pd.DataFrame([{"pair_id": pair_id, "note": str(error)}]), None
        if axis is not None:
            last[name] = axis
        found.append(rows)
        if progress is not None:
            progress("axis", number, len(table), pair_id)
    with_axis = [rows for rows in found if len(rows) > 1] + [rows for rows in found if len(rows) == 1]
    return pd.concat(with_axis, ignore_index=True) if found else pd.DataFrame({"pair_id": [], "note": []})


def read_profiles(out: Path) -> dict[str, pd.DataFrame]:
    """The profiles in a folder of results by pair, without pairs that have no axis; none if the table is missing or damaged."""
    table = _read(out)
    if table is None or not {"pair_id", *_DRAWN} <= set(table.columns):
        return {}
    table = table[table["bin"].notna()]
    return {str(name): rows.reset_index(drop=True) for name, rows in table.groupby("pair_id", sort=False)}


def with_rows_of(out: Path, pair_id: str, rows: pd.DataFrame | None) -> bytes | None:
    """The table of a folder, as CSV, with the rows of one pair replaced, or removed; None if there is nothing to write."""
    import pandas as pd

    old = _read(out)
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
    axis = body_axis(result)
    head = (float(rows["head_y_um"].iloc[0]), float(rows["head_x_um"].iloc[0]))
    tail = tuple(axis.centreline_yx_um[-1])
    if math.dist(head, tail) < math.dist(head, axis.head_yx_um):
        axis = axis.reversed()
    return replace(axis, orientation=rows["head"].iloc[0])


def _read(out: Path) -> pd.DataFrame | None:
    import pandas as pd

    try:
        with open_regular(out / PROFILES_NAME) as stream:
            return pd.read_csv(stream, dtype={"pair_id": str, "note": str, "head": str})
    except (OSError, ValueError):  # missing, or not a table: it is written again
        return None
