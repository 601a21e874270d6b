"""The part of `pairframe demo` that goes from a raw table to growth curves: align, run and series, one after the other."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from pairframe import files
from pairframe.analysis.series import series_table
from pairframe.cli.terminal import Activity
from pairframe.cohort import ColumnMap, align_cohort, run_cohort
from pairframe.cohort.align.state import PAGE
from pairframe.cohort.run.progress import CohortProgress
from pairframe.masks import CocoRle
from pairframe.report.html import write_contact_sheet, write_series
from pairframe.report.html.series_page import summaries_of
from pairframe.results import disk
from pairframe.results.formatting import number
from pairframe.testing import planted_cohort

FOLDER = "from_a_table"
TABLE = "frames.parquet"
N_FRAMES = 7
FIRST_HPF, STEP_H = 24.0, 2.0
CANVAS_HW, PX_SIZE_UM = (100, 240), 5.0
COLUMNS = ColumnMap(mask="body", series="fish", frame="hpf", height_um="image_height_um")


@dataclass(frozen=True)
class DemoSeries:
    """Where the parts of the series are, and a sentence about it."""

    places: dict[str, Path]
    words: str


def demo_series(out: Path, now: Activity) -> DemoSeries:
    """Write a table of embryos in random poses, align them, compare each frame with the next, and draw growth curves."""
    folder = out / FOLDER
    with disk.write_errors(out):
        folder.mkdir(exist_ok=True)
        files.replace_file(folder / TABLE, _table())

    def show(at: CohortProgress) -> None:
        now.step(f"a raw table: {at.unit}", at.done + at.skipped, at.total)

    now.step("a raw table: aligning")
    aligned = align_cohort(
        folder / TABLE,
        folder / "aligned",
        canvas_hw=CANVAS_HW,
        px_size_um=PX_SIZE_UM,
        landmark="yolk",
        allow_flip=True,
        columns=COLUMNS,
        jobs=1,
        progress=show,
    )
    write_contact_sheet(folder / "aligned")
    now.step("a raw table: comparing")
    run_cohort(folder / "aligned", folder / "results", jobs=1, progress=show)
    now.step("a raw table: growth curves")
    table = series_table(folder / "results")
    page = write_series(table, folder / "results")
    (summary,) = summaries_of(table)
    mirrored = sum(one.change is not None and one.change.flipped for one in aligned.masks)
    words = (
        f"From a raw table: {len(aligned.masks)} frames in random poses ({mirrored} mirrored, {len({one.px_size_um for one in aligned.masks})} pixel "
        f"sizes) were aligned by their yolk and compared; the fish grew by {number(summary['net_growth_percent'], '%')} % in "
        f"{number(summary['duration'])} {summary['time_unit']}."
    )
    return DemoSeries(
        {"raw table": folder / TABLE, "contact sheet": folder / "aligned" / PAGE, "growth curves": page}, words
    )


def _table() -> bytes:
    """Run lengths of body and yolk, and the height of each image: as a database of segmentations has them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = [
        {
            "fish": "fish1",
            "hpf": FIRST_HPF + STEP_H * one.frame,
            "body": CocoRle.from_mask(one.mask).to_coco(),
            "yolk": CocoRle.from_mask(one.yolk).to_coco(),
            "image_height_um": one.mask.shape[0] * one.px_size_um,
        }
        for one in planted_cohort(1, N_FRAMES, seed=4)
    ]
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(lines), content)
    return content.getvalue()
