"""What several tests of the report share and only look at: one small cohort with its pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.report_rows import HOSTILE, small_cohort

from pairframe.report.html import write_report


@pytest.fixture(scope="session")
def report_cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with eight pairs and light pages; not to be changed."""
    out = tmp_path_factory.mktemp("cohort")
    small_cohort(out)
    write_report(out, title=f"Eight pairs of {HOSTILE}", max_figures=0)
    return out
