"""`pairframe run` at the terminal: the dry run, options that are refused, and the report at the end."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import typer
from helpers.cohort_cases import CONFIG, InProcessExecutor, write_frame, write_series, write_table

from pairframe.cli.run import run_run
from pairframe.cli.run_options import RunOptions
from pairframe.cohort.run.events import Event
from pairframe.errors import InputError, ManifestError
from pairframe.results import ResultStore


def dry_run(manifest: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    run_run(RunOptions([str(manifest)], out, jobs=1, dry_run=True), CONFIG)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("n_frames", "left_out"), [(3, 0), (12, 0), (13, 1), (16, 4)])
def test_a_dry_run_lists_the_first_ten_pairs_and_the_last(
    n_frames: int, left_out: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    masks = write_series(tmp_path / "masks", n_series=1, n_frames=n_frames)
    lines = dry_run(masks, tmp_path / "out", capsys)
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
    lines = dry_run(write_table(tmp_path / "m.csv", rows), tmp_path / "out", capsys)
    assert lines[0] == "pair       x: a\N{REPLACEMENT CHARACTER}[2J.png -> b.png"


def test_a_dry_run_refuses_an_interval_that_the_run_would_refuse(tmp_path: Path) -> None:
    for name in ("t0", "t899", "t1801"):
        write_frame(tmp_path / "masks" / f"{name}.png", 5)
    options = RunOptions([str(tmp_path / "masks")], tmp_path / "out", frame_interval_min=15, dry_run=True)
    with pytest.raises(ManifestError, match="equally spaced frames"):
        run_run(options, CONFIG)


@pytest.mark.parametrize("minutes", [0, -5.0, math.nan, math.inf])
def test_an_interval_is_a_positive_number_of_minutes(minutes: float, tmp_path: Path) -> None:
    masks = write_series(tmp_path / "masks", n_series=1)
    for is_dry in (True, False):
        options = RunOptions([str(masks)], tmp_path / "out", frame_interval_min=minutes, dry_run=is_dry)
        with pytest.raises(InputError, match="a positive, finite frame interval in minutes"):
            run_run(options, CONFIG)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)


@pytest.mark.usefixtures("in_process")
def test_the_report_is_written_at_the_end_also_when_pairs_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_frame(tmp_path / "a.png", 5)
    write_frame(tmp_path / "b.png", 6)
    rows = [{"pair_id": name, "source": "a.png", "target": f"{name}.png"} for name in ("b", "none")]
    options = RunOptions([str(write_table(tmp_path / "m.csv", rows))], tmp_path / "out", jobs=1)
    with pytest.raises(typer.Exit) as caught:
        run_run(options, CONFIG)
    assert caught.value.exit_code == 1
    assert "FileError" in (tmp_path / "out/report.html").read_text()
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == f"report: {tmp_path / 'out/report.html'}"
    assert said.err.splitlines()[-1] == "report: 1 of 1 pairs drawn"  # the other has no maps


@pytest.mark.usefixtures("in_process")
def test_a_run_without_a_report_writes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    masks = write_series(tmp_path / "masks", n_series=1)
    run_run(RunOptions([str(masks)], tmp_path / "out", jobs=1, report=False), CONFIG)
    assert "report: " not in capsys.readouterr().out
    assert not (tmp_path / "out/report.html").exists()


def test_an_interrupted_run_writes_no_report_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(InProcessExecutor):
        def events(self, *words: Any) -> Generator[Event]:
            yield next(super().events(*words))
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", Interrupted)
    masks = write_series(tmp_path / "masks", n_series=1)
    with pytest.raises(KeyboardInterrupt):
        run_run(RunOptions([str(masks)], tmp_path / "out", jobs=1), CONFIG)
    assert "run the same command again to resume" in capsys.readouterr().err
    assert len(ResultStore(tmp_path / "out").pair_ids()) == 1
    assert not (tmp_path / "out/report.html").exists()


def test_one_word_is_the_manifest() -> None:
    assert RunOptions(["masks/*.png"], Path("out")).one_manifest() == "masks/*.png"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["my masks/t0.tif", "my masks/t1.tif"], r"such as 'my masks/\*\.tif', or give the folder, 'my masks'"),
        (["t0.png", "t1.png", "t2.png"], r"such as '\*\.png', or give the folder, \."),
        (["a/t0.png", "b/t0.npy"], r"such as 'masks/\*\.png', or give the folder, masks"),
    ],
)
def test_a_pattern_without_quotes_is_told_to_have_some(words: list[str], advice: str) -> None:
    with pytest.raises(ManifestError, match=rf"got {len(words)} words, .*put the pattern in single quotes, {advice}"):
        RunOptions(words, Path("out")).one_manifest()
