"""All engines say the same: the shipped suite, for every engine of ours."""

from __future__ import annotations

from pairframe.testing import EngineSuite


class TestGrid(EngineSuite):
    engine = "grid"


class TestOracle(EngineSuite):
    engine = "oracle"
