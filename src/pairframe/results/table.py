"""`results.parquet` in memory: read and check it, add rows, turn it into bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pairframe.errors import BrokenStoreError, StoreError, StoreRowError
from pairframe.results.schema import ADDED, BY_NAME, COLUMNS, SCHEMA_VERSION, VERSION_KEY, Row, arrow_schema
from pairframe.results.versions import has_old_reach, new_names, with_present_reach

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(path: Path, columns: list[str] | None = None, *, with_rows: bool = True) -> pa.Table:
    """The table, some of its columns, or all columns without rows; an error if `table_bytes` did not write it.

    It is read in this thread. The threads of pyarrow release the buffers of a Python file after the call has returned,
    and abort the process if the interpreter is exiting by then.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
            written = (file.schema_arrow.metadata or {}).get(VERSION_KEY.encode())
            version = None if written is None else written.decode()
            renamed = new_names(version, path)
            names = _names_now(file.schema_arrow.names, renamed)
            schema = pa.schema([field.with_name(names[field.name]) for field in file.schema_arrow])
            _check_columns(schema, path, int(str(version)))
            wanted = None if columns is None else [old for old in names if names[old] in columns]
            table = file.read(wanted, use_threads=False) if with_rows else file.schema_arrow.empty_table()
    except FileNotFoundError as error:
        raise StoreError(
            "a folder with results (results.parquet)",
            f"{str(path.parent)!r}, " + ("which has none" if path.parent.is_dir() else "which does not exist"),
            "check the name; if it is right, the comparison did not finish: run it again",
        ) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _broken(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    table = _with_added(table.rename_columns([names[name] for name in table.column_names]), columns)
    table = _in_order(_with_present_reach(table) if has_old_reach(version) else table)
    if "pair_id" in table.column_names:
        pair_ids = table.column("pair_id")
        if len(pair_ids.unique()) != len(pair_ids) or pair_ids.null_count:
            raise _broken(path, "several rows for one pair, or a row without a pair")
    return table


def upsert(table: pa.Table | None, rows: Sequence[Row], order: Sequence[str] = ()) -> pa.Table:
    """`table` with each row in the place of the one with its pair_id, or at the end; pairs of `order` first, in that order."""
    import pyarrow as pa

    schema = arrow_schema()
    extra_names = dict.fromkeys(name for row in rows for name in row if name not in BY_NAME)
    arrays = [pa.array([row[column.name] for row in rows], column.arrow_type) for column in COLUMNS]
    for name in extra_names:
        try:
            values = pa.array([row.get(name) for row in rows])
        except pa.ArrowException as error:
            raise _mixed(name, str(error)) from error
        arrays.append(values)
        schema = schema.append(pa.field(name, values.type))
    new = pa.table(arrays, schema=schema)
    if table is not None:
        for name in extra_names:
            if name in table.column_names:
                _check_types_join(name, table.field(name), new.field(name))
        new = pa.concat_tables([table, new], promote_options="permissive")
    last: dict[str, int] = {}
    for index, pair_id in enumerate(new.column("pair_id").to_pylist()):
        last[pair_id] = index  # the place of the first, the content of the last
    places = [last.pop(pair_id) for pair_id in order if pair_id in last] + list(last.values())
    return new.take(places).replace_schema_metadata({VERSION_KEY: str(SCHEMA_VERSION)})


def table_bytes(table: pa.Table) -> bytes:
    """Parquet, compressed, with a checksum on every page."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    # Nearly all numbers differ: dictionaries and statistics would only add bytes.
    pq.write_table(
        table, sink, compression="zstd", write_page_checksum=True, use_dictionary=False, write_statistics=False
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _names_now(found: Sequence[str], renamed: Mapping[str, str]) -> dict[str, str]:
    """The name of each column of a file in this version; a carried column gives way to a fixed one of the same name."""
    taken = set(renamed.values())
    return {name: f"{name}_carried" if name in taken else renamed.get(name, name) for name in found}


def _in_order(table: pa.Table) -> pa.Table:
    """The fixed columns in the order of the schema, then the carried ones."""
    fixed = [column.name for column in COLUMNS if column.name in table.column_names]
    return table.select([*fixed, *(name for name in table.column_names if name not in BY_NAME)])


def _with_added(table: pa.Table, columns: list[str] | None) -> pa.Table:
    """With the columns that were added since, empty; only those of `columns` if it is given."""
    import pyarrow as pa

    for name in ADDED:
        if name not in table.column_names and (columns is None or name in columns):
            table = table.append_column(name, pa.nulls(len(table), BY_NAME[name].arrow_type))
    return table


def _with_present_reach(table: pa.Table) -> pa.Table:
    """With configs and reaches as they are meant now; lambda is the same. A reach needs its config: read both or neither."""
    import pyarrow as pa

    if "config_json" not in table.column_names:
        return table
    found = [
        (None, 1.0) if text is None else with_present_reach(text) for text in table.column("config_json").to_pylist()
    ]
    place = table.column_names.index("config_json")
    table = table.set_column(place, "config_json", pa.array([text for text, _ in found], pa.string()))
    if "reach_um" in table.column_names:
        reaches = zip(table.column("reach_um").to_pylist(), found, strict=True)
        now = [None if reach is None else reach * factor for reach, (_, factor) in reaches]
        place = table.column_names.index("reach_um")
        table = table.set_column(place, "reach_um", pa.array(now, pa.float64()))
    return table


def _check_columns(schema: pa.Schema, path: Path, version: int) -> None:
    for column in COLUMNS:
        if version < ADDED.get(column.name, 0) and column.name not in schema.names:
            continue
        if column.name not in schema.names:
            raise _broken(path, f"no column {column.name!r}")
        found = schema.field(column.name).type
        if found != column.arrow_type:
            raise _broken(path, f"{found} in column {column.name!r}, which is {column.kind}")


def _check_types_join(name: str, old: pa.Field, new: pa.Field) -> None:
    import pyarrow as pa

    try:
        pa.unify_schemas([pa.schema([old]), pa.schema([new])], promote_options="permissive")
    except pa.ArrowException as error:
        raise _mixed(name, f"{new.type} for a column of {old.type}") from error


def _mixed(name: str, what: str) -> StoreRowError:
    return StoreRowError(f"values of one type in column {name!r}", what, "convert them, for example to text")


def _broken(path: Path, what: str) -> BrokenStoreError:
    return BrokenStoreError(
        "a table of results", f"{str(path)!r}: {what}", "move the folder away and run the comparisons again"
    )
