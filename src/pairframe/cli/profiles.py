"""Profiles of the commands: along the body axis and around the centre, of one pair or of a cohort."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from pairframe import checks, files
from pairframe.alignment.landmarks import checked_landmark
from pairframe.axis.profile import MOST_BINS, RADIAL_BY, RadialBy
from pairframe.axis.table import (
    PROFILES_NAME,
    RADIAL_NAME,
    ReadHead,
    axis_rows,
    axis_table,
    radial_rows,
    radial_table,
    to_csv,
    with_rows_of,
)
from pairframe.cli.terminal import say
from pairframe.cohort import PairTask
from pairframe.cohort.run.progress import CohortProgress, ProgressCallback
from pairframe.errors import ArgumentError, AxisError
from pairframe.masks import Mask, read_mask
from pairframe.problem import TransportConfig
from pairframe.results import ResultStore, TransportResult, disk


def check_profiles(*, axis: bool, axis_head: str | None, bins: int | None, radial: str | None) -> None:
    """Refuse options that do not fit together, before anything is solved."""
    if radial is not None:
        checks.choice(radial, "radial", RADIAL_BY, error=ArgumentError)
    if axis_head is not None and not axis:
        raise ArgumentError("--axis with --axis-head", "--axis-head alone", "add --axis", "axis_head")
    if bins is not None:
        if not axis and radial is None:
            raise ArgumentError("--axis or --radial with --bins", "--bins alone", "add one of them", "bins")
        checks.integer(bins, "bins", 1, MOST_BINS, error=ArgumentError)


def head_of(path: str, source: str, config: TransportConfig) -> Mask:
    """The landmark at the head of a source, both read from files; refused if it does not lie on the source."""
    head = Mask.from_array(read_mask(path).values > 0)
    if head.is_empty:
        raise AxisError(
            "a landmark with pixels", "an empty mask", "leave out --axis-head if it is missing", "axis_head"
        )
    mask = read_mask(source, density=config.mass.takes_density)
    checked_landmark(head, Mask.from_array(mask.values > 0), "source")
    return head


def write_pair_profiles(
    result: TransportResult,
    pair_id: str,
    out: Path,
    folder: Path,
    *,
    axis: bool,
    head: Mask | None,
    bins: int | None,
    radial: RadialBy | None,
) -> None:
    """The profiles of one pair into `folder`, with those of other pairs in `out`.

    Rows of an earlier comparison of this name are removed if its profile is not wanted any more.
    """
    n_bins = {} if bins is None else {"n_bins": bins}
    along = axis_rows(result, pair_id, head=head, **n_bins)[0] if axis else None  # type: ignore[arg-type]
    around = None if radial is None else radial_rows(result, pair_id, radial, **n_bins)
    for name, rows in ((PROFILES_NAME, along), (RADIAL_NAME, around)):
        content = with_rows_of(out / name, pair_id, rows)
        if content is not None:
            files.replace_file(folder / name, content)
    for what, rows in (("body axis", along), ("radial profile", around)):
        if rows is not None and rows["note"].notna().any():
            say(f"pairframe: {what}: {rows['note'].iloc[0]}")


def write_cohort_profiles(
    tasks: Sequence[PairTask],
    out: Path,
    show: ProgressCallback,
    *,
    axis: bool,
    axis_head: str | None,
    bins: int | None,
    radial: RadialBy | None,
    jobs: int,
) -> None:
    """Write the profiles of all pairs; along the axis also if an earlier run wrote them, so that they stay complete."""
    store, began = ResultStore(out), time.monotonic()
    if not store.exists():
        return

    def show_axis(_task: str, done: int, total: int, _pair_id: str = "", /) -> None:
        show(CohortProgress("body axis", done, 0, 0, total, time.monotonic() - began))

    with disk.write_errors(out):
        if axis or (out / PROFILES_NAME).is_file():
            heads = {} if axis_head is None else _heads(tasks, axis_head)
            table = axis_table(store, n_bins=bins, heads=heads, jobs=jobs, progress=show_axis)
            files.replace_file(out / PROFILES_NAME, to_csv(table))
        if radial is not None:
            files.replace_file(out / RADIAL_NAME, to_csv(radial_table(store, radial, n_bins=bins, jobs=jobs)))


def _heads(tasks: Sequence[PairTask], column: str) -> dict[str, ReadHead]:
    """The landmarks of the sources that have one, by pair."""
    return {task.pair_id: task.structures[0][column].read for task in tasks if column in task.structures[0]}
