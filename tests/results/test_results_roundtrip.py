"""What was saved comes back bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.results_equal import SHAPE, SOURCE, TARGET, differences, small_result, unsolved_result

import pairframe as pf
from pairframe.errors import StoreError
from pairframe.results import TransportResult
from pairframe.testing import disc, growing_embryo

CASES = {
    "defaults": lambda: small_result(px_size_um=0.65),
    "blocks in a bucket": lambda: small_result(
        downsample_factor=3, crop_policy="bucketed", bucket_shapes=((16, 20),), coord_scale=0.1
    ),
    "balanced, reach is infinite": lambda: pf.compare(
        SOURCE, np.roll(SOURCE, 3, 1), pf.TransportConfig(penalty="balanced")
    ),
    "two penalties, a fixed box": lambda: small_result(
        penalty=("kl", "tv"), crop_policy="fixed", override_pair_bbox=pf.BoxYX(2, 28, 1, 39), reach_um=9.0
    ),
    "not converged": lambda: small_result(max_iterations=1, tol=1e-12),
    "empty source": unsolved_result,
    "empty target": lambda: pf.compare(SOURCE, np.zeros(SHAPE, bool)),
    "intensities with a notice": lambda: pf.compare(
        pf.Mask.from_array(SOURCE * 0.1, px_size_um=2.0, density=True),
        pf.Mask.from_array(TARGET * 0.3, density=True),
        pf.TransportConfig(mass_mode="intensity", debias=False),
    ),
    "single precision": lambda: small_result(dtype="float32", tol=1e-4),
    "strain": lambda: small_result(strain=True, downsample_factor=2, blur_um=4.0),
    "strain of an empty target": lambda: pf.compare(SOURCE, np.zeros(SHAPE, bool), pf.TransportConfig(strain=True)),
    "one pixel": lambda: pf.compare(np.ones((1, 1)), np.ones((1, 1))),
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_every_bit_comes_back(make: object, tmp_path: Path) -> None:
    result: TransportResult = make()  # type: ignore[operator]
    result.save(tmp_path / "out")
    again = pf.load(tmp_path / "out")
    assert differences(again, result) == []
    assert again.summary() == result.summary()
    assert not again.mass_created.flags.writeable


def test_even_the_sign_of_zero_and_the_bits_of_nan_come_back(tmp_path: Path) -> None:
    from dataclasses import replace

    result = unsolved_result()
    odd = np.full(result.mass_created.shape, -0.0)
    nan = np.full(result.velocity_field.shape, np.nan)
    nan.view(np.uint64)[...] ^= np.uint64(1 << 63) | np.uint64(5)
    result = replace(result, mass_destroyed=odd, velocity_field=nan)
    result.save(tmp_path)
    assert differences(pf.load(tmp_path), result) == []


def test_a_result_that_does_not_agree_with_itself_is_not_saved(tmp_path: Path) -> None:
    from dataclasses import replace

    result = unsolved_result()
    with pytest.raises(StoreError, match=r"maps add up to its totals, got total_mass_created is 113\.0, but"):
        replace(result, mass_created=result.mass_created / 2).save(tmp_path / "out")
    assert not list(tmp_path.rglob("*.zip"))


def test_a_cost_far_below_the_blur_is_saved_in_spite_of_its_rounding(tmp_path: Path) -> None:
    from dataclasses import replace

    # A blur of a fifth of a work pixel: nothing moves, and the cost is what is left of sums that cancel.
    masks = (disc((300, 300), (150, 150), radius) for radius in (60, 120))
    result = pf.compare(*masks, pf.TransportConfig(downsample_factor=10))
    result.save(tmp_path)
    assert pf.load(tmp_path).total_transport_cost_um2 == result.total_transport_cost_um2 < 1e-3
    with pytest.raises(StoreError, match="total_transport_cost_um2"):
        replace(result, cost_source=result.cost_source + 1.0).save(tmp_path / "other")


def test_a_loaded_result_can_start_the_next_comparison(tmp_path: Path) -> None:
    result = small_result()
    result.save(tmp_path)
    warm = pf.compare(SOURCE, TARGET, init=pf.load(tmp_path))
    assert warm.iterations <= result.iterations
    assert warm.objective == pytest.approx(result.objective, rel=1e-6)


def test_a_folder_holds_many_results_by_name(tmp_path: Path) -> None:
    a, b = unsolved_result(4), unsolved_result(7)
    a.save(tmp_path, pair_id="a")
    b.save(tmp_path, pair_id="b")
    assert differences(pf.load(tmp_path, "a"), a) == []
    assert differences(pf.load(tmp_path, "b"), b) == []


def test_a_full_embryo_pair_stays_small_on_disk(tmp_path: Path) -> None:
    early, late = growing_embryo(6)[1:4:2]
    for factor, limit in ((1, 1_500_000), (2, 1_000_000), (4, 500_000)):
        out = tmp_path / str(factor)
        pf.compare(early, late, pf.TransportConfig(downsample_factor=factor)).save(out)
        assert sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) < limit


def test_pairframe_stays_light_until_a_result_is_kept() -> None:
    code = "import sys, pairframe as pf; pf.TransportResult, pf.load; print([n for n in ('pandas', 'pyarrow', 'xarray', 'zarr', 'matplotlib') if n in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert answer.strip() == "[]"
