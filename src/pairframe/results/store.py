"""`ResultStore`: a folder of results, of one pair or many; `results.parquet` lists them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairframe import checks, files, system
from pairframe._version import __version__
from pairframe.errors import BrokenStoreError, StoreError, StoreRowError
from pairframe.plain_json import exact
from pairframe.results import disk
from pairframe.results.arrays import group_metadata
from pairframe.results.group import damage_is_our_error, group_bytes, read_attributes, read_group
from pairframe.results.leftovers import Leftovers, remove_group
from pairframe.results.result import TransportResult
from pairframe.results.rows import result_row
from pairframe.results.schema import FAILED, Row, check_pair_id, check_row
from pairframe.results.sums import check_sums
from pairframe.results.table import read_table, table_bytes, upsert
from pairframe.results.variables import attributes_of, history_of, variables_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Files that pairframe writes into a folder of results.
OUR_NAMES = frozenset(
    {"results.parquet", "maps.zarr", "cohort.json", "report.html", "pairs", "summary.json", disk.LOCK}
    | {"flows.parquet", "flows.csv", "axis_profile.csv", "radial_profile.csv"}
    | {"series", "series.html", "series.csv", "series.parquet", "series.json"}
    | {"analysis", "analysis.html", "analysis.json", "analysis.zarr"}
)
# The list of members is empty: without it, zarr would warn about every zip file.
_ROOT = group_metadata(
    {"title": "maps of comparisons, a zip file each: xarray.open_zarr(zarr.storage.ZipStore(path))"}, {}
)
FILES_PER_PAIR = 1
_INDEX = ["pair_id", "status", "error", "advice", "maps_group"]


class ResultStore:
    """Results on disk. Workers write maps in parallel; one writer at a time commits the rows that name them.

    Parameters
    ----------
    out : path
        The folder; it is not touched until it is read or written.
    lock_wait_s : float
        How long `commit` waits for another writer before it gives up.

    Attributes
    ----------
    out, table_path, maps_path, cohort_path : Path
        The folder, its ``results.parquet``, its ``maps.zarr``, and the ``cohort.json`` of a run that settles its own reach.
    """

    def __init__(self, out: str | os.PathLike[str], *, lock_wait_s: float = 10.0) -> None:
        self.out = files.checked_path(out, StoreError)
        self.table_path = self.out / "results.parquet"
        self.maps_path = self.out / "maps.zarr"
        self.cohort_path = self.out / "cohort.json"
        self._lock_wait_s = lock_wait_s
        self._leftovers = Leftovers(self.out, self.maps_path, time.time())

    def __repr__(self) -> str:
        return f"ResultStore({str(self.out)!r})"

    # --- reading -----------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether results were committed here."""
        return self.table_path.is_file()

    def table(self) -> pd.DataFrame:
        """One row per pair, good or failed, in the order of their first commit; columns as in `schema.COLUMNS`."""
        import pandas as pd
        import pyarrow as pa

        from pairframe.results.result_table import ResultTable

        nullable = {pa.int64(): pd.Int64Dtype()}  # failed pairs have no integers
        frame: pd.DataFrame = read_table(self.table_path).to_pandas(types_mapper=nullable.get, use_threads=False)
        return ResultTable(frame)

    def pair_ids(self) -> list[str]:
        """Names of the pairs, including failed ones."""
        names: list[str] = read_table(self.table_path, ["pair_id"]).column("pair_id").to_pylist()
        return names

    def load(self, pair_id: str | None = None) -> TransportResult:
        """The result of a pair, exactly as it was written; without a name, the only one."""
        name, path = self._find(pair_id)
        try:
            return read_group(path, name)
        except BrokenStoreError:
            # A writer may have replaced the result since the table was read.
            _, again = self._find(name)
            if again == path:
                raise
            return read_group(again, name)

    def open_maps(self, pair_id: str | None = None) -> xr.Dataset:
        """The maps of a pair, opened lazily. Names as in `to_xarray`. Needs the extra ``xarray``."""
        checks.library("xarray", "xarray", "open_maps")
        import xarray as xr
        from zarr.storage import LocalStore, ZipStore

        from pairframe.results.xarray_plot import as_maps

        _, path = self._find(pair_id)
        attributes = read_attributes(path)
        with damage_is_our_error(path):
            opened = LocalStore(path, read_only=True) if path.is_dir() else ZipStore(path)
            dataset: xr.Dataset = xr.open_zarr(opened, chunks=None, consolidated=True)
        return as_maps(dataset, attributes)

    def _find(self, pair_id: str | None) -> tuple[str, Path]:
        """The name of a pair that has a result, and its maps."""
        rows = {row["pair_id"]: row for row in read_table(self.table_path, _INDEX).to_pylist()}
        if pair_id is None and len(rows) == 1:
            pair_id = next(iter(rows))
        if pair_id is None or pair_id not in rows:
            known = ", ".join(ascii(name)[:80] for name in list(rows)[:5]) + (", ..." if len(rows) > 5 else "")
            raise StoreError(
                f"the name of one of the {len(rows)} pairs in {str(self.out)!r}",
                "none" if pair_id is None else ascii(pair_id)[:80],
                f"give pair_id, for instance one of {known}" if rows else "run a comparison first",
            )
        row = rows[pair_id]
        if row["status"] == FAILED or row["maps_group"] is None:
            raise StoreError(
                "a pair with a result",
                f"{ascii(pair_id)[:80]}, which failed: {row['error']}",
                row["advice"] or "run this comparison again",
            )
        return pair_id, disk.group_path(self.maps_path, row["maps_group"])

    # --- writing -----------------------------------------------------------------------------

    def create(self, *, overwrite: bool = False) -> None:
        """Create the folder. One that holds other files is refused unless `overwrite` is true; they stay."""
        with disk.write_errors(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
            found = {path.name for path in self.out.iterdir() if not path.name.startswith(files.TEMPORARY)}
        foreign = sorted(found - OUR_NAMES)
        if foreign and not self.exists() and not overwrite:
            raise StoreError(
                "an empty folder, or one with results",
                f"{str(self.out)!r}, which holds {ascii(foreign[0])[:80]}",
                "choose another folder, or use overwrite to add results to this one",
            )
        if self.exists():
            read_table(self.table_path, [])  # refuse a damaged or unknown table before computing anything

    def write_maps(
        self,
        result: TransportResult,
        pair_id: str,
        *,
        source: str | None = None,
        target: str | None = None,
        seconds: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Row:
        """Write the maps of a result and return the row to commit, which makes them visible. See `result_row`."""
        about: dict[str, Any] = {"source": source, "target": target, "seconds": seconds, "extra": extra}
        return self.write_packed(pack_maps(result, pair_id, **about))

    def write_packed(self, packed: PackedMaps) -> Row:
        """The part of `write_maps` that writes to the disk."""
        with disk.write_errors(self.out):
            self._ensure_root()
            path = disk.group_file(self.maps_path, packed.row["maps_group"])
            files.replace_file(path, packed.content, flush=False)  # see `commit`
        return packed.row

    def commit(self, rows: Iterable[Row], *, replace: bool = True, order: Sequence[str] = ()) -> None:
        """Put rows into the table, all or none; a row replaces the one with its pair_id. Committing twice changes nothing.

        Parameters
        ----------
        rows : iterable of rows
            From `write_maps` and `failed_row`.
        replace : bool
            If False, a pair that exists is an error.
        order : sequence of pair_id
            Their rows come first in the table, in this order; the others stay in the order of their first commit.
        """
        checked = [check_row(row) for row in rows]
        if not checked:
            return
        for row in checked:
            self._check_group_is_there(row)
        with disk.write_errors(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
            self._flush_maps(checked)  # before the table names them
        with disk.writer_lock(self.out, self._lock_wait_s):
            old = read_table(self.table_path) if self.exists() else None
            old_groups = {} if old is None else dict(zip(*_columns(old, "pair_id", "maps_group"), strict=True))
            known = [row["pair_id"] for row in checked if row["pair_id"] in old_groups]
            if known and not replace:
                raise _pair_exists(self.out, known[0])
            for row in checked:
                self._check_group_is_there(row)  # again: another writer may have removed it as a leftover
            content = table_bytes(upsert(old, checked, order))
            with disk.write_errors(self.out):
                files.replace_file(self.table_path, content)
            with suppress(OSError):  # the commit is complete; leftovers do no harm
                self._leftovers.remove(checked, old_groups)

    def _flush_maps(self, rows: list[Row]) -> None:
        groups = [row["maps_group"] for row in rows if row["maps_group"] is not None]
        files.flush_all([disk.group_path(self.maps_path, group) for group in groups])
        if groups:
            system.flush_to_disk(self.maps_path)

    def _check_group_is_there(self, row: Row) -> None:
        group = row["maps_group"]
        if group is not None and not (disk.is_group_name(group) and disk.group_path(self.maps_path, group).exists()):
            raise StoreRowError(
                "a row whose maps were written",
                f"{ascii(row['pair_id'])[:80]} with maps_group {ascii(group)[:80]}, which does not exist",
                "write the maps with write_maps of the same store first",
            )

    def _ensure_root(self) -> None:
        self.maps_path.mkdir(parents=True, exist_ok=True)
        root = self.maps_path / "zarr.json"
        if not root.exists():
            files.replace_file(root, _ROOT.encode())


@dataclass(frozen=True, eq=False)
class PackedMaps:
    """A result as the zip file of its group, and the row to commit once it is written."""

    row: Row
    content: bytes


def pack_maps(
    result: TransportResult,
    pair_id: str,
    *,
    source: str | None = None,
    target: str | None = None,
    seconds: float | None = None,
    extra: Mapping[str, Any] | None = None,
) -> PackedMaps:
    """The part of `ResultStore.write_maps` that needs no disk: features, attributes, compressed arrays."""
    check_pair_id(pair_id)
    try:
        check_sums(result)
    except ValueError as error:  # it could not be loaded
        raise StoreError(
            "a result whose maps add up to its totals", str(error), "save the result as compare returned it"
        ) from error
    group = disk.new_group_name(pair_id)
    row = result_row(result, pair_id, group, source=source, target=target, seconds=seconds, extra=extra)
    return PackedMaps(row, group_bytes(variables_of(result), _attributes(result, row, extra)))


# --- one result ------------------------------------------------------------------------------


def save(
    result: TransportResult, path: str | os.PathLike[str], *, pair_id: str = "pair", overwrite: bool = False
) -> None:
    """See `TransportResult.save`."""
    check_pair_id(pair_id)
    store = ResultStore(path)
    store.create(overwrite=overwrite)
    if not overwrite and store.exists() and pair_id in store.pair_ids():
        raise _pair_exists(store.out, pair_id)
    row = store.write_maps(result, pair_id)
    try:
        store.commit([row], replace=overwrite)
    except StoreError:
        if not store.exists() or row["maps_group"] not in _columns(read_table(store.table_path), "maps_group")[0]:
            remove_group(store.out, store.maps_path, row["maps_group"])
        raise


def load(path: str | os.PathLike[str], pair_id: str | None = None) -> TransportResult:
    """Load a saved result, bit for bit.

    Parameters
    ----------
    path : path
        As given to `TransportResult.save`, or the ``--out`` of a run.
    pair_id : str, optional
        Name of the pair; optional if there is only one.
    """
    return ResultStore(path).load(pair_id)


def _attributes(result: TransportResult, row: Row, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row and more, so that a group can be read without the table."""
    row_only = {name: exact(value) for name, value in row.items() if value is not None}
    carried = {name: exact(row[name]) for name in extra or {}}
    provenance = {"created_by": f"pairframe {__version__}", "created_at": row["created_at"]}
    own = {name: value for name, value in row_only.items() if name not in carried}
    of_result = {**attributes_of(result), **history_of(result)}
    return {**own, **of_result, "provenance": json.dumps(provenance), "extra": json.dumps(carried)}


def _columns(table: Any, *names: str) -> list[list[Any]]:
    return [table.column(name).to_pylist() for name in names]


def _pair_exists(out: Path, pair_id: str) -> StoreError:
    return StoreError(
        "a pair that is not in the store yet",
        f"{ascii(pair_id)[:80]}, which is in {str(out)!r}",
        "give another pair_id, or overwrite=True to replace it",
    )
