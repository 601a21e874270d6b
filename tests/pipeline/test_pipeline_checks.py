"""Input is validated at the door and not again."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import pairframe as pf
from pairframe.masks import arrays
from pairframe.testing import disc

A, B = disc((40, 50), (18, 20), 8), disc((40, 50), (22, 26), 9)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often an image was checked, by the name that the check was given."""
    pf.compare(A, B)  # load every module
    found: Counter[str] = Counter()
    check = arrays.checked_image

    def counted(given: object, name: str) -> Any:
        found[name] += 1
        return check(given, name)

    for name, module in list(sys.modules.items()):
        if name.startswith("pairframe.") and getattr(module, "checked_image", None) is check:
            monkeypatch.setattr(module, "checked_image", counted)
    return found


@pytest.mark.parametrize("config", [{}, {"downsample_factor": 2}, {"mass_mode": "boundary_band(2)", "px_size_um": 0.5}])
def test_a_comparison_checks_each_mask_twice_at_most(checked: Counter[str], config: dict[str, Any]) -> None:
    pf.compare(A, B, pf.TransportConfig(**config))
    assert checked["the mask"] == 2  # each as it comes in
    assert checked.total() <= 4  # and each on the work grid


def test_a_mask_is_not_checked_again_by_a_comparison(checked: Counter[str]) -> None:
    masks = [pf.Mask.from_array(array, px_size_um=2.0) for array in (A, B)]
    checked.clear()
    frame = pf.compare(*masks).transform
    assert checked["the mask"] == 0
    checked.clear()
    pf.compare(*masks, transform=frame)
    assert checked.total() <= 2


def test_the_frame_still_checks_its_own_input() -> None:
    frame = pf.GridTransform.from_pair(A, B, 2)
    bad = np.where(A, np.nan, 0.0)
    for call in (lambda: frame.to_work(bad), lambda: pf.GridTransform.from_pair(A, bad, 2)):
        with pytest.raises(pf.errors.MaskError, match="finite values"):
            call()
    np.testing.assert_array_equal(frame.pool(A.astype(float)), frame.to_work(A))
