"""A cohort in one pose: every pose right with a landmark, mass kept, nothing dropped, resumable, ready for `run`."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.planted_table import write_table, wrong_poses

import pairframe as pf
from pairframe.cohort import AlignedCohort, ColumnMap, read_tasks, run_cohort
from pairframe.cohort.align.manifest import COLUMNS
from pairframe.cohort.run.cohort_rim import with_rim
from pairframe.errors import AlignError, ManifestError, StoreError
from pairframe.report.html import write_contact_sheet
from pairframe.report.html.pair_page import pair_page
from pairframe.results import ResultStore
from pairframe.results.cohort_table import read_cohort
from pairframe.results.motion_words import pose_sentences
from pairframe.testing import PlantedFrame, disc, embryo, planted_cohort
from pairframe.units import Units

CANVAS: dict[str, Any] = {"canvas_hw": (130, 300), "px_size_um": 5.0, "jobs": 1}
Planted = tuple[list[PlantedFrame], AlignedCohort]


def rows_of(out: Path) -> list[dict[str, str]]:
    with (out / "aligned.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Three series of seven frames in random poses, half of them mirrored, with three pixel sizes."""
    frames = planted_cohort(3, 7)
    folder = tmp_path_factory.mktemp("planted")
    done = pf.align_cohort(
        write_table(frames, folder), folder / "aligned", landmark="yolk", allow_flip=True, **CANVAS | {"jobs": 2}
    )
    return frames, done


def test_every_pose_is_right_with_the_yolk(planted: Planted) -> None:
    frames, done = planted
    assert len({frame.px_size_um for frame in frames}) == 3
    assert {mask.change.flipped for mask in done.masks if mask.change is not None} == {True, False}
    assert wrong_poses(frames, done) == []
    assert (done.written, done.failed) == (21, 0)
    assert [one.found.jumps for one in done.masks if one.found is not None] == [False] * 21


def test_mirrored_masks_are_flagged_where_flips_were_forgotten(tmp_path: Path) -> None:
    frames = planted_cohort(2, 4)
    out = tmp_path / "aligned"
    done = pf.align_cohort(write_table(frames, tmp_path), out, landmark="yolk", **CANVAS | {"canvas_hw": (130, 400)})
    wrong = wrong_poses(frames, done)
    assert len(wrong) == 2
    flagged = [row for row in rows_of(out) if row["align_flags"]]
    assert [row["align_flags"] for row in flagged] == ["low_overlap"] * 2
    assert all("allow flips" in row["align_reason"] for row in flagged)


def test_area_is_kept_and_the_mask_is_read_as_an_area(planted: Planted) -> None:
    frames, done = planted
    for frame, mask in zip(frames, done.masks, strict=True):
        moved = pf.read_mask(done.out / mask.file)
        assert moved.shape_hw == (130, 300)
        assert moved.px_size_um == 5.0
        assert moved.is_area
        area = np.count_nonzero(frame.mask) * frame.px_size_um**2
        assert moved.values.sum() * 25.0 == pytest.approx(area, rel=1e-12)


def test_masks_overlap_with_the_reference_as_the_table_says(planted: Planted) -> None:
    _, done = planted
    reference = pf.read_mask(done.out / "reference.tif").values
    for row in rows_of(done.out):
        moved = np.minimum(pf.read_mask(done.out / row["path"]).values, 1)
        both = np.minimum(moved, reference).sum()
        assert both / (moved.sum() + reference.sum() - both) == pytest.approx(float(row["align_iou"]), abs=0.06)


def test_the_table_keeps_its_columns_and_has_the_poses(planted: Planted) -> None:
    _, done = planted
    rows = rows_of(done.out)
    assert {row["group"] for row in rows} == {"mutant", "wildtype"}
    assert [row["frame"] for row in rows[:7]] == [str(t) for t in range(7)]
    assert all(row["align_status"] == "aligned" and row["align_landmark"] == "used" for row in rows)
    assert max(float(row["align_landmark_offset_um"]) for row in rows) < 15
    (reference,) = [row for row in rows if float(row["align_iou"]) == 1.0]
    assert reference["align_original"] == f"{done.reference}.tif"


