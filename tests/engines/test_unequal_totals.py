"""A huge mass against a tiny one: converged means that the tiny one's plan is right, not that the huge one hides it."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines import SolveOptions, Status, get_engine
from pairframe.problem import KL, Certificate, TransportProblem
from pairframe.testing import disc

SHAPE = (24, 24)


def problem(ratio: float) -> TransportProblem:
    return TransportProblem(
        disc(SHAPE, (11.0, 10.0), 6.0).astype(float) * ratio,
        disc(SHAPE, (12.0, 14.0), 5.0).astype(float),
        epsilon=4.0,
        penalty_a=KL(400.0),
        penalty_b=KL(400.0),
        reference="heat",
    )


@pytest.mark.parametrize("engine", ["grid", "pot", "ott", "torch"])
@pytest.mark.parametrize("ratio", [1e3, 1e6])
def test_what_converged_is_right_for_the_smaller_mass(engine: str, ratio: float) -> None:
    here = problem(ratio)
    truth = get_engine("oracle").run(here, SolveOptions(tol=1e-11, max_iterations=100_000))
    found = get_engine(engine).run(here, SolveOptions(tol=1e-6))
    assert found.certificate.meets(1e-6) == (found.status is Status.converged)
    if found.status is Status.converged:
        off = max(
            np.abs(found.marginal_a - truth.marginal_a).sum() / truth.marginal_a.sum(),
            np.abs(found.marginal_b - truth.marginal_b).sum() / truth.marginal_b.sum(),
        )
        assert off < 1e-4


def test_an_error_small_beside_the_huge_mass_alone_does_not_meet_tol() -> None:
    said = Certificate(1.0, 1.0, 0.0, 0.0, marginal_error=1e-9, smaller_side_error=1e-2)
    assert not said.meets(1e-6)
    assert said.error == 1e-2
