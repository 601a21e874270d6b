"""The OTT engine gives the oracle's answer on every objective it takes, and says so when it cannot."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="the OTT engine needs jax, which is not installed")
pytest.importorskip("ott", reason="the OTT engine needs ott-jax, which is not installed", exc_type=ImportError)

from pairframe.engines import Solution, SolveOptions, Status, TraceRecord, get_engine, solve
from pairframe.engines.ott import OttEngine, devices, layout
from pairframe.engines.ott.bridge import OttProblem
from pairframe.engines.ott.engine import advance_one
from pairframe.engines.ott.layout import bucket, choose_layout
from pairframe.engines.ott.march import March
from pairframe.engines.ott.relaxation import Relaxation
from pairframe.errors import ArgumentError, StartError, UnsupportedProblemError
from pairframe.problem import KL, TransportProblem, penalty_of
from pairframe.testing import disc, embryo, tiny_and_huge_embryo

TIGHT = SolveOptions(tol=1e-8, max_iterations=6000)
SINGLE = SolveOptions(tol=1e-4, max_iterations=6000, dtype="float32")
GB = 10**9


def pair(a: np.ndarray, b: np.ndarray, epsilon: float, lam: float, **more: str) -> TransportProblem:
    return TransportProblem(a.astype(float), b.astype(float), epsilon, KL(lam), KL(lam), **more)


def discs(epsilon: float, lam: float, **more: str) -> TransportProblem:
    return pair(disc((64, 64), (50, 45), 9), disc((64, 64), (44, 54), 7), epsilon, lam, **more)


def pooled(mask: np.ndarray, factor: int = 4) -> np.ndarray:
    h, w = mask.shape
    return mask.reshape(h // factor, factor, w // factor, factor).sum(axis=(1, 3)).astype(float)


def canonical(epsilon: float, lam: float = 10.0, metric_scale: float = 576.0) -> TransportProblem:
    """Two embryos on the canonical grid, downsampled by 4, with coord_scale 1/576."""
    small = embryo(length_px=240, thickness_px=22, yolk_px=40, bend=1.2)
    large = embryo(length_px=300, thickness_px=24, yolk_px=36, bend=0.4)
    return pair(pooled(small), pooled(large), epsilon * metric_scale**2, lam * metric_scale**2)


def holes(seed: int = 3, kinds: tuple[str, str] = ("kl", "kl"), **more: str) -> TransportProblem:
    rng = np.random.default_rng(seed)
    a, b = (rng.random((12, 20)) + 0.05) * (rng.random((12, 20)) < 0.5), (rng.random((12, 20)) + 0.05)
    b *= rng.random((12, 20)) < 0.6
    b *= (1.0 if kinds == ("balanced", "balanced") else 3.0) * a.sum() / b.sum()
    sides = [penalty_of(kind, lam) for kind, lam in zip(kinds, (30.0, 70.0), strict=True)]
    return TransportProblem(a, b, 2.0, *sides, **more)


def assert_same(found: Solution, truth: Solution, objective: float, marginals: float) -> None:
    assert found.status is Status.converged, found
    assert found.certificate.primal_upper == pytest.approx(truth.certificate.primal_upper, rel=objective)
    for name in ("marginal_a", "marginal_b"):
        expected = getattr(truth, name)
        assert np.abs(getattr(found, name) - expected).max() <= marginals * expected.max()
    for name, on in (("potential_a", found.problem.support_a), ("potential_b", found.problem.support_b)):
        assert np.isfinite(getattr(found, name)[on]).all()
        assert np.isnan(getattr(found, name)[~on]).all()


# --- the same answer -------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [10.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.0])
def test_discs_in_raw_coordinates_are_the_oracles(epsilon: float, lam: float) -> None:
    problem = discs(epsilon, lam)
    truth = solve(problem, "oracle", replace(TIGHT, tol=1e-10))
    assert_same(OttEngine().run(problem, TIGHT), truth, objective=1e-6, marginals=1e-5)
    single = OttEngine().run(problem, SINGLE)
    assert single.dtype == "float32"
    assert_same(single, truth, objective=1e-3, marginals=1e-3)


@pytest.mark.parametrize("epsilon", [1e-4, 1e-5])
def test_canonical_masks_at_the_production_setting_are_the_oracles(epsilon: float) -> None:
    problem = canonical(epsilon)
    assert problem.total_b / problem.total_a > 1.1
    truth = solve(problem, "oracle", TIGHT)
    assert_same(OttEngine().run(problem, TIGHT), truth, objective=1e-6, marginals=1e-5)
    assert_same(OttEngine().run(problem, SINGLE), truth, objective=1e-3, marginals=1e-3)


def test_very_unequal_masses_near_balance_converge() -> None:
    tiny, huge = (pooled(mask) for mask in tiny_and_huge_embryo())
    for epsilon in (1e-4, 1e-5):
        found = OttEngine().run(pair(tiny, huge, epsilon * 576**2, 10.0 * 576**2), SolveOptions(tol=1e-6))
        assert found.status is Status.converged
        assert found.iterations < 1000


@pytest.mark.parametrize(
    "kinds",
    [
        ("kl", "kl"),
        ("kl", "balanced"),
        pytest.param(("balanced", "kl"), marks=pytest.mark.slow),  # a program of its own to compile
        ("balanced", "balanced"),
    ],
)
@pytest.mark.parametrize("reference", ["heat", "product", "counting"])
def test_every_penalty_and_reference(kinds: tuple[str, str], reference: str) -> None:
    problem = holes(kinds=kinds, reference=reference)
    truth = solve(problem, "oracle", replace(TIGHT, tol=1e-10))
    assert_same(OttEngine().run(problem, TIGHT), truth, objective=1e-6, marginals=1e-5)


@pytest.mark.parametrize("geometry", ["grid", "points", "online"])
def test_every_geometry_gives_the_same_answer_with_holes(geometry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_ONLINE_ROWS", (32,))
    problem = holes(seed=8)
    truth = solve(problem, "oracle", replace(TIGHT, tol=1e-10))
    assert_same(OttEngine(geometry).run(problem, TIGHT), truth, objective=1e-9, marginals=1e-7)


def test_the_euclidean_metric() -> None:
    problem = holes(seed=9, metric="euclidean")
    assert_same(OttEngine().run(problem, TIGHT), solve(problem, "oracle", TIGHT), objective=1e-6, marginals=1e-5)


@pytest.mark.parametrize("kind", ["one pixel each", "one pixel", "itself", "full canvas"])
def test_every_kind_of_support(kind: str) -> None:
    rng = np.random.default_rng(1)
    a, b = np.zeros((12, 20)), rng.random((12, 20)) * (rng.random((12, 20)) < 0.5)
    a[0, 0] = 1.7
    if kind == "one pixel each":
        b = np.zeros((12, 20))
        b[11, 19] = 0.4
    elif kind == "itself":
        a = b
    elif kind == "full canvas":
        a, b = rng.random((12, 20)) + 0.1, rng.random((12, 20)) + 0.1
    problem = pair(a, b, 2.5, 50.0)
    assert_same(OttEngine("grid").run(problem, TIGHT), solve(problem, "oracle", TIGHT), objective=1e-6, marginals=1e-5)


def test_padding_changes_nothing() -> None:
    problem = holes(seed=5)
    for geometry, shape in (("grid", (24, 32)), ("points", (184, 256))):
        tight = choose_layout(problem, "float64", GB, geometry)
        assert isinstance(tight, layout.Layout)
        results = []
        for used in (tight, replace(tight, shape=shape)):
            ott_problem = OttProblem(problem, used, "float64")
            with devices.on_device(devices.find_device("cpu"), "float64"):
                f, g, error = advance_one(ott_problem, March(ott_problem, TIGHT).next_chunk())
            assert not np.isnan(f).any()
            found = ott_problem.from_ott(f, g)
            results.append((found.f, found.g, error))
        assert tight.shape[0] < shape[0]
        assert tight.shape[1] < shape[1]
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


# --- how it gets there -----------------------------------------------------------------------


def test_a_budget_that_is_too_small_is_a_status_and_is_kept() -> None:
    found = OttEngine().run(discs(0.1, 100.0), SolveOptions(tol=1e-8, max_iterations=60))
    assert found.status is Status.max_iterations
    assert 0 < found.iterations <= 60
    assert found.certificate.marginal_error > 1e-8
    assert np.isfinite(found.marginal_a).all()


def test_float32_that_cannot_reach_tol_stops_and_says_so() -> None:
    found = OttEngine().run(discs(0.1, 100.0), SolveOptions(tol=1e-10, max_iterations=100_000, dtype="float32"))
    assert found.status is Status.max_iterations
    assert found.iterations < 10_000
    assert found.certificate.marginal_error < 1e-3


def test_a_warm_start_is_used() -> None:
    cold = OttEngine().run(discs(1.0, 100.0), TIGHT)
    warm = OttEngine().run(discs(1.0, 100.0), TIGHT, init=(cold.potential_a, cold.potential_b))
    assert warm.status is Status.converged
    assert warm.iterations < cold.iterations / 2
    with pytest.raises(StartError, match=r"shape \(64, 64\)"):
        OttEngine().run(discs(1.0, 100.0), TIGHT, init=(np.zeros((3, 3)), np.zeros((3, 3))))


def test_progress_sees_what_the_trace_keeps() -> None:
    seen: list[TraceRecord] = []
    found = OttEngine().run(discs(1.0, 100.0), TIGHT, progress=seen.append)
    assert tuple(seen) == found.trace
    assert found.trace[-1].marginal_error == found.certificate.marginal_error
    assert found.trace[-1].iterations == found.iterations
    assert (found.engine, found.device) == ("ott", "cpu")


def test_one_program_serves_a_bucket_at_any_epsilon_and_strength() -> None:
    from pairframe.engines.ott.compiled import advance

    OttEngine().run(discs(1.0, 100.0), TIGHT)
    programs = advance._cache_size()
    OttEngine().run(discs(3.0, 17.0), TIGHT)
    OttEngine().run(pair(disc((64, 64), (20, 45), 9), disc((64, 64), (14, 54), 7), 2.0, 50.0), TIGHT)
    assert advance._cache_size() == programs


def test_the_callers_precision_comes_back() -> None:
    import jax
    import jax.numpy as jnp

    for before in (False, True):
        with jax.enable_x64(before):
            for options in (TIGHT, SINGLE):
                assert OttEngine().run(discs(5.0, 100.0), options).status is Status.converged
                assert jax.config.jax_enable_x64 == before
                assert jnp.ones(2).dtype == (jnp.float64 if before else jnp.float32)


def test_the_momentum_is_youngs_and_a_step_too_far_is_taken_back() -> None:
    relaxation, rho = Relaxation("float64"), 0.99
    for step in range(2):
        assert relaxation.observe(rho ** (10 * step), 10)
    assert relaxation.momentum == pytest.approx(2 / (1 + math.sqrt(1 - rho)), rel=1e-6)
    assert not relaxation.observe(1e3, 10)
    assert relaxation.momentum == 1.0
    assert not relaxation.failed
    assert not relaxation.observe(math.nan, 10)
    assert relaxation.failed


@pytest.mark.parametrize(("dtype", "error", "stalled"), [("float32", 1e-4, True), ("float64", 1e-4, False)])
def test_only_rounding_ends_a_solve_before_its_budget(dtype: str, error: float, stalled: bool) -> None:
    relaxation = Relaxation(dtype)
    for _ in range(40):
        relaxation.observe(error, 20)
    assert relaxation.stalled is stalled


# --- layouts ---------------------------------------------------------------------------------


@given(st.integers(1, 100_000), st.sampled_from([2, 4]))
def test_buckets_hold_and_do_not_waste(size: int, per_octave: int) -> None:
    held = bucket(size, per_octave)
    assert held >= size
    assert held % 8 == 0
    assert held <= size * 2 ** (1 / per_octave) + 8
    assert bucket(held, per_octave) in (held, bucket(held + 1, per_octave))
    assert bucket(size + 1, per_octave) >= held


def test_the_geometry_follows_work_and_memory() -> None:
    full = np.ones((40, 60))
    dense = pair(full, full, 4.0, 100.0)
    chosen = [choose_layout(dense, "float64", limit) for limit in (GB, 4_000_000)]
    assert [one.geometry for one in chosen if isinstance(one, layout.Layout)] == ["grid", "online"]
    few = pair(disc((200, 300), (20, 20), 3), disc((200, 300), (190, 290), 3), 4.0, 100.0)
    sparse = choose_layout(few, "float64", GB)
    assert isinstance(sparse, layout.Layout)
    assert sparse.geometry == "points"
    refused = choose_layout(dense, "float64", 100_000)
    assert isinstance(refused, str)
    for part in ("2400 x 2400 support pixels", "GB, more than the limit of 0.0001 GB", "max_support_points"):
        assert part in refused


# --- what it refuses -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tv", "partial"])
def test_penalties_that_ott_cannot_do_are_refused(kind: str) -> None:
    problem = replace(discs(1.0, 10.0), penalty_b=penalty_of(kind, 10.0))
    assert OttEngine().supports(problem, TIGHT) == (
        f'penalty "{kind}": OTT relaxes marginals by "kl" only, or keeps them ("balanced")'
    )


def test_devices_are_found_or_refused() -> None:
    problem = discs(1.0, 10.0)
    assert OttEngine().supports(problem, replace(TIGHT, device="cpu")) is None
    assert OttEngine().run(problem, replace(TIGHT, device="cpu:0")).device == "cpu"
    for absent in ("nowhere", "cpu:99", "cpu:x"):
        reason = OttEngine().supports(problem, replace(TIGHT, device=absent))
        assert reason == f"device {absent!r}: expected a device that jax has here: cpu"
        with pytest.raises(ArgumentError, match="a device that jax has here"):
            OttEngine().run(problem, replace(TIGHT, device=absent))


def test_a_blur_far_beyond_the_reach_is_refused() -> None:
    reason = OttEngine().supports(discs(1000.0, 0.1), TIGHT)
    assert reason is not None
    assert "epsilon 1e+03 against marginal relaxations 0.1 and 0.1" in reason
    assert OttEngine().supports(discs(10.0, 1.0), TIGHT) is None


def test_unknown_or_unfit_geometries_are_refused() -> None:
    with pytest.raises(ArgumentError, match="a geometry: grid, points, online"):
        OttEngine("dense")
    reason = OttEngine("grid").supports(discs(1.0, 10.0, metric="euclidean"), TIGHT)
    assert reason is not None
    assert "a sum over the axes" in reason
    with pytest.raises(UnsupportedProblemError, match="a sum over the axes"):
        OttEngine("grid").run(discs(1.0, 10.0, metric="euclidean"), TIGHT)


# --- what loads, and what is kept ------------------------------------------------------------


def in_a_new_process(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_engine_loads_no_jax_before_it_solves() -> None:
    code = "import sys, pairframe.engines.ott as o; o.OttEngine(); print(sorted({'jax', 'ott'} & set(sys.modules)))"
    assert in_a_new_process(code) == "[]"


def test_a_missing_library_is_named_with_the_way_to_install_it() -> None:
    for ask in ("import pairframe.engines.ott", "pairframe.engines.get_engine('ott')"):
        code = f"""
