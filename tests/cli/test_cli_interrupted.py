"""Ctrl-C and errors while a result is written: old, new, and never a mixture that nobody speaks of."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.cli_masks import content, write_pair
from helpers.results_equal import differences, unsolved_result
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

import pairframe as pf
from pairframe.cli import compare, demo, report
from pairframe.cli.app import app
from pairframe.cli.output import drafted
from pairframe.errors import StoreError, StoreWriteError
from pairframe.report.html import write_report
from pairframe.results import ResultStore, TransportResult

SMALL_HW = (48, 108)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def full(*_: object, **__: object) -> None:
    raise StoreWriteError("space", "none", "free some")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "my out"


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    # Few pictures: what is drawn does not matter here, only when.
    for command in (compare, report):
        monkeypatch.setattr(command, "write_report", partial(write_report, max_figures=0))
    monkeypatch.setattr(compare, "write_movie", lambda result, path: path.write_bytes(f"{result.blur_um}".encode()))
    monkeypatch.setattr(compare, "summary_figure", _number_alone)
    return write_pair(tmp_path)


def _number_alone(result: TransportResult, figure: Figure, frame_interval_min: float | None = None) -> Figure:
    figure.text(0.5, 0.5, str(result.blur_um))
    return figure


@pytest.mark.parametrize("already", [False, True])
@pytest.mark.parametrize(("what_happens", "code"), [(stopped, 130), (full, 2)])
def test_before_the_result_is_kept_the_folder_stays_as_it_was(
    pair: tuple[str, str],
    out: Path,
    already: bool,
    what_happens: Callable[..., None],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if already:
        assert run(*pair, "--out", out).exit_code == 0
    before = content(out)
    for place, name in ((compare, "write_movie"), (compare, "summary_figure"), (ResultStore, "commit")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, what_happens)
            done = run(*pair, "--out", out, "--overwrite", "--blur-um", "9")
        assert done.exit_code == code
        assert content(out) == before
        assert out.exists() == already


@pytest.mark.parametrize(("what_happens", "code"), [(stopped, 130), (full, 2)])
def test_without_pages_a_new_result_says_so_and_how_to_finish(
    pair: tuple[str, str],
    out: Path,
    what_happens: Callable[..., None],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare, "write_report", what_happens)
    done = run(*pair, "--out", out)
    assert done.exit_code == code
    assert "the result, summary.json, summary.png and movie.gif are complete" in done.stderr
    assert f"but there is no report yet. To finish: pairframe report '{out}'" in done.stderr
    assert pf.load(out).status == "converged"
    assert not (out / "report.html").exists()
    assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
    assert (out / "report.html").is_file()


def test_ctrl_c_while_pages_are_replaced_says_which_are_old_and_nothing_else_is(
    pair: tuple[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*pair, "--out", out).exit_code == 0
    before = content(out)
    monkeypatch.setattr(compare, "write_report", stopped)
    done = run(*pair, "--out", out, "--overwrite", "--blur-um", "9")
    assert done.exit_code == 130
    assert "but report.html and its pages are still those from before. To finish: pairframe report" in done.stderr
    assert content(out)["report.html"] == before["report.html"]
    _all_show_a_blur_of(9.0, out)
    assert content(out)["summary.png"] != before["summary.png"]


def test_ctrl_c_in_the_very_moment_of_keeping_leaves_all_of_the_new_result(
    pair: tuple[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*pair, "--out", out).exit_code == 0
    commit = ResultStore.commit

    def interrupted_commit(self: ResultStore, rows: Any) -> None:
        commit(self, rows)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ResultStore, "commit", interrupted_commit)
    done = run(*pair, "--out", out, "--overwrite", "--blur-um", "9")
    assert done.exit_code == 130
    assert "are complete in" in done.stderr
    assert "pairframe: interrupted" in done.stderr
    _all_show_a_blur_of(9.0, out)
    assert not list(out.glob(".tmp-*"))


def test_pictures_of_another_result_are_named_when_none_are_drawn(pair: tuple[str, str], out: Path) -> None:
    assert run(*pair, "--out", out).exit_code == 0
    done = run(*pair, "--out", out, "--overwrite", "--no-report")
    assert "report.html, summary.png, movie.gif in" in done.stderr
    assert "are from before this comparison" in done.stderr


def test_a_report_of_several_pairs_is_not_named_after_the_last_one(pair: tuple[str, str], out: Path) -> None:
    assert run(*pair, "--out", out).exit_code == 0
    assert "<title>source.tif → target.tif" in (out / "report.html").read_text()
    assert run(*pair, "--out", out, "--overwrite", "--pair-id", "second").exit_code == 0
    page = (out / "report.html").read_text()
    assert "<title>my out" in page
    assert "source.tif → target.tif" not in page


@pytest.mark.slow
def test_a_demo_without_a_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "write_movie", lambda result, path: path.write_bytes(b"GIF"))
    monkeypatch.setattr(demo, "write_report", stopped)
    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path / "demo", shape_hw=SMALL_HW)
    assert "the results are kept, but the report is not complete" in capsys.readouterr().err
    assert len(ResultStore(tmp_path / "demo").pair_ids()) == len(demo.PAIRS)


def _all_show_a_blur_of(blur_um: float, out: Path) -> None:
    assert pf.load(out).blur_um == pytest.approx(blur_um)
    assert json.loads((out / "summary.json").read_text())["blur_um"] == pytest.approx(blur_um)
    assert float((out / "movie.gif").read_text()) == pytest.approx(blur_um)


def write_and_fail(store: ResultStore, result: TransportResult, *, commit: bool) -> None:
    with drafted(store) as draft:
        draft.write(lambda: store.write_maps(result, "pair"))
        if commit:
            store.commit(draft.rows)  # done, but the draft has not heard of it
        raise StoreError("a disk", "trouble", "look at it")


def test_what_the_table_names_is_not_undone(tmp_path: Path) -> None:
    store, result = ResultStore(tmp_path / "out"), unsolved_result(5)
    with pytest.raises(StoreError, match="trouble"):
        write_and_fail(store, result, commit=True)
    assert not differences(store.load("pair"), result)


def test_a_folder_that_was_there_stays_when_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("old", "new"):
        with pytest.raises(StoreError, match="trouble"):
            write_and_fail(ResultStore(tmp_path / name), unsolved_result(5), commit=False)
    assert list(tmp_path.rglob("*")) == [tmp_path / "old"]
