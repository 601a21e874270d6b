"""Results travel between processes unchanged, and leave nothing behind."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import pairframe as pf
from pairframe.parallel.parcel import pack
from pairframe.pipeline import iter_results
from pairframe.testing import disc

SHAPE = (30, 40)
MASKS = [disc(SHAPE, (15, x), 6) for x in (10, 12, 15, 19, 24)]
PAIRS = list(pairwise(MASKS)) * 3


def leftovers() -> set[Path]:
    return set(Path("/dev/shm").glob("pairframe-*"))


def test_a_parcel_holds_what_was_packed_frozen_and_its_file_is_gone_when_opened() -> None:
    result = pf.compare(*PAIRS[0])
    parcel = pack([result, result])
    assert Path(parcel.file).exists()
    again, _ = parcel.open()
    assert not Path(parcel.file).exists()
    for name in ("mass_created", "mass_destroyed", "velocity_field", "cost_source"):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name))
        assert not getattr(again, name).flags.writeable
    np.testing.assert_array_equal(again.work.potential_source, result.work.potential_source)
    assert (again.status, again.divergence) == (result.status, result.divergence)


def test_nothing_is_left_when_a_pair_fails_or_nobody_wants_the_rest() -> None:
    before = leftovers()
    bad = [*PAIRS[:5], (MASKS[0], np.full(SHAPE, np.nan)), *PAIRS[5:]]
    with pytest.raises(pf.PairframeError, match="finite"):
        pf.compare_many(bad, jobs=2)
    some = iter_results(PAIRS, jobs=2)
    next(some)
    some.close()
    assert leftovers() == before
