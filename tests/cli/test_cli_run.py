"""`pairframe run` as a person meets it before anything is solved: pairs, intervals, and words that are too many."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers.cohort_cases import CONFIG, write_frame, write_series, write_table

from pairframe.cli.run import RunJob, one_manifest, run_run
from pairframe.errors import InputError, ManifestError


def dry_run(job: RunJob, capsys: pytest.CaptureFixture[str]) -> list[str]:
    run_run(job, dry_run=True)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("n_frames", "left_out"), [(3, 0), (12, 0), (13, 1), (16, 4)])
def test_a_dry_run_lists_the_first_ten_pairs_and_the_last(
    n_frames: int, left_out: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    masks = write_series(tmp_path / "masks", n_series=1, n_frames=n_frames)
    lines = dry_run(RunJob(str(masks), tmp_path / "out", CONFIG, jobs=1), capsys)
    listed = [f"pair       s0_{t}-{t + 1}: t{t}.png -> t{t + 1}.png" for t in range(n_frames - 1)]
    if left_out:
        listed = [*listed[:10], f"pair       ... {left_out} more", listed[-1]]
    n = len(listed)
    assert lines[:n] == listed
    assert lines[n] == f"pairs      {n_frames - 1}, {n_frames - 1} to do"
    assert lines[n + 1].startswith("buckets    ")
    assert lines[-1] == "nothing was written"
    assert not (tmp_path / "out").exists()


def test_names_in_a_dry_run_cannot_move_the_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_frame(tmp_path / "b.png", 5)
    rows: list[dict[str, object]] = [{"pair_id": "x", "source": "a\x1b[2J.png", "target": "b.png"}]
    lines = dry_run(RunJob(str(write_table(tmp_path / "m.csv", rows)), tmp_path / "out", CONFIG, jobs=1), capsys)
    assert lines[0] == "pair       x: a\N{REPLACEMENT CHARACTER}[2J.png -> b.png"


def test_a_dry_run_refuses_an_interval_that_the_run_would_refuse(tmp_path: Path) -> None:
    for name in ("t0", "t899", "t1801"):
        write_frame(tmp_path / "masks" / f"{name}.png", 5)
    job = RunJob(str(tmp_path / "masks"), tmp_path / "out", CONFIG, frame_interval_min=15)
    with pytest.raises(ManifestError, match="frames at equal distances"):
        run_run(job, dry_run=True)


@pytest.mark.parametrize("minutes", [0, -5.0, math.nan, math.inf])
def test_an_interval_is_a_positive_number_of_minutes(minutes: float, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a positive, finite --frame-interval in minutes.*e\.g\. --frame-interval 5"):
        RunJob("m.csv", tmp_path, CONFIG, frame_interval_min=minutes)


def test_one_word_is_the_manifest() -> None:
    assert one_manifest(["masks/*.png"]) == "masks/*.png"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["my masks/t0.tif", "my masks/t1.tif"], r"such as 'my masks/\*\.tif', or give the folder, 'my masks'"),
        (["t0.png", "t1.png", "t2.png"], r"such as '\*\.png', or give the folder, \."),
        (["a/t0.png", "b/t0.npy"], r"such as 'masks/\*\.png', or give the folder, masks"),
    ],
)
def test_a_pattern_without_quotes_is_told_to_have_some(words: list[str], advice: str) -> None:
    with pytest.raises(ManifestError, match=rf"got {len(words)} words, .*put it in single quotes, {advice}"):
        one_manifest(words)
