"""All engines say the same: the shipped suite, for every engine of ours."""

from __future__ import annotations

from pairframe.testing import EngineSuite


class TestGrid(EngineSuite):
    engine = "grid"


class TestPot(EngineSuite):
    engine = "pot"


class TestOtt(EngineSuite):
    engine = "ott"


class TestTorch(EngineSuite):
    engine = "torch"


class TestOracle(EngineSuite):
    engine = "oracle"
