"""`read_manifest`: tasks from a table of pairs, or from a table of frames and a pairing rule."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from pairframe.cohort.inputs.pairing import Frame, pair_frames
from pairframe.cohort.inputs.tables import Line, ManifestTable, read_manifest_table
from pairframe.cohort.inputs.tasks import MaskRef, PairTask
from pairframe.errors import ManifestError, PixelSizeError
from pairframe.units import checked_px_size

_OF_A_PAIR = {"pair_id", "source", "target", "px_size_um"}
_OF_A_FRAME = {"path", "series", "frame", "px_size_um"}


def read_manifest(path: Path, pairing: str) -> list[PairTask]:
    """Tasks of a manifest with columns ``source`` and ``target``, or ``path``; relative paths start at its folder.

    Parameters
    ----------
    pairing : str
        See `pair_frames`; only used for frames.
    """
    table = read_manifest_table(path)
    if {"source", "target"} <= set(table.names):
        return _pairs(table)
    if "path" in table.names:
        return pair_frames(_frames(table), pairing)
    raise _unknown_columns(table, "columns source and target (pairs), or path (frames)")


def read_frame_manifest(path: Path) -> tuple[list[Frame], tuple[str, ...]]:
    """Frames of a manifest with a column ``path``, and the names of all of its columns."""
    table = read_manifest_table(path)
    if "path" not in table.names:
        raise _unknown_columns(table, "a table of frames, with a column path")
    return _frames(table), table.names


def _unknown_columns(table: ManifestTable, expected: str) -> ManifestError:
    names = ", ".join(map(repr, table.names))[:200]
    return ManifestError(expected, f"{names} in {table.path.name!r}", "name the columns in the first line")


def _pairs(table: ManifestTable) -> list[PairTask]:
    folder = table.path.parent
    tasks = []
    for line in table.lines:
        source, target = (_mask(line, column, folder) for column in ("source", "target"))
        pair_id = line.text("pair_id")
        if "pair_id" in table.names and not pair_id:
            raise ManifestError("a pair_id in every line", f"none in {line.where}", "name the pair, or drop the column")
        carried = {name: line.cells[name] for name in table.names if name not in _OF_A_PAIR}
        tasks.append(PairTask(pair_id or f"{_stem(source)}-{_stem(target)}", source, target, carried))
    return tasks


def _frames(table: ManifestTable) -> list[Frame]:
    folder = table.path.parent
    order = "frame" if "frame" in table.names else "time" if "time" in table.names else None
    frames = []
    count: dict[str, int] = {}
    for line in table.lines:
        series = line.text("series")
        count[series] = count.get(series, 0) + 1
        name = str(count[series] - 1) if order is None else line.text(order)
        for column, value in (("series", series), (order, name)):
            if column in table.names and not value:
                raise ManifestError(f"a {column} in every line", f"none in {line.where}", "complete the line")
        labels = {name: line.cells[name] for name in table.names if name not in _OF_A_FRAME}
        frames.append(Frame(series, name, _mask(line, "path", folder), labels))
    return frames


def _mask(line: Line, column: str, folder: Path) -> MaskRef:
    named = line.text(column)
    if not named:
        raise ManifestError(f"a {column} in every line", f"none in {line.where}", "name the mask file")
    return MaskRef(absolute(named, folder), named, _px_size(line))


def absolute(named: str, folder: str | os.PathLike[str]) -> str:
    """A mask's name with an absolute path, because workers may run in another folder."""
    return os.path.abspath(os.path.join(folder, named))  # noqa: PTH100, PTH118 (a spec is more than a path)


def _px_size(line: Line) -> float | None:
    value = line.cells.get("px_size_um")
    if value is None:
        return None
    try:
        return checked_px_size(float(value) if not isinstance(value, bool) else math.nan)
    except (ValueError, PixelSizeError) as error:
        raise ManifestError(
            "px_size_um to be a positive number of micrometres, with a decimal point, or empty",
            f"{value!r} in {line.where}",
            "correct the cell",
        ) from error


def _stem(mask: MaskRef) -> str:
    """The file's name without its suffix; page and label stay."""
    name = os.path.basename(mask.named)  # noqa: PTH119 (a spec is more than a path)
    return "".join(part for i, part in enumerate(_split_suffix(name)) if i != 1)


def _split_suffix(name: str) -> Iterable[str]:
    from pairframe.masks.readers import FORMATS

    for suffix in FORMATS:
        at = name.lower().rfind(suffix)
        if at > 0:
            return name[:at], suffix, name[at + len(suffix) :]
    return (name,)
