"""Along a series of turned frames a comparison may start from the one before, also if alignment extends the canvas."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import pairframe as pf
from pairframe.alignment import Canvas, Similarity, resample
from pairframe.errors import StartError
from pairframe.testing import growing_embryo
from pairframe.types import Bool

CONFIG = pf.TransportConfig(align="rigid", tol=1e-7)


@pytest.fixture(scope="module")
def frames() -> list[Bool]:
    """A growing embryo that turns by 20 degrees from frame to frame."""
    found = []
    for number, frame in enumerate(growing_embryo(3, (96, 200))):
        turn = Similarity(-20.0 * number, (0.0, 0.0), False, 1.0, (48.0, 100.0))
        found.append(resample(frame, 1.0, turn, Canvas((260, 260), 1.0, (80, 30))) > 0.5)
    return found


def cropped(frame: Bool) -> Bool:
    rows, columns = np.flatnonzero(frame.any(axis=1)), np.flatnonzero(frame.any(axis=0))
    return frame[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


@pytest.mark.parametrize("is_tight", [False, True])
def test_a_warm_start_gives_the_answer_of_a_cold_one(frames: list[Bool], is_tight: bool) -> None:
    images = [cropped(frame) if is_tight else frame for frame in frames]
    before, canvases = None, []
    for source, target in pairwise(images):
        cold, warm = pf.compare(source, target, CONFIG), pf.compare(source, target, CONFIG, init=before)
        assert cold.pose == warm.pose
        assert warm.status == "converged"
        assert warm.total_mass_created == pytest.approx(cold.total_mass_created, rel=1e-3)
        assert warm.objective == pytest.approx(cold.objective, rel=1e-6)
        np.testing.assert_allclose(warm.mass_destroyed, cold.mass_destroyed, atol=1e-3)
        before = warm
        canvases.append(warm.transform.canon_shape_hw)
    assert (canvases[0] != canvases[1]) == is_tight


def test_masks_compared_as_given_still_need_the_same_canvas(frames: list[Bool]) -> None:
    before = pf.compare(frames[0], frames[1])
    with pytest.raises(StartError, match="canvas"):
        pf.compare(frames[0][1:], frames[1][1:], init=before)