import sys, pairframe.engines
sys.modules["ott"] = None
try:
    {ask}
except pairframe.errors.MissingExtraError as error:
    print(error.fix)
"""
        assert in_a_new_process(code) == "pip install 'pairframe[ott]'"


def test_compiled_programs_are_kept_unless_switched_off(tmp_path: Path) -> None:
    code = f"""
import os, jax
from pairframe.engines.ott.devices import keep_compiled_programs
keep = keep_compiled_programs.__wrapped__  # it decides once per process
assert str(jax.jit(lambda x: x + 1)(1.0)) == "2.0"  # jax has looked for a cache before we name one
os.environ["PAIRFRAME_JAX_CACHE"] = "off"
print(keep(), jax.config.jax_compilation_cache_dir)
os.environ["PAIRFRAME_JAX_CACHE"] = ""
print(keep(), jax.config.jax_compilation_cache_dir)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: jax.numpy.sin(x) @ x)(jax.numpy.ones((9, 9)))
os.environ["PAIRFRAME_JAX_CACHE"] = {str(tmp_path / "other")!r}
print(keep(), jax.config.jax_compilation_cache_dir)
jax.config.update("jax_compilation_cache_dir", None)
print(keep(), jax.config.jax_compilation_cache_dir)
"""
    default, other = tmp_path / "pairframe" / "jax", tmp_path / "other"
    assert in_a_new_process(code, XDG_CACHE_HOME=str(tmp_path)).splitlines() == [
        "None None",
        f"{default} {default}",
        f"None {default}",  # a directory that is set stays
        f"{other} {other}",
    ]
    assert any(default.iterdir())


def test_the_registry_knows_it() -> None:
    assert isinstance(get_engine("ott"), OttEngine)
