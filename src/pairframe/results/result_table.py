"""The table of a store as a data frame that a notebook shows in a few columns; all of them are there."""

from __future__ import annotations

from typing import Any

import pandas as pd

from pairframe.results.schema import BY_NAME

SHOWN = (
    "pair_id",
    "status",
    "percent_created",
    "percent_destroyed",
    "percent_moved",
    "mean_displacement_um",
    "warnings",
)
MOST_LABELS = 4


class ResultTable(pd.DataFrame):
    """A `pandas.DataFrame` with a short repr. Selections and copies of it are plain data frames, and show all they have."""

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    def __repr__(self) -> str:
        short = self._short()
        return super().__repr__() if short is None else f"{short.to_string(max_rows=20)}\n\n{self._rest(short)}"

    def _repr_html_(self) -> str | None:
        short = self._short()
        if short is None:
            whole: str | None = pd.DataFrame(self)._repr_html_()  # type: ignore[operator]
            return whole
        return f"{short.to_html(max_rows=20, notebook=True)}<p>{self._rest(short)}</p>"

    def _short(self) -> pd.DataFrame | None:
        """The numbers that people read first, and their own labels; None if columns were taken away."""
        if any(name not in self.columns for name in SHOWN):
            return None
        labels = [name for name in self.columns if name not in BY_NAME][:MOST_LABELS]
        return pd.DataFrame(self)[[SHOWN[0], *labels, *SHOWN[1:]]]

    def _rest(self, short: pd.DataFrame) -> str:
        return f"{len(self)} pairs; {self.shape[1] - short.shape[1]} more columns, named in table.columns"
