"""Manifests as plain rows, from text files and Parquet; each row knows its line, for error messages."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pairframe import files
from pairframe.checks import listed
from pairframe.cohort.inputs.tasks import Scalar
from pairframe.errors import ManifestError

SUFFIXES = (".csv", ".tsv", ".parquet")
_LONGEST_CELL = 1 << 26  # characters
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_MORE_DIGITS_THAN_NUMBERS_HAVE = re.compile(r"[+-]?[0-9]{19,}")
_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf|-inf")


@dataclass(frozen=True)
class Line:
    """One row of a table. `where` is its place: ``line 7`` of a text file, ``row 6`` of Parquet."""

    where: str
    cells: dict[str, Scalar]

    def text(self, name: str) -> str:
        """A cell as text; empty if it has no value."""
        value = self.cells.get(name)
        return "" if value is None else str(value)


@dataclass(frozen=True)
class ManifestTable:
    """Column names and lines of a manifest."""

    path: Path
    names: tuple[str, ...]
    lines: tuple[Line, ...]


def read_manifest_table(path: Path, text_columns: Collection[str] = ()) -> ManifestTable:
    """Read a .csv (comma or semicolon), .tsv or .parquet file.

    Parameters
    ----------
    text_columns : collection of str
        Columns whose cells are names or masks, never numbers. In Parquet they may hold bytes, and lists as JSON.
    """
    try:
        is_parquet = path.suffix.lower() == ".parquet"
        names, rows = (_read_parquet if is_parquet else _read_text)(path, {*_STAYS_TEXT, *text_columns})
    except FileNotFoundError as error:
        raise ManifestError("an existing manifest", repr(str(path)), "check the path") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ManifestError(
            "a manifest that can be read: csv or tsv in UTF-8, or parquet", f"{str(path)!r}: {error}", "write it again"
        ) from error
    if len(set(names)) != len(names) or "" in names:
        raise ManifestError("a different name for every column", listed(names), "name the columns in line 1")
    if not rows:
        raise ManifestError("at least one line below the names", f"none in {str(path)!r}", "add the masks to compare")
    return ManifestTable(path, tuple(names), tuple(rows))


# --- text ------------------------------------------------------------------------------------


def _read_text(path: Path, text_columns: Collection[str]) -> tuple[list[str], list[Line]]:
    with _long_cells(), io.TextIOWrapper(files.open_regular(path), encoding="utf-8-sig", newline="") as stream:
        head = stream.readline()
        stream.seek(0)
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ";" if ";" in head and "," not in head else ","
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        names = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
        rows = []
        for cells in reader:
            if not any(cells):
                continue
            if len(cells) != len(names):
                raise ManifestError(
                    f"{len(names)} cells in every line",
                    f"{len(cells)} in line {reader.line_num} of {path.name!r}",
                    "complete the line; put quotes around cells that hold the separator",
                )
            rows.append((f"line {reader.line_num}", cells))
    typed = [_typed([cells[k] for _, cells in rows], is_text=name in text_columns) for k, name in enumerate(names)]
    lines = [
        Line(where, {name: column[i] for name, column in zip(names, typed, strict=True)})
        for i, (where, _) in enumerate(rows)
    ]
    return names, lines


@contextmanager
def _long_cells() -> Iterator[None]:
    """Run lengths of a large mask are longer than the cells that `csv` takes by default."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


_STAYS_TEXT = ("pair_id", "source", "target", "path", "mask", "series", "frame")


def _typed(cells: Sequence[str], *, is_text: bool) -> list[Scalar]:
    """A column as integers, floats or booleans if all of its cells are; ``007`` is a name, not a number."""
    filled = [cell for cell in cells if cell != ""]
    convert: Any = str
    if is_text or any(map(_MORE_DIGITS_THAN_NUMBERS_HAVE.fullmatch, filled)) or not filled:
        pass
    elif all(_WHOLE.fullmatch(cell) for cell in filled):
        convert = int
    elif all(_NUMBER.fullmatch(cell.lower()) for cell in filled):
        convert = float
    elif all(cell.lower() in ("true", "false") for cell in filled):
        convert = _truth
    return [None if cell == "" else convert(cell) for cell in cells]


def _truth(cell: str) -> bool:
    return cell.lower() == "true"


# --- parquet ---------------------------------------------------------------------------------


def _read_parquet(path: Path, text_columns: Collection[str]) -> tuple[list[str], list[Line]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with files.open_regular(path) as stream:
            table = pq.ParquetFile(stream, pre_buffer=False).read(use_threads=False)  # as `read_table` does
    except pa.ArrowException as error:
        raise ManifestError("a Parquet file", f"{str(path)!r}: {error}", "write it again") from error
    lines = [
        Line(f"row {i}", {name: _plain(_as_text(value, name in text_columns), name, i) for name, value in row.items()})
        for i, row in enumerate(table.to_pylist())
    ]
    return list(table.column_names), lines


def _as_text(value: Any, is_text: bool) -> Any:
    """COCO objects, and bytes and lists of columns that hold masks, as the text that they are in a text file."""
    if isinstance(value, bytes) and is_text:
        return value.decode("utf-8", "replace")
    if isinstance(value, dict) and "counts" in value:
        return json.dumps(
            {name: _text_of_counts(item) if name == "counts" else item for name, item in value.items()}, default=str
        )
    return json.dumps(value, default=str) if isinstance(value, list) and is_text else value


def _text_of_counts(counts: Any) -> Any:
    return counts.decode("utf-8", "replace") if isinstance(counts, bytes) else counts


def _plain(value: Any, name: str, row: int) -> Scalar:
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    raise ManifestError(
        f"text, numbers or booleans in column {name!r}",
        f"{type(value).__name__} in row {row}",
        "convert the column",
    )
