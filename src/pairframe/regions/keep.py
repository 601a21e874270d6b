"""Flow tables beside the results of a folder: ``flows.parquet`` and ``flows.csv``, all pairs in one table."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pairframe import files
from pairframe.errors import BrokenStoreError
from pairframe.regions.flow_table import FLOW_COLUMNS
from pairframe.regions.labels import CREATED, DESTROYED, UNLABELLED
from pairframe.results import disk

if TYPE_CHECKING:
    import pandas as pd

FLOWS = "flows.parquet"
FLOWS_CSV = "flows.csv"
# Of labels that stand for a structure, such as the yolk; empty for others. Tables without any have no such columns.
NAME_COLUMNS = ("source_name", "target_name")
_COLUMNS = ["pair_id", *FLOW_COLUMNS, *NAME_COLUMNS]


def read_flows(out: Path) -> pd.DataFrame | None:
    """The flow tables of a folder, with a first column ``pair_id``; None if there are none."""
    import pandas as pd
    import pyarrow as pa

    path = out / FLOWS
    if not path.is_file():
        return None
    try:
        with files.open_regular(path) as stream:
            table = pd.read_parquet(io.BytesIO(stream.read()))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _broken(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    columns = list(table.columns)
    if columns == _COLUMNS[: len(columns)] and len(columns) >= len(
        FLOW_COLUMNS
    ):  # before areas, or names, were written
        later = {FLOW_COLUMNS[-1]: np.nan, **dict.fromkeys(NAME_COLUMNS)}
        table = table.assign(**{name: later[name] for name in _COLUMNS[len(columns) :]})
    if list(table.columns) != _COLUMNS:
        raise _broken(path, f"the columns {', '.join(map(str, columns))}"[:200])
    return table


def with_names(table: pd.DataFrame, names: Sequence[str] = ()) -> pd.DataFrame:
    """A flow table with the names of its labels; label k + 1 is name k. Without names, both columns are empty."""
    found = dict(enumerate(names, 1)) | ({UNLABELLED: "rest"} if names else {})
    changed = {"source_name": {CREATED: "created"}, "target_name": {DESTROYED: "destroyed"}}
    columns = {}
    for column, none in changed.items():
        labels = table[column.replace("name", "label")]
        columns[column] = labels.map({**found, **(none if names else {})}).astype(object)
        columns[column] = columns[column].where(columns[column].notna(), None)
    return table.assign(**columns)


def keep_flows(folder: Path, tables: Mapping[str, pd.DataFrame], *, before: pd.DataFrame | None = None) -> None:
    """Write flow tables by pair into a folder, in place of those of the same pairs in `before`; other pairs stay."""
    import pandas as pd

    parts = [] if before is None else [before[~before["pair_id"].isin(list(tables))]]
    for pair_id, table in tables.items():
        named = table if set(NAME_COLUMNS) <= set(table.columns) else with_names(table)
        parts.append(named.assign(pair_id=pair_id)[_COLUMNS])
    whole = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    if whole[list(NAME_COLUMNS)].isna().all(axis=None):
        whole = whole.drop(columns=list(NAME_COLUMNS))
    content = io.BytesIO()
    whole.to_parquet(content, index=False)
    with disk.write_errors(folder):
        files.replace_file(folder / FLOWS, content.getvalue())
        files.replace_file(folder / FLOWS_CSV, whole.to_csv(index=False).encode())


def _broken(path: Path, what: str) -> BrokenStoreError:
    return BrokenStoreError("a table of flows", f"{str(path)!r}: {what}", "remove it and compute the flows again")