def test_run_takes_the_folder(planted: Planted, tmp_path: Path) -> None:
    _, done = planted
    tasks = read_tasks(done.out)
    assert len(tasks) == 18
    some = [task for task in tasks if task.pair_id in ("embryo1_0-1", "embryo1_1-2")]
    summary = run_cohort(some, tmp_path / "results", pf.TransportConfig(downsample_factor=4), jobs=1)
    assert (summary.done, summary.failed) == (2, 0)
    table = ResultStore(tmp_path / "results").table().set_index("pair_id").loc[["embryo1_0-1", "embryo1_1-2"]]
    assert list(table["align_status"]) == ["aligned", "aligned"]
    frames = {f"{one.series}_{one.frame}": one for one in planted[0]}
    sources = [frames[f"embryo1_{t}"] for t in (0, 1)]
    areas = [np.count_nonzero(one.mask) * one.px_size_um**2 for one in sources]
    assert list(table["area_source_um2"]) == pytest.approx(areas, rel=1e-9)


def test_the_yolk_moves_along_and_serves_as_a_region(planted: Planted) -> None:
    """It lies inside its mask, has its area, and is where the pose says."""
    frames, done = planted
    (task,) = [
        one for one in read_tasks(done.out, columns=ColumnMap(structures=("yolk",))) if one.pair_id == "embryo1_2-3"
    ]
    for ref, (mask, structures), frame in zip(
        (task.source, task.target),
        ((task.source, task.structures[0]), (task.target, task.structures[1])),
        (2, 3),
        strict=True,
    ):
        (truth,) = [one for one in frames if (one.series, one.frame) == ("embryo1", frame)]
        (aligned,) = [one for one in done.masks if one.mask_id == f"embryo1_{frame}"]
        yolk, body = structures["yolk"].read(), mask.read()
        assert yolk.shape_hw == (130, 300)
        assert yolk.px_size_um == 5.0
        assert np.count_nonzero(yolk.values) * 25 == pytest.approx(truth.yolk.sum() * truth.px_size_um**2, rel=0.03)
        assert not (yolk.values & (body.values == 0)).any()
        assert aligned.change is not None
        there = aligned.change.of_points((np.argwhere(truth.yolk).mean(axis=0) + 0.5)[None] * truth.px_size_um)[0]
        assert (np.argwhere(yolk.values).mean(axis=0) + 0.5) * 5.0 == pytest.approx(there, abs=2.0)
        assert ref.failure is None


def test_the_default_rim_of_an_aligned_cohort_is_a_pixel_of_the_images(planted: Planted) -> None:
    frames, done = planted
    tasks = read_tasks(done.out)
    sizes = [one.px_size_um for one in frames]
    found = with_rim(pf.TransportConfig(error_bars=True), tasks).rim_um
    assert min(sizes) <= found <= max(sizes)
    assert with_rim(pf.TransportConfig(), tasks).rim_um is None
    assert with_rim(pf.TransportConfig(rim_um=7.0), tasks).rim_um == 7.0


def test_pages_of_aligned_pairs_say_their_poses_in_words(planted: Planted, tmp_path: Path) -> None:
    task = read_tasks(planted[1].out)[0]
    run_cohort([task], tmp_path, pf.TransportConfig(downsample_factor=4), jobs=1)
    (row,) = read_cohort(ResultStore(tmp_path)).rows
    words = " ".join(pose_sentences(row, Units(5.0)))
    assert re.search(r"aligned with the reference of their cohort before: the source was turned by [0-9.]+°", words)
    page = pair_page(row, "page", None, None, carried=tuple(name for name in row if name.startswith("align_")))
    assert "compared as given" not in page
    assert "align_runner_up_iou" not in page


