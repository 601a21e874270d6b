"""Tables as labs have them: masks as run lengths in cells, columns of any name, several structures per frame."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pairframe as pf
from pairframe.cohort import ColumnMap, MaskRef, align_cohort, read_tasks, run_cohort
from pairframe.cohort.inputs.sources import read_frames
from pairframe.errors import ManifestError, MaskError
from pairframe.masks import CocoRle
from pairframe.results import ResultStore
from pairframe.results.features import features_of
from pairframe.testing import growing_embryo, planted_cohort

MAP = ColumnMap(mask="body", series="embryo_id", frame="time_point", height_um="height_um")
HEIGHT_UM = {"a": 48 * 2.0, "b": 48 * 3.5}


def rows() -> list[dict[str, Any]]:
    """Two series of three frames, each mask as a COCO object, with a label, a further structure and a height in um."""
    found = []
    for series in ("a", "b"):
        for frame, mask in enumerate(growing_embryo(3, shape_hw=(48, 96))):
            eye = np.zeros(mask.shape, bool)
            eye[20:23, 30 + frame : 34] = True
            found.append(
                {
                    "body": CocoRle.from_mask(mask).to_coco(),
                    "eye": CocoRle.from_mask(eye).to_coco(),
                    "embryo_id": series,
                    "time_point": f"{frame:03d}",
                    "height_um": HEIGHT_UM[series],
                    "genotype": "wt" if series == "a" else "mut",
                }
            )
    return found


def write_csv(path: Path, lines: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(lines[0]))
        writer.writeheader()
        writer.writerows(
            {name: json.dumps(cell) if isinstance(cell, dict | list) else cell for name, cell in line.items()}
            for line in lines
        )
    return path


def content(ref: MaskRef) -> tuple[Any, ...]:
    return ref.rle, ref.px_size_um


def test_csv_and_parquet_give_the_same_cohort(tmp_path: Path) -> None:
    """COCO objects, compressed text, bytes and lists of lengths, with the size in the cell or in columns: all one cohort."""
    written = rows()
    table = write_csv(tmp_path / "objects.csv", written)
    expected = read_tasks(table, columns=MAP)
    assert [task.pair_id for task in expected] == ["a_000-001", "a_001-002", "b_000-001", "b_001-002"]
    pd.DataFrame(written).to_parquet(tmp_path / "objects.parquet")
    # The table as we read it from CSV, written to Parquet and read back.
    pd.read_csv(table, dtype={"time_point": str}).to_parquet(tmp_path / "again.parquet")

    def with_counts(convert: Any) -> list[dict[str, Any]]:
        size = {"height_px": 48, "width_px": 96}
        return [{**line, **size, "body": convert(CocoRle.from_coco(**line["body"])), "eye": None} for line in written]

    write_csv(tmp_path / "text.csv", with_counts(lambda rle: rle.counts))
    write_csv(tmp_path / "lists.csv", with_counts(lambda rle: rle.lengths().tolist()))
    pd.DataFrame(with_counts(lambda rle: rle.counts.encode())).to_parquet(tmp_path / "bytes.parquet")
    pd.DataFrame(with_counts(lambda rle: rle.lengths().tolist())).to_parquet(tmp_path / "lists.parquet")
    names = ["objects.parquet", "again.parquet", "text.csv", "lists.csv", "bytes.parquet", "lists.parquet"]
    for name in names:
        tasks = read_tasks(tmp_path / name, columns=MAP)
        assert [(task.pair_id, content(task.source), content(task.target)) for task in tasks] == [
            (task.pair_id, content(task.source), content(task.target)) for task in expected
        ], name
        assert [task.carried["genotype"] for task in tasks] == ["wt", "wt", "mut", "mut"]
        assert not {"body", "height_um", "embryo_id", "time_point"} & set(tasks[0].carried), name
    mask = expected[2].source.read()
    np.testing.assert_array_equal(mask.values, growing_embryo(3, shape_hw=(48, 96))[0])
    assert mask.px_size_um == 3.5


def test_numbers_that_order_the_frames_stay_a_label(tmp_path: Path) -> None:
    lines = [{key: value for key, value in line.items() if key != "time_point"} for line in rows()]
    hours = [{**line, "hour": 24 + 0.5 * (k % 3)} for k, line in enumerate(lines)]
    task = read_tasks(write_csv(tmp_path / "t.csv", hours), columns=replace(MAP, frame="hour"))[0]
    assert (task.carried["hour"], task.carried["hour_target"]) == (24.0, 24.5)


def test_long_lists_of_columns_are_cut_between_names(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", [{f"a_long_name_of_a_column_{k}": 1 for k in range(40)}])
    with pytest.raises(ManifestError, match=re.escape("'a_long_name_of_a_column_11', ... (40 in all)")):
        read_tasks(table)


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    line = "mask,frame,height_px,width_px\n"
    (tmp_path / "t.csv").write_text(line + "0120,000,2,2\n1111,001,2,2\n")
    (task,) = read_tasks(tmp_path / "t.csv")
    assert (task.pair_id, task.source.rle) == ("000-001", CocoRle((2, 2), "0120"))


def test_cells_longer_than_csv_takes_by_default_are_read(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).random((400, 400)) < 0.5
    long = CocoRle.from_mask(noise).lengths().tolist()
    lines = [{"mask": long, "frame": k, "height_px": 400, "width_px": 400} for k in range(2)]
    before = csv.field_size_limit()
    table = write_csv(tmp_path / "t.csv", lines)
    assert len(json.dumps(long)) > before
    np.testing.assert_array_equal(read_tasks(table)[0].source.read().values, noise)
    assert csv.field_size_limit() == before


def test_a_toml_file_names_the_columns_and_options_win(tmp_path: Path) -> None:
    write_csv(tmp_path / "frames.csv", rows())
    (tmp_path / "cohort.toml").write_text(
        'table = "frames.csv"\n[columns]\nmask = "body"\nseries = "embryo_id"\nframe = "time_point"\n'
        'height_um = "height_um"\nstructures = ["eye"]\n'
    )
    whole = read_tasks(tmp_path / "cohort.toml")
    assert [content(task.source) for task in whole] == [
        content(task.source) for task in read_tasks(tmp_path / "frames.csv", columns=MAP)
    ]
    eyes = read_tasks(tmp_path / "cohort.toml", columns=ColumnMap(mask="eye"))
    assert eyes[0].source.read().area_px == 12
    assert eyes[0].source.px_size_um == 2.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("table = 3", "a section .columns. in 'c.toml'"),
        ('table = "f.csv"\n[columns]\nmaks = "body"', "only mask, series, .* got 'maks'"),
        ('table = "f.csv"\ncolums = 1', "only table, columns in 'c.toml', got 'colums'"),
        ('table = "f.csv"\n[columns]\nmask = 3', "the name of a column for mask, got 3"),
        ('table = "f.csv"\n[columns]\nstructures = "eye"', "structures as a list of columns"),
        ("table = ", "a TOML file with a table and its columns"),
        ('table = "none.csv"', "an existing manifest"),
    ],
)
def test_a_broken_map_is_refused(tmp_path: Path, words: str, message: str) -> None:
    write_csv(tmp_path / "f.csv", rows())
    (tmp_path / "c.toml").write_text(words)
    with pytest.raises(ManifestError, match=message):
        read_tasks(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        ({}, {"mask": "corpus"}, "a column 'corpus' in 't.csv', named as the one for mask, got the columns 'body'"),
        ({}, {"structures": ("heart",)}, "a column 'heart' in 't.csv', named as the one for a structure, such as a landmark"),
        ({}, {"series": "body"}, "a column of its own for each, got 'body' twice"),
        ({"height_px": 96, "width_px": 48}, {}, "the size 96 x 48 px of the columns .* got 48 x 96 px in t.csv, line 2, body"),
        ({"height_px": 48, "width_px": ""}, {}, "height and width of the image in pixels, .* got 48 and None in line 2"),
        ({"body": '{"size": [48, 96]}'}, {}, '"counts": ...} as COCO writes it'),
        ({"body": '{"size": [48, 96], "counts": '}, {}, '"counts": ...} as COCO writes it'),
        ({"body": '{"size": [100000, 10000], "counts": "0"}'}, {}, "at most 268435456 pixels, got .* in t.csv, line 2, body"),
        ({"body": '{"size": [48, -1], "counts": "0"}'}, {}, "two positive integers, .* in t.csv, line 2, body"),
        ({"body": '{"size": [48, 96], "counts": [1, -5]}'}, {}, "whole numbers of pixels, .* in t.csv, line 2, body"),
        ({"body": "e25?0000"}, {}, "the size of every mask of run lengths, .* got none for 'e25\\?0000' in line 2"),
        ({"body": ""}, {}, "a body in every line, got none in line 2"),
        ({"height_um": "tall"}, {}, "height_um to be a positive number"),
        ({"height_um": -3}, {}, "height_um to be a positive number"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_meant_is_refused(
    tmp_path: Path, change: dict[str, Any], columns: dict[str, Any], message: str
) -> None:
    table = write_csv(tmp_path / "t.csv", [{**line, **change} for line in rows()])
    with pytest.raises(ManifestError, match=message):
        read_tasks(table, columns=ColumnMap(**({"mask": "body", "series": "embryo_id", "frame": "time_point",
                                               "height_um": "height_um"} | columns)))  # fmt: skip


def test_the_pixel_size_comes_from_one_column() -> None:
    with pytest.raises(ManifestError, match="the pixel size from one column"):
        ColumnMap(px_size_um="a", height_um="b")


def test_frames_that_occur_twice_are_refused(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", [*rows(), rows()[0]])
    with pytest.raises(pf.PairframeError, match="frame '000' twice in series 'a'"):
        read_tasks(table, columns=MAP)
    with pytest.raises(ManifestError, match="frame '000' twice in series 'a'"):
        align_cohort(table, tmp_path / "out", canvas_hw=(100, 100), columns=MAP)
    assert not (tmp_path / "out").exists()


def test_a_map_needs_a_table(tmp_path: Path) -> None:
    pf.write_mask(pf.Mask.from_array(np.ones((3, 3))), tmp_path / "t0.png")
    for read in (read_tasks, read_frames):
        with pytest.raises(ManifestError, match="a column map with a table"):
            read(tmp_path, columns=ColumnMap(mask="body"))


def test_a_height_in_um_works_for_files_too(tmp_path: Path) -> None:
    for frame in range(2):
        pf.write_mask(pf.Mask.from_array(np.ones((20, 30))), tmp_path / f"{frame}.png")
    (tmp_path / "t.csv").write_text("file,tall\n0.png,50\n1.png,50\n")
    (task,) = read_tasks(tmp_path / "t.csv", columns=ColumnMap(mask="file", height_um="tall"))
    assert task.source.read().px_size_um == 2.5


def test_a_cohort_of_run_lengths_runs_resumes_and_notices_changes(tmp_path: Path) -> None:
    written = rows()[:3]
    written[2]["body"] = {**written[2]["body"], "counts": written[2]["body"]["counts"][:-3]}  # truncated
    table = write_csv(tmp_path / "t.csv", written)
    config = pf.TransportConfig(downsample_factor=2, reach_um=60.0)
    first = run_cohort(table, tmp_path / "out", config, columns=MAP, jobs=1)
    assert (first.done, first.failed) == (1, 1)
    found = ResultStore(tmp_path / "out").table().set_index("pair_id")
    assert "t.csv, line 4, body" in found.loc["a_001-002", "error"]
    assert "truncated" in found.loc["a_001-002", "error"]
    direct = pf.compare(
        *(pf.Mask.from_array(m, px_size_um=2.0) for m in growing_embryo(3, shape_hw=(48, 96))[:2]), config
    )
    assert found.loc["a_000-001", "percent_created"] == pytest.approx(features_of(direct)["percent_created"], rel=1e-6)
    assert "eye" not in found.columns
    write_csv(table, rows()[:3])
    again = run_cohort(table, tmp_path / "out", config, columns=MAP, jobs=1)
    assert (again.done, again.skipped, again.failed) == (1, 1, 0)


def test_a_damaged_mask_names_its_cell() -> None:
    ref = MaskRef("/x/t.csv, line 4, body", "t.csv, line 4, body", rle=CocoRle((20, 30), "e25"))
    with pytest.raises(MaskError, match=r"truncated in t\.csv, line 4, body"):
        ref.read()


def test_a_table_with_a_yolk_is_aligned_as_its_files_are(tmp_path: Path) -> None:
    frames = planted_cohort(1, 4, seed=3)
    lines, files = [], []
    for one in frames:
        base = {"series": one.series, "frame": one.frame}
        yolk = None if one.frame == 2 else CocoRle.from_mask(one.yolk).to_coco()
        size_um = one.mask.shape[0] * one.px_size_um
        lines.append({"body": CocoRle.from_mask(one.mask).to_coco(), "yolk": yolk, "tall_um": size_um, **base})
        for name, pixels in (("mask", one.mask), ("yolk", one.yolk)):
            mask = pf.Mask.from_array(pixels, px_size_um=one.px_size_um)
            pf.write_mask(mask, tmp_path / f"{name}{one.frame}.tif")
        files.append({"path": f"mask{one.frame}.tif", "yolk": "" if yolk is None else f"yolk{one.frame}.tif", **base})
    pd.DataFrame(lines).to_parquet(tmp_path / "t.parquet")
    write_csv(tmp_path / "t.csv", files)
    asked = {"canvas_hw": (130, 320), "px_size_um": 5.0, "landmark": "yolk", "allow_flip": True, "jobs": 1}
    columns = ColumnMap(mask="body", height_um="tall_um")
    cells = align_cohort(tmp_path / "t.parquet", tmp_path / "cells", columns=columns, **asked)
    paths = align_cohort(tmp_path / "t.csv", tmp_path / "paths", **asked)
    assert (cells.failed, paths.failed) == (0, 0)
    assert cells.reference == paths.reference
    for one, other in zip(cells.masks, paths.masks, strict=True):
        assert one.change is not None
        assert other.change is not None
        assert one.change.flipped == other.change.flipped
        assert one.change.angle_deg == pytest.approx(other.change.angle_deg, abs=1e-6)
    assert [flag.code for flag in cells.masks[2].flags] == ["landmark_missing"]
    assert cells.masks[2].frame.structures == {}
    with (tmp_path / "cells" / "aligned.csv").open() as stream:
        header = next(csv.reader(stream))
    assert not {"body", "tall_um"} & set(header)
    assert "yolk" in header
    again = align_cohort(tmp_path / "t.parquet", tmp_path / "cells", columns=columns, **asked)
    assert (again.written, again.skipped) == (0, 4)
