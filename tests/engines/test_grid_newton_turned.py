"""A Newton step between a huge and a tiny mass is the same whichever side is eliminated."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines.grid import newton
from pairframe.engines.grid.level import Level
from pairframe.problem import KL, Penalty, TransportProblem
from pairframe.testing import disc


@pytest.mark.parametrize("penalty", [KL(400.0), KL(1e5)])
def test_a_step_does_not_depend_on_the_side_that_is_eliminated(
    penalty: Penalty, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge, tiny = disc((40, 40), (20, 20), 14) * 1.0, disc((40, 40), (21, 23), 5) * 1.0
    level = Level(TransportProblem(huge, tiny, 1.0, penalty, penalty))
    assert level.mass_a.size > 4 * level.mass_b.size
    point = level.complete(level.answer(np.zeros(level.mass_a.size), 0.0))
    for _ in range(100):
        point = level.complete(level.answer(point.next_f, point.next_shift))
    turned = newton.NewtonSteps(level).step(point)
    monkeypatch.setattr(newton, "_MANY_MORE", np.inf)
    straight = newton.NewtonSteps(level).step(point)
    assert turned is not None
    assert straight is not None
    assert turned.dual > point.dual
    assert turned.residual < point.residual
    assert turned.dual == pytest.approx(straight.dual, rel=1e-6)
    np.testing.assert_allclose(turned.potentials.a, straight.potentials.a, atol=1e-3)
