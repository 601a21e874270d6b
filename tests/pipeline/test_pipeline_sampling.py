"""Support sampling is asked for, seeded, recorded, and breaks no promise."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines.sampling import sample_support
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.testing import disc

CANVAS = (48, 60)
SOURCE = disc(CANVAS, (22.0, 24.0), 13.0)
TARGET = disc(CANVAS, (24.0, 33.0), 15.0)
SAMPLED = TransportConfig(backend="oracle", max_support_points=150, blur_um=3.0, reach_um=20.0, max_iterations=5000)


def test_the_books_balance_on_every_pixel() -> None:
    result = compare(SOURCE, TARGET, SAMPLED)
    result.check_books()
    assert result.M_source == SOURCE.sum()
    assert (result.mass_destroyed[~SOURCE] == 0).all()
    assert (result.mass_created[~TARGET] == 0).all()
    assert result.velocity_valid[SOURCE].all()
    assert result.work.cost_source.sum() == pytest.approx(result.work.cost_target.sum(), rel=1e-9)


def test_it_is_told() -> None:
    result = compare(SOURCE, TARGET, SAMPLED)
    assert any(
        f"150 points stand for {SOURCE.sum()} source pixels" in str(notice) and "seed 0" in str(notice)
        for notice in result.notices
    ), result.notices
    assert not compare(SOURCE, TARGET, TransportConfig(backend="oracle", max_support_points=4000)).notices


def test_a_mask_against_itself_shows_nothing_sampled_or_not() -> None:
    result = compare(SOURCE, SOURCE, SAMPLED)
    assert np.nanmax(np.abs(result.velocity_field)) == 0.0
    assert result.total_mass_destroyed <= 0.05 * result.M_source


def test_it_is_near_the_whole_answer_and_the_seed_decides() -> None:
    whole = compare(SOURCE, TARGET, TransportConfig(blur_um=3.0, reach_um=20.0))
    one, same, other = (
        compare(SOURCE, TARGET, TransportConfig(**{**_fields(SAMPLED), "seed": seed})) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.velocity_field, same.velocity_field)
    assert np.nanmax(np.abs(one.velocity_field - other.velocity_field)) > 0.01  # px
    assert one.total_mass_moved == pytest.approx(whole.total_mass_moved, rel=0.05)
    gap = np.nanmean(np.hypot(*(one.velocity_field - whole.velocity_field)[SOURCE].T))
    assert gap < 1.0  # px


def test_every_pixel_has_an_owner_of_its_own_sample() -> None:
    sample = sample_support(SOURCE * 1.0, 100, seed=3)
    assert ((sample.owner >= 0) == SOURCE).all()
    counts = np.bincount(sample.owner[SOURCE], minlength=SOURCE.size).reshape(CANVAS)
    assert np.array_equal(counts, sample.mass)


def _fields(config: TransportConfig) -> dict[str, object]:
    return {
        name: getattr(config, name)
        for name in ("backend", "max_support_points", "blur_um", "reach_um", "max_iterations")
    }
