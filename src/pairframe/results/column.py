"""One column of the table: its name, Arrow type, unit and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column; `kind` is the name of its Arrow type, `required` says that it may not be null."""

    name: str
    kind: str
    unit: str
    meaning: str
    required: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        """As pyarrow has it."""
        import pyarrow as pa

        return {"string": pa.string(), "float64": pa.float64(), "int64": pa.int64()}[self.kind]


def text(name: str, meaning: str, required: bool = False) -> Column:
    return Column(name, "string", "", meaning, required)


def number(name: str, unit: str, meaning: str) -> Column:
    return Column(name, "float64", unit, meaning)


def count(name: str, unit: str, meaning: str) -> Column:
    return Column(name, "int64", unit, meaning)
