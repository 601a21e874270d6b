"""The written schema, the code and the docs agree."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
from helpers.results_equal import unsolved_result

from pairframe.results import TransportResult, failed_row
from pairframe.results.rows import result_row
from pairframe.results.schema import COLUMNS, FIELDS, SCHEMA_VERSION, arrow_schema, columns_markdown

DOCS = Path(__file__).parents[2] / "docs" / "results.md"


def test_the_docs_show_the_columns_of_the_code() -> None:
    text = DOCS.read_text()
    assert columns_markdown() in text, "copy the output of pairframe.results.schema.columns_markdown() into the page"
    assert f"schema version {SCHEMA_VERSION}" in text


def test_every_scalar_of_a_result_is_a_column() -> None:
    result = unsolved_result()
    scalars = {
        f.name for f in fields(TransportResult) if isinstance(getattr(result, f.name), float | int | str | np.generic)
    }
    assert scalars == {column.name for column in FIELDS} | {"status"}


def test_columns_have_names_of_their_own_units_and_meanings() -> None:
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    assert all(column.meaning for column in COLUMNS)
    assert all(column.unit for column in COLUMNS if column.kind != "string")


def test_rows_have_every_column_in_order_and_the_types_of_the_schema() -> None:
    for row in (result_row(unsolved_result(), "x"), failed_row("x", ValueError("no"))):
        assert list(row) == arrow_schema().names
        for column in COLUMNS:
            kind = {"string": str, "float64": float, "int64": int}[column.kind]
            assert row[column.name] is None or type(row[column.name]) is kind
    assert row["error"] == "ValueError: no"
