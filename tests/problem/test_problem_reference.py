"""The three reference measures, and the lattice sums of the heat kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pairframe.errors import ProblemError
from pairframe.problem import KL, TransportProblem, log_lattice_sum, log_reference

MASS = np.array([[0.0, 2.0, 3.0], [1.0, 0.0, 4.0]])


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.99, 1.0, 1.01, 2.99, 3.0, 4.0, 30.0])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_the_lattice_sum_is_the_sum_over_the_lattice(epsilon: float, metric: str) -> None:
    reach = 70 if metric == "sqeuclidean" else min(1200, int(40 * epsilon) + 40)
    k = np.arange(-reach, reach + 1.0)
    squared = k[:, None] ** 2 + k**2
    cost = squared if metric == "sqeuclidean" else np.sqrt(squared)
    assert log_lattice_sum(epsilon, metric) == pytest.approx(math.log(np.exp(-cost / epsilon).sum()), rel=1e-13)


def test_the_heat_reference_of_a_wide_kernel_is_about_pi_epsilon() -> None:
    assert log_lattice_sum(1000.0) == pytest.approx(math.log(1000 * math.pi), rel=1e-15)


def test_each_reference_is_what_its_name_says() -> None:
    heat = log_reference(MASS, "heat", 4.0, "sqeuclidean", 5.0)
    product = log_reference(MASS, "product", 4.0, "sqeuclidean", 5.0)
    counting = log_reference(MASS, "counting", 4.0, "sqeuclidean", 5.0)
    on = MASS > 0
    z = math.exp(log_lattice_sum(4.0))
    np.testing.assert_allclose(np.exp(heat)[on], np.sqrt(MASS[on] / z))
    np.testing.assert_allclose(np.exp(product)[on], MASS[on] / (10.0 * 5.0) ** 0.25)
    assert (counting[on] == 0).all()
    for log_u in (heat, product, counting):
        assert (log_u[~on] == -np.inf).all()


@pytest.mark.parametrize("reference", ["heat", "product"])
def test_heat_and_product_scale_with_the_masses(reference: str) -> None:
    penalty = KL(9.0)
    one = TransportProblem(MASS, MASS[::-1], 4.0, penalty, penalty, reference)
    many = TransportProblem(1e6 * MASS, 1e6 * MASS[::-1], 4.0, penalty, penalty, reference)
    assert many.total_reference == pytest.approx(1e6 * one.total_reference, rel=1e-12)


def test_the_product_reference_has_the_geometric_mean_of_the_masses() -> None:
    penalty = KL(9.0)
    problem = TransportProblem(MASS, 7 * MASS[::-1], 4.0, penalty, penalty, "product")
    assert problem.total_reference == pytest.approx(10 * math.sqrt(7.0), rel=1e-13)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ProblemError, match="heat, product, counting, got 'lebesgue'"):
        log_reference(MASS, "lebesgue", 1.0, "sqeuclidean", 1.0)
    with pytest.raises(ProblemError, match="sqeuclidean, euclidean, got 'cosine'"):
        log_lattice_sum(1.0, "cosine")


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize("spacing", [(1.5,), (0.5, 2.0), (2.5, 1.0, 1.0)])
def test_the_lattice_sum_of_any_spacing_is_the_sum_over_the_lattice(
    epsilon: float, metric: str, spacing: tuple[float, ...]
) -> None:
    longest = 40.0 * epsilon if metric == "euclidean" else math.sqrt(40.0 * epsilon)
    axes = [side * np.arange(-math.ceil(longest / side), math.ceil(longest / side) + 1) for side in spacing]
    squared = sum(x**2 for x in np.meshgrid(*axes, indexing="ij", sparse=True))
    cost = squared if metric == "sqeuclidean" else np.sqrt(squared)
    expected = math.log(np.exp(-cost / epsilon).sum())
    assert log_lattice_sum(epsilon, metric, spacing) == pytest.approx(expected, rel=1e-12)
