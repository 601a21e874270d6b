"""Are the poses of a whole cohort right, with the yolk as a landmark and without, and how long does a mask take?

    python benchmarks/align_cohort.py [--frames N] [--jobs N] [--input files|table]

Series of embryos that grow, in random poses, half of them mirrored, with three pixel sizes. A pose is wrong if the mask is
mirrored, or turned by more than 20 degrees, against the reference. With ``--input table`` the masks are run lengths in one
Parquet table, with the height of each image in um, as a database of segmentations has them. Writes benchmarks/out/align_cohort.json.
"""

from __future__ import annotations

import argparse
import csv
import math
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pairframe as pf
from harness import write_json
from pairframe.cohort import ColumnMap
from pairframe.cohort.run.progress import CohortProgress
from pairframe.masks import CocoRle
from pairframe.testing import PlantedFrame, planted_cohort

WRONG_DEG = 20.0
PER_SERIES = 24
MASK_TABLE = ColumnMap(mask="body", series="embryo_id", frame="time_index", height_um="image_height_um")


def write_table(frames: list[PlantedFrame], folder: Path) -> Path:
    with (folder / "frames.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "series", "frame", "yolk"])
        for one in frames:
            names = [f"{one.series}_{one.frame}{ending}.tif" for ending in ("", "_yolk")]
            for name, pixels in zip(names, (one.mask, one.yolk), strict=True):
                pf.write_mask(pf.Mask.from_array(pixels, px_size_um=one.px_size_um), folder / name)
            writer.writerow([names[0], one.series, one.frame, names[1]])
    return folder / "frames.csv"


def write_mask_table(frames: list[PlantedFrame], folder: Path) -> Path:
    """One table for all: run lengths of body and yolk, and columns with names of their own."""
    lines = [
        {
            "embryo_id": one.series,
            "time_index": one.frame,
            "body": CocoRle.from_mask(one.mask).to_coco(),
            "yolk": CocoRle.from_mask(one.yolk).to_coco(),
            "image_height_um": one.mask.shape[0] * one.px_size_um,
            "genotype": "wild type",
        }
        for one in frames
    ]
    pq.write_table(pa.Table.from_pylist(lines), folder / "frames.parquet")
    return folder / "frames.parquet"


def judged(
    frames: list[PlantedFrame], table: Path, out: Path, landmark: str | None, jobs: int | None
) -> dict[str, Any]:
    began = perf_counter()
    seen: list[CohortProgress] = []
    done = pf.align_cohort(
        table,
        out,
        canvas_hw=(260, 640),
        px_size_um=2.5,
        landmark=landmark,
        columns=MASK_TABLE if table.suffix == ".parquet" else None,
        allow_flip=True,
        jobs=jobs,
        progress=seen.append,
    )
    seconds = perf_counter() - began
    ways = {
        mask.mask_id: frame.place.then(mask.change)
        for frame, mask in zip(frames, done.masks, strict=True)
        if mask.change is not None
    }
    truth = ways[done.reference]
    mirrored = [name for name, way in ways.items() if way.flipped != truth.flipped]
    turns = {
        name: abs(math.remainder(way.angle_deg - truth.angle_deg, 360))
        for name, way in ways.items()
        if name not in mirrored
    }
    wrong = {*mirrored, *(name for name, turn in turns.items() if turn > WRONG_DEG)}
    flags = {mask.mask_id: [flag.code for flag in mask.flags] for mask in done.masks}
    return {
        "masks": len(frames),
        "failed": done.failed,
        "wrong poses": len(wrong),
        "wrong flips": len(mirrored),
        "wrong without a flag": sum(not flags[name] for name in wrong),
        "flags": dict(Counter(code for codes in flags.values() for code in codes)),
        "median error, degrees": sorted(turns.values())[len(turns) // 2],
        "seconds per mask": seconds / len(frames),
        "progress reports": len(seen),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=313)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--input", choices=("files", "table"), default="files")
    given = parser.parse_args()
    frames = planted_cohort(-(-given.frames // PER_SERIES), PER_SERIES, seed=7)[: given.frames]
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = (write_table if given.input == "files" else write_mask_table)(frames, folder)
        print(f"{table.name}: {table.stat().st_size / 1e6:.2f} MB", flush=True)
        for words, landmark in (("with the yolk", "yolk"), ("without a landmark", None)):
            rows[words] = judged(frames, table, folder / f"out_{landmark}", landmark, given.jobs)
            print(words, rows[words], flush=True)
    write_json("align_cohort" if given.input == "files" else "align_cohort_table", rows)


if __name__ == "__main__":
    main()
