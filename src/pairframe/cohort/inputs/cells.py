"""Cells of a table that hold a mask: a path, or COCO run lengths."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pairframe import plain_json
from pairframe.cohort.inputs.columns import ColumnMap
from pairframe.cohort.inputs.tables import Line, ManifestTable
from pairframe.cohort.inputs.tasks import MaskRef
from pairframe.errors import InputError, ManifestError, PixelSizeError
from pairframe.masks import CocoRle
from pairframe.masks.spec import needs_size
from pairframe.units import PxSize, checked_px_sides, checked_px_size

_LIST = re.compile(r"\[[0-9,\s]*\]")  # no compressed text ends with "]": a digit would have to follow
_LETTERS = re.compile(r"[0-o]+")  # of compressed run lengths: neither a dot nor a slash
_NUMBER = re.compile(r"[0-9.eE+-]*[0-9]\.?")
_PATH_COLUMNS = ("path", "source", "target")


def is_coco_object(value: object) -> bool:
    """Whether a cell is a COCO object, ``{"size": [H, W], "counts": ...}``."""
    return isinstance(value, str) and value.lstrip().startswith("{") and '"counts"' in value


@dataclass(frozen=True)
class MaskCells:
    """Makes a `MaskRef` of a cell, with the size and pixel size of its line."""

    table: ManifestTable
    columns: ColumnMap

    def ref(self, line: Line, column: str) -> MaskRef | None:
        """The mask in a cell; None if the cell is empty."""
        text = line.text(column).strip()
        if not text:
            return None
        stated = self._stated_size(line)
        counts, size = self._run_lengths(text, line, column, stated)
        if counts is None:
            spec = absolute(text, self.table.path.parent)
            ref = MaskRef(spec, text, shape_hw=stated if needs_size(spec) else None)
        else:
            named = f"{self.table.path.name}, {line.where}, {column}"
            if size is not None and stated is not None and list(size) != list(stated):
                raise ManifestError(
                    f"the size {stated[0]} x {stated[1]} px of the columns {self.columns.height_px!r} and {self.columns.width_px!r}",
                    f"{' x '.join(map(str, size))} px in {named}",
                    "correct one of them; COCO has the height first",
                )
            given = stated if size is None else size
            rle = self._checked(lambda: CocoRle.from_coco(counts, given or ()), named)
            ref = MaskRef(absolute(named, self.table.path.parent), named, rle=rle)
        return replace(ref, px_size_um=self._px_size(line, ref))

    def _run_lengths(
        self, text: str, line: Line, column: str, stated: tuple[int, int] | None
    ) -> tuple[Any, list[Any] | None]:
        """Counts and size of a cell; no counts if it is a path."""
        if text.startswith("{"):
            found = _parsed(text)
            size = found.get("size") if isinstance(found, dict) else None
            if not isinstance(found, dict) or not isinstance(size, list) or "counts" not in found:
                raise ManifestError(
                    '{"size": [height, width], "counts": ...} as COCO writes it',
                    f"{text[:60]!r} in {line.where}, column {column!r}",
                    "write the mask again, with json.dumps",
                )
            return found["counts"], size
        is_list = _LIST.fullmatch(text) is not None
        if not is_list and (not _LETTERS.fullmatch(text) or (column in _PATH_COLUMNS and stated is None)):
            return None, None
        if stated is None:
            raise ManifestError(
                "the size of every mask of run lengths, or files whose names have an extension",
                f"none for {text[:30]!r} in {line.where}, column {column!r}",
                "add columns height_px and width_px, name them in the column map, or write COCO objects with a size",
            )
        return (_parsed(text) if is_list else text), None

    def _stated_size(self, line: Line) -> tuple[int, int] | None:
        names = (self.columns.height_px, self.columns.width_px)
        cells = [None if name is None else line.cells.get(name) for name in names]
        if cells[0] is None and cells[1] is None:
            return None
        whole = [int(cell) for cell in cells if isinstance(cell, int | float) and cell > 0 and float(cell).is_integer()]
        if len(whole) != 2:
            raise ManifestError(
                "height and width of the image in pixels, two positive integers",
                f"{cells[0]!r} and {cells[1]!r} in {line.where}, columns {names[0]!r} and {names[1]!r}",
                "complete the line",
            )
        return whole[0], whole[1]

    def _px_size(self, line: Line, ref: MaskRef) -> PxSize | None:
        column = self.columns.height_um or self.columns.px_size_um
        value = None if column is None else line.cells.get(column)
        if value is None:
            return None
        if isinstance(value, str) and value.count(",") == 2 and self.columns.height_um is None:
            value = value.strip("()[] ")
            sides = [float(side) if _NUMBER.fullmatch(side.strip()) else math.nan for side in value.split(",")]
            with suppress(PixelSizeError):
                return checked_px_sides(sides)
        try:
            number = checked_px_size(float(value) if not isinstance(value, bool) else math.nan)
        except (ValueError, PixelSizeError) as error:
            raise ManifestError(
                f"{column} to be a positive number of micrometres, with a decimal point, or empty (Z,Y,X for a voxel)",
                f"{value!r} in {line.where}",
                "correct the cell",
            ) from error
        if self.columns.height_um is None:
            return number
        try:
            return checked_px_size(number / ref.canvas_hw()[0])
        except (InputError, OSError):  # the mask cannot be read: reading it raises the error
            return None

    @staticmethod
    def _checked(make: Callable[[], CocoRle], named: str) -> CocoRle:
        try:
            return make()
        except InputError as error:
            raise ManifestError(error.expected, f"{error.got} in {named}", error.fix, error.field) from error


def _parsed(text: str) -> Any:
    try:
        return plain_json.parse(text.encode())
    except (ValueError, RecursionError):
        return None


def absolute(named: str, folder: str | os.PathLike[str]) -> str:
    """A mask's name with an absolute path, because workers may run in another folder."""
    return os.path.abspath(os.path.join(folder, named))  # noqa: PTH100, PTH118 (a spec is more than a path)
