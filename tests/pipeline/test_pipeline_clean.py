"""Masks are cleaned as the config says, before they are compared, and the result says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.cohort_cases import InProcessExecutor
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.cohort import run_cohort
from pairframe.errors import ConfigError
from pairframe.masks import Mask, clean_mask
from pairframe.results import ResultStore
from pairframe.testing import disc

SHAPE = (60, 90)
BODY = disc(SHAPE, (30, 30), 14)
DIRTY = (BODY & ~disc(SHAPE, (30, 30), 4)) | disc(SHAPE, (30, 75), 7) | disc(SHAPE, (5, 80), 1)


@pytest.mark.parametrize(
    ("options", "area_px"),
    [
        ({}, DIRTY.sum()),
        ({"invert": True}, (~DIRTY).sum()),
        ({"min_area_um2": 6.0}, DIRTY.sum() - disc(SHAPE, (5, 80), 1).sum()),
        ({"largest": True}, (BODY & ~disc(SHAPE, (30, 30), 4)).sum()),
        ({"largest": True, "fill_holes": True}, BODY.sum()),
        ({"fill_holes": True}, (DIRTY | BODY).sum()),
    ],
)
def test_each_step_does_what_it_says(options: dict[str, object], area_px: int) -> None:
    found = pf.compare(DIRTY, DIRTY, pf.TransportConfig(**options))  # type: ignore[arg-type]
    assert (found.M_source, found.M_target) == (area_px, area_px)
    assert [notice.code for notice in found.notices if notice.code == "cleaned"] == ["cleaned"] * (2 if options else 0)


def test_an_area_is_in_um_if_the_pixel_size_is_known() -> None:
    # 149 px of 0.25 um^2 are 37 um^2.
    kept = pf.compare(DIRTY, DIRTY, pf.TransportConfig(px_size_um=0.5, min_area_um2=37.0))
    dropped = pf.compare(DIRTY, DIRTY, pf.TransportConfig(px_size_um=0.5, min_area_um2=38.0))
    assert kept.M_source - dropped.M_source == disc(SHAPE, (30, 75), 7).sum() == 149


def test_a_mask_that_is_clean_has_no_notice() -> None:
    found = pf.compare(BODY, np.roll(BODY, 2, 1), pf.TransportConfig(fill_holes=True, largest=True, min_area_um2=3.0))
    assert not found.notices


def test_an_inverted_mask_is_inverted_first() -> None:
    mask = clean_mask(Mask(~BODY), invert=True, keep_largest=True)
    assert (mask.values == BODY).all()
    assert mask.history == ("inverted", "kept the largest of 1 objects")


@pytest.mark.parametrize("option", [{"invert": True}, {"min_area_um2": 5.0}])
def test_densities_are_not_cleaned(option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"mass_mode='intensity', whose images are not masks.*threshold"):
        pf.TransportConfig(mass_mode="intensity", **option)  # type: ignore[arg-type]


@pytest.mark.parametrize("area", [0, -1.0, float("nan"), "ten"])
def test_an_area_is_positive(area: object) -> None:
    with pytest.raises(ConfigError, match="min_area_um2"):
        pf.TransportConfig(min_area_um2=area)  # type: ignore[arg-type]


def test_the_command_line_cleans_and_refuses(tmp_path: Path) -> None:
    for name, mask in (("a.npy", DIRTY), ("b.npy", np.roll(DIRTY, 1, 1))):
        np.save(tmp_path / name, mask)
    pair = [str(tmp_path / name) for name in ("a.npy", "b.npy")]
    words = ["compare", *pair, "--out", str(tmp_path / "out"), "--no-report"]
    assert CliRunner().invoke(app, [*words, "--largest", "--fill-holes"]).exit_code == 0
    assert pf.load(tmp_path / "out").M_source == BODY.sum()
    bad = CliRunner().invoke(app, ["compare", *pair, "--out", str(tmp_path / "bad"), "--min-area-um2", "-3"])
    assert (bad.exit_code, "--min-area-um2" in bad.output) == (2, True)
    assert not (tmp_path / "bad").exists()


def test_a_run_settles_its_reach_on_clean_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.cohort.run.runner.LocalExecutor", InProcessExecutor)
    for k in range(2):
        np.save(tmp_path / f"t{k}.npy", np.roll(DIRTY | disc(SHAPE, (45, 75), 13), k, 1))
    dirty = run_cohort(str(tmp_path / "*.npy"), tmp_path / "dirty")
    clean = run_cohort(str(tmp_path / "*.npy"), tmp_path / "clean", pf.TransportConfig(largest=True, fill_holes=True))
    assert dirty.reach is not None
    assert clean.reach is not None
    assert ResultStore(tmp_path / "clean").table().M_source[0] < ResultStore(tmp_path / "dirty").table().M_source[0]
    again = run_cohort(str(tmp_path / "*.npy"), tmp_path / "clean", pf.TransportConfig(largest=True, fill_holes=True))
    assert (again.done, again.skipped) == (0, 1)
    other = run_cohort(str(tmp_path / "*.npy"), tmp_path / "clean", pf.TransportConfig(largest=True))
    assert other.done == 1
