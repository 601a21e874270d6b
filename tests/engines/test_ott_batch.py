"""Many problems by the OTT engine: side by side or one by one, the answers are the same, and in order."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="the OTT engine needs jax, which is not installed")
pytest.importorskip("ott", reason="the OTT engine needs ott-jax, which is not installed", exc_type=ImportError)

from pairframe.engines import Solution, SolveOptions, Status
from pairframe.engines.ott import OttEngine, batch, solve_batch
from pairframe.engines.ott.batch import plan_groups
from pairframe.engines.ott.layout import Layout
from pairframe.errors import SolveOptionsError, UnsupportedProblemError
from pairframe.problem import Penalty, TransportProblem
from pairframe.testing import disc

TIGHT = SolveOptions(tol=1e-8, max_iterations=6000)


def moved(step: int, epsilon: float = 2.0, lam: float = 200.0) -> TransportProblem:
    """A disc that moves by `step` pixels and grows; the further, the more iterations."""
    a, b = disc((32, 40), (14, 12), 5), disc((32, 40), (14 + step // 4, 14 + step), 5.6)
    return TransportProblem(a.astype(float), b.astype(float), epsilon, Penalty("kl", lam), Penalty("kl", lam))


def assert_equal(one: Solution, other: Solution, tol: float) -> None:
    assert one.problem is other.problem
    assert one.status is other.status is Status.converged
    assert one.certificate.primal_upper == pytest.approx(other.certificate.primal_upper, rel=tol)
    for name in ("marginal_a", "marginal_b"):
        assert np.abs(getattr(one, name) - getattr(other, name)).max() <= 10 * tol * getattr(other, name).max()


@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-8), pytest.param("float32", 1e-4, marks=pytest.mark.slow)])
def test_side_by_side_equals_one_by_one(dtype: str, tol: float) -> None:
    options = SolveOptions(tol=tol, max_iterations=6000, dtype=dtype)
    problems = [moved(0, lam=20.0), moved(17, epsilon=0.5), moved(9)]
    engine = OttEngine("points")
    together = solve_batch(problems, options, flavour="vmapped", engine=engine)
    apart = solve_batch(problems, options, engine=engine)
    for one, other in zip(together, apart, strict=True):
        assert_equal(one, other, tol)
    assert len({found.iterations for found in together}) > 1  # each stops when it is certified, not with the last
    # Side by side, chunks are as long as the shortest one wanted: errors are looked at more often, never much less.
    for one, other in zip(together, apart, strict=True):
        assert one.iterations <= 1.3 * other.iterations


def test_problems_of_different_shapes_come_back_in_order() -> None:
    large = TransportProblem(
        np.pad(np.ones((12, 30)), 4), np.pad(np.ones((20, 14)), ((0, 0), (0, 24))), 3.0, *[Penalty("kl", 50.0)] * 2
    )
    problems = [moved(1), large, moved(3)]
    engine = OttEngine("points")
    found = solve_batch(problems, TIGHT, flavour="vmapped", engine=engine)
    for one, problem in zip(found, problems, strict=True):
        assert_equal(one, engine.run(problem, TIGHT), 1e-8)


def test_a_member_that_cannot_finish_does_not_spoil_the_others() -> None:
    options = SolveOptions(tol=1e-8, max_iterations=260)
    hard, easy = moved(15, epsilon=0.05, lam=1e4), moved(1, epsilon=20.0)
    found = solve_batch([hard, easy], options, flavour="vmapped", engine=OttEngine("points"))
    assert [one.status for one in found] == [Status.max_iterations, Status.converged]
    assert all(one.iterations <= 260 for one in found)


def test_groups_share_a_layout_fit_the_limit_and_are_powers_of_two() -> None:
    small = Layout("points", (64, 64), 0, "sqeuclidean", (False, False))
    large = Layout("points", (512, 512), 0, "sqeuclidean", (False, False))
    layouts = [small] * 5 + [large] + [small] * 2 + [large] * 2
    limit = large.bytes("float64")
    groups = plan_groups(layouts, "float64", limit)
    assert sorted(number for group in groups for number in group) == list(range(10))
    assert [len(group) for group in groups] == [4, 2, 1, 1, 1, 1]
    for group in groups:
        assert len({layouts[number] for number in group}) == 1
        assert len(group) * layouts[group[0]].bytes("float64") <= limit
    assert all(len(group) == 1 for group in plan_groups(layouts, "float64", 1))


def test_auto_goes_side_by_side_only_where_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [moved(0), moved(1)]
    engine = OttEngine("points")
    together = []
    monkeypatch.setattr(
        batch,
        "_march_together",
        lambda marches, device, dtype: together.append(len(marches)),
    )
    monkeypatch.setattr(batch, "_CACHE_BYTES", 1)
    assert all(one.status is Status.converged for one in solve_batch(problems, flavour="auto", engine=engine))
    assert together == []
    monkeypatch.setattr(batch, "_CACHE_BYTES", 10**9)
    solve_batch(problems, flavour="auto", engine=engine)
    assert together == [2]


def test_nothing_in_gives_nothing_out() -> None:
    for flavour in batch.FLAVOURS:
        assert solve_batch([], flavour=flavour) == []


def test_bad_flavours_and_unsupported_members_are_refused() -> None:
    with pytest.raises(SolveOptionsError, match="a flavour: sequential, vmapped, auto, got 'fast'"):
        solve_batch([moved(0)], flavour="fast")
    partial = TransportProblem(moved(0).mass_a, moved(0).mass_b, 2.0, Penalty("kl", 5.0), Penalty("partial", 5.0))
    with pytest.raises(UnsupportedProblemError, match='number 1: penalty "partial"'):
        solve_batch([moved(0), partial])
