"""A cohort says the same with every engine, each in worker processes of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe.cohort import run_cohort
from pairframe.results import ResultStore
from pairframe.testing import growing_embryo

CONFIG = pf.TransportConfig(downsample_factor=4, penalty="kl")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pot", "ott", "torch", "oracle"])
def test_every_engine_can_do_a_cohort(tmp_path: Path, backend: str) -> None:
    for frame, mask in enumerate(growing_embryo(4, shape_hw=(64, 144))):
        (tmp_path / "masks").mkdir(exist_ok=True)
        pf.write_mask(pf.Mask.from_array(mask), tmp_path / "masks" / f"t{frame}.png")
    for name in ("grid", backend):
        summary = run_cohort(tmp_path / "masks", tmp_path / name, replace(CONFIG, backend=name), jobs=1)
        assert (summary.done, summary.failed, summary.uncertified) == (3, 0, 0)
    ours, theirs = (ResultStore(tmp_path / name).table() for name in ("grid", backend))
    assert set(theirs.backend) == {backend}
    for column, tolerance in (("objective", 1e-6), ("percent_created", 1e-4), ("mean_displacement_um", 1e-4)):
        np.testing.assert_allclose(theirs[column], ours[column], rtol=tolerance)
