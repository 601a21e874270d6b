"""`read_manifest`: tasks from a table of pairs, or from a table of frames and a pairing rule."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pairframe.checks import listed
from pairframe.cohort.inputs.cells import MaskCells, is_coco_object
from pairframe.cohort.inputs.columns import MAP_SUFFIX, ColumnMap, read_column_map
from pairframe.cohort.inputs.pairing import Frame, pair_frames
from pairframe.cohort.inputs.tables import Line, ManifestTable, read_manifest_table
from pairframe.cohort.inputs.tasks import MaskRef, PairTask
from pairframe.errors import ManifestError
from pairframe.results.motion_words import COHORT_POSE
from pairframe.results.schema import BY_NAME, FAILED

_OF_A_PAIR = {"pair_id", "source", "target"}


def read_manifest(path: Path, pairing: str, columns: ColumnMap = ColumnMap()) -> list[PairTask]:  # noqa: B008 (frozen)
    """Tasks of a manifest with columns ``source`` and ``target``, or of frames; relative paths start at its folder.

    Parameters
    ----------
    path : Path
        The table, or a TOML file with its name and its columns.
    pairing : str
        See `pair_frames`; only used for frames.
    columns : ColumnMap
        Wins over the TOML file.
    """
    table, columns = _read_table(path, columns)
    if {"source", "target"} <= set(table.names) and not columns.single:
        return _pairs(table, columns.resolved(table.names, table.path.name))
    found = columns.resolved(table.names, table.path.name)
    if found.mask is not None:
        return pair_frames(_frames(table, found), pairing)
    raise _unknown_columns(table, "columns source and target (pairs), or path or mask (frames)")


def read_frame_manifest(path: Path, columns: ColumnMap = ColumnMap()) -> tuple[list[Frame], tuple[str, ...]]:  # noqa: B008
    """Frames of a manifest, and the names of all of its columns; see `read_manifest`."""
    table, columns = _read_table(path, columns)
    found = columns.resolved(table.names, table.path.name)
    if found.mask is None:
        raise _unknown_columns(table, "a table of frames, with a column path or mask")
    return _frames(table, found), table.names


def _read_table(path: Path, columns: ColumnMap) -> tuple[ManifestTable, ColumnMap]:
    if path.suffix.lower() == MAP_SUFFIX:
        path, own = read_column_map(path)
        columns = columns.over(own)
    named = {columns.mask, columns.series, *columns.structures} - {None}
    return read_manifest_table(path, {str(name) for name in named}), columns


def _unknown_columns(table: ManifestTable, expected: str) -> ManifestError:
    return ManifestError(
        expected, f"{listed(table.names)} in {table.path.name!r}", "name the columns in the first line"
    )


def _pairs(table: ManifestTable, columns: ColumnMap) -> list[PairTask]:
    cells = MaskCells(table, columns)
    tasks = []
    for line in table.lines:
        source, target = (_mask(cells, line, column) for column in ("source", "target"))
        pair_id = line.text("pair_id")
        if "pair_id" in table.names and not pair_id:
            raise ManifestError("a pair_id in every line", f"none in {line.where}", "name the pair, or drop the column")
        if not pair_id and (source.rle or target.rle):
            raise ManifestError(
                "a column pair_id, as the masks have no file names", f"none in {line.where}", "name the pairs"
            )
        known = _OF_A_PAIR | _used(columns, source, target)
        carried = {name: line.cells[name] for name in table.names if name not in known}
        tasks.append(PairTask(pair_id or f"{_stem(source)}-{_stem(target)}", source, target, carried))
    return tasks


def _frames(table: ManifestTable, columns: ColumnMap) -> list[Frame]:
    assert columns.mask is not None
    cells, order = MaskCells(table, columns), columns.frame
    others = [
        name
        for name in table.names
        if name in columns.structures
        or (name != columns.mask and any(is_coco_object(line.cells[name]) for line in table.lines))
    ]
    # Numbers that order the frames, such as ``hour``, are a label too: they may be the time. The results have a series and a
    # frame already.
    is_time = order is not None and order not in BY_NAME and _has_numbers(table, order)
    own = {columns.mask, columns.series, None if is_time else order, "series", "frame"}
    frames = []
    count: dict[str, int] = {}
    for line in table.lines:
        series = "" if columns.series is None else line.text(columns.series)
        count[series] = count.get(series, 0) + 1
        name = str(count[series] - 1) if order is None else line.text(order)
        for column, value in ((columns.series, series), (order, name)):
            if column is not None and not value:
                raise ManifestError(f"a {column} in every line", f"none in {line.where}", "complete the line")
        mask = replace(_mask(cells, line, columns.mask), failure=_failure(line))
        structures = {other: ref for other in others if (ref := cells.ref(line, other)) is not None}
        drop = own | _used(columns, mask)
        labels = {name: line.cells[name] for name in table.names if name not in drop}
        frames.append(Frame(series, name, mask, labels, structures))
    # Paths of structures are labels too; run lengths are not.
    runs = {other for frame in frames for other, ref in frame.structures.items() if ref.rle is not None}
    return [
        replace(frame, labels={name: value for name, value in frame.labels.items() if name not in runs})
        for frame in frames
    ]


def _has_numbers(table: ManifestTable, column: str) -> bool:
    return all(isinstance(line.cells[column], int | float) for line in table.lines)


def _failure(line: Line) -> str | None:
    """Why an alignment wrote no mask; None if it did, or if the table is of no alignment."""
    if line.cells.get(f"{COHORT_POSE}status") != FAILED:
        return None
    return line.text(f"{COHORT_POSE}reason") or "no reason is recorded"


def _used(columns: ColumnMap, *masks: MaskRef) -> set[str | None]:
    """Columns of sizes, which are not labels. The size in pixels is a label unless a mask needs it."""
    used = {columns.px_size_um, columns.height_um}
    if any(mask.rle is not None or mask.shape_hw is not None for mask in masks):
        used |= {columns.height_px, columns.width_px}
    return used


def _mask(cells: MaskCells, line: Line, column: str) -> MaskRef:
    ref = cells.ref(line, column)
    if ref is None:
        raise ManifestError(f"a {column} in every line", f"none in {line.where}", "name the mask file")
    return ref


def _stem(mask: MaskRef) -> str:
    """The file's name without its suffix; page and label stay."""
    name = os.path.basename(mask.named)  # noqa: PTH119 (a spec is more than a path)
    return "".join(part for i, part in enumerate(_split_suffix(name)) if i != 1)


def _split_suffix(name: str) -> Iterable[str]:
    from pairframe.masks.readers import FORMATS, OUTLINES

    for suffix in sorted((*FORMATS, *OUTLINES), key=len, reverse=True):  # .nii.gz before .nii
        at = name.lower().rfind(suffix)
        if at > 0:
            return name[:at], suffix, name[at + len(suffix) :]
    return (name,)
