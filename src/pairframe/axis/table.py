"""The profiles of many pairs in one tidy table, a row per pair and bin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pairframe.axis.body_axis import BodyAxis, body_axis
from pairframe.axis.profile import axis_profile
from pairframe.errors import AxisError, BrokenStoreError, StoreVersionError
from pairframe.progress import Progress
from pairframe.results import ResultStore, TransportResult
from pairframe.results.schema import FAILED

if TYPE_CHECKING:
    import pandas as pd

PROFILES_NAME = "axis_profile.csv"


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
