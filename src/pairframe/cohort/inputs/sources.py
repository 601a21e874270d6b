"""`read_tasks`: tasks from a manifest, a folder, a pattern or a stack of labels."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pairframe.cohort.inputs.cells import absolute
from pairframe.cohort.inputs.columns import MAP_SUFFIX, ColumnMap
from pairframe.cohort.inputs.manifest import read_frame_manifest, read_manifest
from pairframe.cohort.inputs.pairing import Frame, in_order, natural_key, pair_frames
from pairframe.cohort.inputs.stacks import stack_frames
from pairframe.cohort.inputs.tables import SUFFIXES
from pairframe.cohort.inputs.tasks import MaskRef, PairTask, check_tasks
from pairframe.errors import InputError, ManifestError
from pairframe.masks import MaskSpec, parse_spec
from pairframe.masks.readers import FORMATS, OUTLINES, format_suffix
from pairframe.masks.spec import path_exists
from pairframe.notices import Notice
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore
from pairframe.results.store import OUR_NAMES

ALIGNED_MANIFEST = "aligned.csv"  # in a folder of aligned masks: `run` takes the folder as it takes this table
ALIGN_STATE = "align.json"
Manifest = str | os.PathLike[str] | Sequence[PairTask]


def read_tasks(
    manifest: Manifest,
    pairing: str = "consecutive",
    axes: str | None = None,
    columns: ColumnMap | None = None,
    volume: bool | None = None,
) -> list[PairTask]:
    """All pairs to compare. Only names and headers are read, and nothing is written.

    Parameters
    ----------
    manifest : path or tasks
        A .csv, .tsv or .parquet table of pairs or frames; a folder of frames (one series), or of folders of frames (a
        series each); a .toml file that names a table and its columns; a pattern such as ``masks/*/t*.png`` (a series per folder); a stack of label images, where each id
        is a series, or with ``:all`` at its end all labels of a page are one mask; a folder that `align_cohort` wrote; or
        tasks made by hand.
    pairing : str
        How frames make pairs; see `pair_frames`.
    axes : str, optional
        Letters of the axes of a stack, such as ``TZYX``; see `stack_frames`.
    columns : ColumnMap, optional
        Which columns of a table of frames hold what.
    volume : bool, optional
        Whether the planes of a stack are volumes; see `stack_frames`.
    """
    if isinstance(manifest, str | os.PathLike):
        tasks = _read(os.fspath(manifest), pairing, axes, columns, volume)
    else:
        _refuse_columns("tasks", columns)
        tasks = list(manifest)
    check_tasks(tasks)
    return tasks


@dataclass(frozen=True)
class FrameTable:
    """Single masks, in the order of their series.

    Attributes
    ----------
    frames : tuple of Frame
    names : tuple of str
        Columns of the manifest; empty without one.
    """

    frames: tuple[Frame, ...]
    names: tuple[str, ...]


def read_frames(manifest: str | os.PathLike[str], columns: ColumnMap | None = None) -> FrameTable:
    """All masks of a table of frames, or of a folder, pattern or stack; see `read_tasks`. No pixels are read.

    Its frames are aligned, which only images can be: volumes are refused.
    """
    text = os.fspath(manifest)
    table = _table(Path(text))
    if table is None:
        _refuse_columns(text, columns)
        frames, names = _frames(text)[0], tuple[str, ...]()
    else:
        frames, names = read_frame_manifest(table, columns or ColumnMap())
    by_series: dict[str, list[Frame]] = {}
    for frame in frames:
        by_series.setdefault(frame.series, []).append(frame)
    ordered = [frame for series in by_series.values() for frame in in_order(series)]
    if ordered and ordered[0].mask.volume_shape(TransportConfig()) is not None:
        raise ManifestError(
            "images",
            f"volumes in {text!r}",
            "volumes are not aligned yet; shift them by whole voxels, e.g. with numpy.roll, or compare projections",
        )
    return FrameTable(tuple(ordered), names)


def _read(text: str, pairing: str, axes: str | None, columns: ColumnMap | None, volume: bool | None) -> list[PairTask]:
    table = _table(Path(text))
    if table is None:
        _refuse_columns(text, columns)
        frames, notices = _frames(text, axes, volume)
        return [replace(task, notices=notices) if notices else task for task in pair_frames(frames, pairing)]
    _refuse_axes(text, axes)
    return read_manifest(table, pairing, columns or ColumnMap())


def _table(path: Path) -> Path | None:
    """The manifest that a path names: a table, or a folder with one that `align_cohort` wrote."""
    if path.suffix.lower() in (*SUFFIXES, MAP_SUFFIX):
        return path
    return path / ALIGNED_MANIFEST if (path / ALIGNED_MANIFEST).is_file() else None


def _frames(text: str, axes: str | None = None, volume: bool | None = None) -> tuple[list[Frame], tuple[Notice, ...]]:
    """All masks of a stack, folder or pattern, and what to know about them."""
    path = Path(text)
    stack = _as_stack(text)
    if stack is not None:
        return stack_frames(stack, axes, volume)
    _refuse_axes(text, axes)
    if path.is_dir():
        return _folder(path), ()
    if glob.has_magic(text):
        found = [Path(name) for name in glob.glob(text, recursive=True)]  # noqa: PTH207 (absolute patterns too)
        masks = [path for path in found if format_suffix(path) in (*FORMATS, *OUTLINES) and not _is_a_result(path)]
        return _files(masks), ()
    raise ManifestError(
        f"a manifest ({', '.join(SUFFIXES)}), a folder of masks, a pattern, or a stack of labels",
        f"{text!r}, " + ("which is none of these" if path.exists() else "which does not exist"),
        "check the path; a pattern needs quotes around it, such as 'masks/*.png'",
    )


def _refuse_axes(text: str, axes: str | None) -> None:
    if axes is not None:
        raise ManifestError("axes with a stack of labels", f"axes={axes!r} with {text!r}", "leave axes out", "axes")


def _refuse_columns(text: str, columns: ColumnMap | None) -> None:
    if columns is not None and columns.single:
        raise ManifestError(
            "a column map with a table", f"one with {text!r}", "leave out the options that name columns", "columns"
        )


def _as_stack(text: str) -> MaskSpec | None:
    """The stack that a text names, such as ``labels.tif``, ``labels.tif:all`` or ``labels.npz/tracks``; None if it names none."""
    if Path(text).suffix.lower() in SUFFIXES:
        return None
    try:
        spec = parse_spec(text)
    except InputError:
        return None
    if format_suffix(spec.path) not in FORMATS or not path_exists(spec.path):
        return None
    if spec.page is not None:
        raise ManifestError(
            "a whole stack", f"one page of it, {text!r}", "leave the page out, or use pairframe compare"
        )
    return spec


def _folder(folder: Path) -> list[Frame]:
    files = _masks_in(folder)
    if not files:
        inner = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        inner = [path for path in inner if not (path / ALIGN_STATE).is_file()]  # the same masks, aligned
        files = [file for path in inner for file in _masks_in(path)]
    return _files(files)


def _masks_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if format_suffix(path) in FORMATS and not _is_a_result(path)]


def _is_a_result(path: Path) -> bool:
    """Whether a run wrote it: the folder of results may be among the masks."""
    path = path.absolute()
    return any(
        path.relative_to(folder).parts[0] in OUR_NAMES and ResultStore(folder).exists() for folder in path.parents
    )


def _files(paths: Iterable[Path]) -> list[Frame]:
    """One series per folder, or several if the file names differ in more than a number."""
    by_folder: dict[Path, list[Path]] = {}
    for path in sorted((Path(absolute(str(path), Path.cwd())) for path in paths), key=lambda p: natural_key(str(p))):
        if not path.name.startswith("."):
            by_folder.setdefault(path.parent, []).append(path)
    if not by_folder:
        raise ManifestError(
            f"masks ({', '.join(FORMATS)})", "none", "check the folder or the pattern, or write a manifest"
        )
    folders = [folder.name for folder in by_folder]
    base = Path(os.path.commonpath([str(folder) for folder in by_folder]))
    frames = []
    for folder, files in by_folder.items():
        # Folders with the same name are distinguished by their paths.
        series = folder.name if folders.count(folder.name) == 1 else str(folder.relative_to(base))
        for (name, numbers), members in _series_in(files):
            own = series if name is None else name if len(by_folder) == 1 else f"{series} {name}"
            frames += [
                Frame(own, number, MaskRef(str(file), file.name)) for number, file in zip(numbers, members, strict=True)
            ]
    return frames


def _series_in(files: list[Path]) -> list[tuple[tuple[str | None, list[str]], list[Path]]]:
    """Series of a folder, with their names and the names of their frames.

    Files whose names differ in their last number alone are a series, and that number is the frame: ``embA_t0``, ``embA_t1``
    and ``embB_t0``, ``embB_t1`` are two. One series beside odd ones has the folder's name (None). Where no two files
    are alike, all are one series in the order of their whole names.
    """
    by_words: dict[tuple[str, ...], list[Path]] = {}
    for file in files:
        by_words.setdefault(_words_around_number(file.stem), []).append(file)
    alike = [words for words, members in by_words.items() if len(members) > 1]
    if not alike:
        return [((None, [file.stem for file in files]), files)]
    found = []
    for words, members in by_words.items():
        name = None if alike == [words] else "".join(words).strip("_-. ") or members[0].stem
        found.append(((name, _numbers([file.stem for file in members])), members))
    return found


def _words_around_number(stem: str) -> tuple[str, ...]:
    """The text before and after the last number of a name; the whole name if it has no number."""
    match = re.fullmatch(r"(.*?)([0-9]{1,18})([^0-9]*)", stem, re.DOTALL)
    return (stem,) if match is None else (match[1], match[3])


def _numbers(stems: list[str]) -> list[str]:
    """The last number of each name, or the whole names if two have the same number (``t1`` and ``t01``)."""
    found = [re.findall(r"[0-9]+", stem)[-1:] or [stem] for stem in stems]
    numbers = [name for (name,) in found]
    keys = {int(name) if name.isdigit() else name for name in numbers}
    return numbers if len(keys) == len(stems) else stems
