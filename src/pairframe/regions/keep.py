"""Flow tables beside the results of a folder: ``flows.parquet`` and ``flows.csv``, all pairs in one table."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pairframe import files
from pairframe.errors import BrokenStoreError
from pairframe.regions.flow_table import FLOW_COLUMNS
from pairframe.results import disk

if TYPE_CHECKING:
    import pandas as pd

FLOWS = "flows.parquet"
FLOWS_CSV = "flows.csv"


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
    if list(table.columns) == ["pair_id", *FLOW_COLUMNS[:-1]]:  # before areas were written
        table = table.assign(**{FLOW_COLUMNS[-1]: np.nan})
    if list(table.columns) != ["pair_id", *FLOW_COLUMNS]:
        raise _broken(path, f"the columns {', '.join(map(str, table.columns))}"[:200])
    return table


def keep_flows(folder: Path, tables: Mapping[str, pd.DataFrame], *, before: pd.DataFrame | None = None) -> None:
    """Write flow tables by pair into a folder, in place of those of the same pairs in `before`; other pairs stay."""
    import pandas as pd

    parts = [] if before is None else [before[~before["pair_id"].isin(list(tables))]]
    for pair_id, table in tables.items():
        parts.append(table.assign(pair_id=pair_id)[["pair_id", *FLOW_COLUMNS]])
    whole = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    content = io.BytesIO()
    whole.to_parquet(content, index=False)
    with disk.write_errors(folder):
        files.replace_file(folder / FLOWS, content.getvalue())
        files.replace_file(folder / FLOWS_CSV, whole.to_csv(index=False).encode())


def _broken(path: Path, what: str) -> BrokenStoreError:
    return BrokenStoreError("a table of flows", f"{str(path)!r}: {what}", "remove it and compute the flows again")
