"""A bar is shown to a person, on a terminal or in a notebook, and to nobody else."""

from __future__ import annotations

import io
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pairframe as pf
from pairframe import progress
from pairframe.cohort import run_cohort
from pairframe.cohort.run.progress import CohortProgress, progress_if_watched
from pairframe.testing import disc

MASKS = [disc((24, 32), (12, 12 + k), 6) for k in range(4)]
PAIRS = list(pairwise(MASKS))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook:
    """Stands for IPython inside a kernel; keeps what a cell would show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
        ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
        display.HTML = str  # type: ignore[attr-defined]
        display.display = self._display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def _display(self, what: str, display_id: bool) -> Any:
        assert display_id
        self.shown.append(what)
        return SimpleNamespace(update=self.shown.append)


def test_nobody_sees_a_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    pf.compare_many(PAIRS, jobs=1)
    assert stream.getvalue() == ""


def test_a_terminal_shows_how_many_pairs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    assert len(pf.compare_many(PAIRS, jobs=1)) == 3
    assert "3 of 3 pairs compared" in stream.getvalue()
    before = stream.tell()
    pf.compare_many(PAIRS, jobs=1, progress=False)
    assert stream.tell() == before


def test_a_notebook_shows_a_bar_and_keeps_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    pf.compare_many(iter(PAIRS), jobs=1)
    assert notebook.shown[-1] == "3 pairs compared"
    pf.compare_many(PAIRS, jobs=1)
    assert '<progress value="2" max="3">' in notebook.shown[-2]
    assert notebook.shown[-1] == "3 of 3 pairs compared"


def test_a_run_shows_a_bar_in_a_notebook_and_none_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for k, mask in enumerate(MASKS[:2]):
        np.save(tmp_path / f"mask_{k}.npy", mask)
    run_cohort(str(tmp_path / "mask_*.npy"), tmp_path / "quiet", jobs=1)
    assert capfd.readouterr().err == ""
    notebook = Notebook(monkeypatch)
    run_cohort(str(tmp_path / "mask_*.npy"), tmp_path / "shown", jobs=1)
    assert any("1 of 1 pairs" in text for text in notebook.shown)
    n_shown = len(notebook.shown)
    run_cohort(str(tmp_path / "mask_*.npy"), tmp_path / "silent", jobs=1, progress=False)
    assert len(notebook.shown) == n_shown


def test_a_callback_is_called_instead_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    Notebook(monkeypatch)
    seen: list[CohortProgress] = []
    with progress_if_watched(seen.append) as show:
        assert show is not None
        show(CohortProgress("solving", 1, 0, 0, 1, 0.1))
    assert len(seen) == 1


def test_texts_of_a_bar_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    with progress.progress_bar() as show:
        show("<script>", 1, 2)
    assert "<script>" not in notebook.shown[-1]