def test_the_contact_sheet_shows_every_mask(planted: Planted) -> None:
    _, done = planted
    page = write_contact_sheet(done.out).read_text()
    assert page.count("<img ") == 21
    assert done.reference in page
    assert (done.out / "contact_sheet.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_does_nothing_and_a_changed_mask_is_done_again(tmp_path: Path) -> None:
    frames = planted_cohort(1, 3)
    table = write_table(frames, tmp_path / "masks")
    words: dict[str, Any] = {"allow_flip": True, **CANVAS}
    first = pf.align_cohort(table, tmp_path / "out", **words)
    again = pf.align_cohort(table, tmp_path / "out", **words)
    assert (first.written, again.written, again.skipped) == (3, 0, 3)
    changed = np.rot90(frames[2].mask)
    pf.write_mask(
        pf.Mask.from_array(changed, px_size_um=frames[2].px_size_um), tmp_path / "masks/embryo1_2.tif", overwrite=True
    )
    (tmp_path / "out" / first.masks[0].file).unlink()
    third = pf.align_cohort(table, tmp_path / "out", **words)
    assert (third.written, third.skipped, third.reference) == (2, 1, first.reference)
    # A new canvas moves all masks, from the poses that are known.
    searched = json.loads((tmp_path / "out" / "align.json").read_text())["poses"]
    larger = pf.align_cohort(table, tmp_path / "out", **words | {"canvas_hw": (140, 310)})
    assert larger.written == 3
    assert json.loads((tmp_path / "out" / "align.json").read_text())["poses"] == searched


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    table = write_table(planted_cohort(1, 3), tmp_path / "masks")

    def stop(progress: Any) -> None:
        if progress.unit == "masks written":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pf.align_cohort(table, tmp_path / "out", progress=stop, **CANVAS)
    poses = json.loads((tmp_path / "out" / "align.json").read_text())["poses"]
    assert len(poses) == 3
    done = pf.align_cohort(table, tmp_path / "out", **CANVAS)
    assert done.written + done.skipped == 3
    assert json.loads((tmp_path / "out" / "align.json").read_text())["poses"] == poses


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> AlignedCohort:
    """Two series with an empty mask, a single pixel, a landmark outside, a missing one, a lost file and a bad mask."""
    frames = planted_cohort(2, 6, seed=1, flips=False)
    folder = tmp_path_factory.mktemp("troubled")
    table = write_table(frames, folder)

    def put(index: int, pixels: np.ndarray, ending: str = "") -> None:
        one = frames[index]
        mask = pf.Mask.from_array(pixels, px_size_um=one.px_size_um)
        pf.write_mask(mask, folder / f"{one.series}_{one.frame}{ending}.tif", overwrite=True)

    put(1, np.zeros_like(frames[1].mask))
    single = np.zeros_like(frames[2].mask)
    single[4, 4] = True
    put(2, single)
    put(3, ~frames[3].mask, "_yolk")
    large = np.zeros((400, 400), bool)
    large[30:370, 30:370] = True
    put(8, large)
    put(8, disc((400, 400), (200, 200), 40), "_yolk")
    half = frames[9].mask.copy()
    half[:, : int(np.median(np.nonzero(half)[1]))] = False
    half |= frames[9].yolk
    put(9, half)
    text = table.read_text().replace("embryo1_4_yolk.tif", "").replace("embryo1_5_yolk.tif", "lost.tif")
    table.write_text(text)
    return pf.align_cohort(table, folder / "aligned", landmark="yolk", **CANVAS)


@pytest.mark.parametrize(
    ("mask_id", "words"),
    [
        ("embryo1_1", "an empty mask"),
        ("embryo1_2", "got 1 pixel"),
        ("embryo1_3", "outside"),
        ("embryo1_5", "an existing file"),
        ("embryo2_2", "to fit on the canvas of 130 x 300 px"),
    ],
)
def test_a_mask_that_cannot_be_aligned_is_recorded_and_the_others_go_on(
    troubled: AlignedCohort, mask_id: str, words: str
) -> None:
    (mask,) = [one for one in troubled.masks if one.mask_id == mask_id]
    assert mask.error is not None
    assert words in mask.error
    assert not (troubled.out / mask.file).exists()
    (row,) = [row for row in rows_of(troubled.out) if row["path"] == Path(mask.file).as_posix()]
    assert row["align_status"] == "failed"
    assert words in row["align_reason"]
    assert troubled.failed == 5


def test_run_gives_the_reason_of_a_failed_alignment(troubled: AlignedCohort, tmp_path: Path) -> None:
    some = [task for task in read_tasks(troubled.out) if task.pair_id == "embryo1_0-1"]
    run_cohort(some, tmp_path, jobs=1)
    (row,) = ResultStore(tmp_path).table().to_dict("records")
    assert row["status"] == "failed"
    assert "its alignment failed: AlignError: expected a mask of at least 9 pixels" in row["error"]


def test_a_structure_that_cannot_be_moved_along_is_flagged(tmp_path: Path) -> None:
    lines = ["path,series,frame,eye"]
    for t, shape in enumerate([(80, 120), (80, 120), (70, 120)]):
        pf.write_mask(pf.Mask.from_array(embryo((80, 120), length_px=60 + t, thickness_px=12)), tmp_path / f"{t}.tif")
        pf.write_mask(pf.Mask.from_array(disc(shape, (40, 50), 4)), tmp_path / f"eye{t}.tif")
        lines.append(f"{t}.tif,a,{t},eye{t}.tif")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    columns = ColumnMap(structures=("eye",))
    done = pf.align_cohort(tmp_path / "t.csv", tmp_path / "out", canvas_hw=(90, 130), columns=columns, jobs=1)
    assert [[flag.code for flag in one.flags if flag.code == "structure"] for one in done.masks] == [
        [],
        [],
        ["structure"],
    ]
    assert "on the canvas of its mask, 80 x 120 px" in done.masks[2].flags[-1].words
    assert [row["eye"] for row in rows_of(tmp_path / "out")] == [
        "structures/1_eye/a_0.tif",
        "structures/1_eye/a_1.tif",
        "",
    ]
    again = pf.align_cohort(tmp_path / "t.csv", tmp_path / "out", canvas_hw=(90, 130), columns=columns, jobs=1)
    assert (again.written, again.skipped) == (1, 2)


def test_a_missing_landmark_and_an_odd_mask_are_flagged_and_kept(troubled: AlignedCohort) -> None:
    flags = {one.mask_id: [flag.code for flag in one.flags] for one in troubled.masks if one.error is None}
    assert flags["embryo1_4"] == ["landmark_missing"]
    assert "area" in flags["embryo2_3"]
    assert (troubled.out / "masks" / "embryo1_4.tif").exists()
    assert (troubled.out / "masks" / "embryo2_3.tif").exists()
    others = {name for name, codes in flags.items() if codes} - {"embryo1_4", "embryo2_3"}
    assert others == set()


def test_the_canvas_that_holds_all_masks_is_named_and_holds_them(troubled: AlignedCohort) -> None:
    assert troubled.needed_canvas_hw is not None
    folder = troubled.out.parent
    done = pf.align_cohort(
        folder / "frames.csv", troubled.out, landmark="yolk", **CANVAS | {"canvas_hw": troubled.needed_canvas_hw}
    )
    assert done.needed_canvas_hw is None
    assert done.failed == 4


def test_a_canvas_too_small_for_the_reference_writes_nothing(tmp_path: Path) -> None:
    table = write_table(planted_cohort(1, 2), tmp_path / "masks")
    with pytest.raises(AlignError, match=r"fit on the canvas of 20 x 40 px.*use a canvas of \d+x\d+ or larger"):
        pf.align_cohort(table, tmp_path / "out", **CANVAS | {"canvas_hw": (20, 40)})
    assert not (tmp_path / "out").exists()


def test_a_given_reference_keeps_its_pose(tmp_path: Path) -> None:
    frames = planted_cohort(1, 2, flips=False)
    table = write_table(frames, tmp_path / "masks")
    template = pf.Mask.from_array(np.rot90(embryo((200, 300), growth=0.5)), px_size_um=3.0)
    pf.write_mask(template, tmp_path / "template.tif")
    done = pf.align_cohort(
        table, tmp_path / "out", reference=tmp_path / "template.tif", canvas_hw=(300, 200), px_size_um=3.0, jobs=1
    )
    np.testing.assert_array_equal(pf.read_mask(tmp_path / "out" / "reference.tif").values, template.values)
    assert done.failed == 0
    moved = pf.read_mask(tmp_path / "out" / done.masks[0].file).values
    rows, columns = (np.flatnonzero((moved > 0).any(axis=axis)) for axis in (1, 0))
    assert rows.size > columns.size


def test_a_scale_is_recorded_and_not_applied(tmp_path: Path) -> None:
    shapes = [embryo((200, 400), growth=growth) for growth in (0.3, 0.3, 0.6)]
    for t, shape in enumerate(shapes):
        pf.write_mask(pf.Mask.from_array(shape, px_size_um=2.0), tmp_path / f"t{t}.tif")
    done = pf.align_cohort(
        str(tmp_path / "t*.tif"),
        tmp_path / "out",
        kind="similarity",
        canvas_hw=(150, 300),
        reference=tmp_path / "t0.tif",
        jobs=1,
    )
    assert done.masks[2].columns()["scale"] == pytest.approx(0.5, abs=0.02)
    moved = pf.read_mask(done.out / done.masks[2].file)
    assert moved.values.sum() == pytest.approx(shapes[2].sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (
            {"landmark": "yoke"},
            ManifestError,
            "a column 'yoke' in 'frames.csv', named as the one for a structure, such as a landmark",
        ),
        ({"canvas_hw": (0, 5)}, AlignError, "canvas_hw to be an integer >= 1"),
        ({"canvas_hw": 5}, AlignError, "canvas_hw to be two integers"),
        ({"kind": "affine"}, AlignError, "kind to be one of"),
        ({"landmark": "yolk", "reference": "masks/embryo1_0.tif"}, AlignError, "a landmark of the reference"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, Any], error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table = write_table(planted_cohort(1, 1), tmp_path / "masks")
    with pytest.raises(error, match=message):
        pf.align_cohort(table, tmp_path / "out", **CANVAS | words)
    assert not (tmp_path / "out").exists()


def test_a_pixel_size_on_one_side_only_is_an_error(tmp_path: Path) -> None:
    for t in range(3):
        px_size_um = None if t == 1 else 2.0
        pf.write_mask(pf.Mask.from_array(embryo((96, 200), growth=0.4), px_size_um=px_size_um), tmp_path / f"t{t}.tif")
    done = pf.align_cohort(tmp_path, tmp_path / "out", canvas_hw=(110, 220), px_size_um=2.0, jobs=1)
    assert [mask.error is None for mask in done.masks] == [True, False, True]
    assert "pixel sizes of both masks, or of none" in str(done.masks[1].error)


def test_other_folders_and_aligned_tables_are_refused(planted: Planted, tmp_path: Path) -> None:
    _, done = planted
    with pytest.raises(ManifestError, match="no columns that begin with align_"):
        pf.align_cohort(done.out, tmp_path / "out", **CANVAS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="an empty folder, or one with aligned masks"):
        pf.align_cohort(done.out.parent / "frames.csv", tmp_path / "full", **CANVAS)


def test_the_documented_columns_are_those_of_the_table(planted: Planted) -> None:
    page = (Path(__file__).parents[2] / "docs" / "alignment.md").read_text()
    for name, meaning in COLUMNS.items():
        assert f"| `align_{name}` | {meaning} |" in page
    assert set(rows_of(planted[1].out)[0]) >= {f"align_{name}" for name in COLUMNS}
