"""What several tests of the report share and only look at: one small cohort with its pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.report_rows import HOSTILE, small_cohort

from pairframe.report.html import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SWITCHES = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync"


@pytest.fixture(scope="session")
def report_cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with eight pairs and light pages; not to be changed."""
    out = tmp_path_factory.mktemp("cohort")
    small_cohort(out)
    write_report(out, title=f"Eight pairs of {HOSTILE}", max_figures=0)
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of a process: a second one cannot start while it runs."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES.split())
        yield started
        started.close()
