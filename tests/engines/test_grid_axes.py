"""The grid engine on lines and volumes, with pixels that are not cubes: the dense oracle's answer."""

from __future__ import annotations

import numpy as np
import pytest

from pairframe.engines import SolveOptions, Status, get_engine, solve
from pairframe.engines.grid import smooth
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.engines.grid.level import Level
from pairframe.engines.grid.newton import NewtonSteps
from pairframe.engines.grid.pyramid import coarse_problems, prolong
from pairframe.engines.grid.smooth import KilledDiffusion, Mesh, _by_conjugate_gradients, factored
from pairframe.errors import FrameError, MaskError, ProblemError
from pairframe.problem import KL, PENALTIES, TransportProblem, penalty_of

TIGHT = SolveOptions(tol=1e-12, max_iterations=20_000)
GRIDS = {
    "line": ((23,), (1.0,)),
    "oblong pixels": ((9, 12), (0.4, 1.7)),
    "volume": ((5, 6, 7), (2.5, 1.0, 1.0)),
    "four axes": ((3, 4, 3, 5), (1.0, 2.0, 0.5, 1.0)),
}


def random_problem(
    grid: str, kinds: tuple[str, str], reference: str = "heat", epsilon: float = 3.0
) -> TransportProblem:
    shape, spacing = GRIDS[grid]
    rng = np.random.default_rng(len(shape))
    a, b = (rng.random(shape) * (rng.random(shape) < 0.7) for _ in range(2))
    a, b = a / a.sum(), 2.0 * b / b.sum()
    if "balanced" in kinds:
        b = b / 2.0
    sides = [penalty_of(kind, 20.0) for kind in kinds]
    return TransportProblem(a, b, epsilon, sides[0], sides[1], reference, spacing=spacing)


def dense_cost(problem: TransportProblem) -> np.ndarray:
    xa, xb = (np.argwhere(on) * np.array(problem.spacing) for on in (problem.support_a, problem.support_b))
    return ((xa[:, None] - xb) ** 2).sum(axis=-1)


# --- the kernel ------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 3.0, 200.0])
@pytest.mark.parametrize("grid", GRIDS)
def test_sums_and_means_equal_the_dense_ones(grid: str, epsilon: float) -> None:
    shape, spacing = GRIDS[grid]
    rng = np.random.default_rng(7)
    on_in, on_out = rng.random(shape) < 0.5, rng.random(shape) < 0.3
    on_in[0], on_out[-1] = False, False  # boxes that do not start at one corner
    x_in, x_out = (np.argwhere(on) * np.array(spacing) for on in (on_in, on_out))
    log_weight, channels = 3 * rng.standard_normal(len(x_in)), rng.standard_normal((2, len(x_in)))
    exponent = log_weight - ((x_out[:, None] - x_in) ** 2).sum(axis=-1) / epsilon
    top = exponent.max(axis=1, keepdims=True)
    weight = np.exp(exponent - top)
    kernel = SupportKernel(on_in, on_out, epsilon, spacing=spacing)
    log_sum, means = kernel.log_sum_and_means(log_weight, channels)
    for found in (log_sum, kernel.log_sum(log_weight)):  # by tiles, and linear
        np.testing.assert_allclose(found, top[:, 0] + np.log(weight.sum(axis=1)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(means, channels @ weight.T / weight.sum(axis=1), rtol=1e-10, atol=1e-10)
    kernel._linear = None
    np.testing.assert_array_equal(kernel.log_sum(log_weight), log_sum)


@pytest.mark.parametrize("long_axis", [0, 1, 2])
def test_any_axis_of_a_volume_may_be_the_long_one(long_axis: int) -> None:
    shape = [3, 4, 5]
    shape[long_axis] = 130  # more than a tile
    rng = np.random.default_rng(long_axis)
    on = rng.random(shape) < 0.1
    x = np.argwhere(on)
    log_weight = rng.standard_normal(len(x))
    exponent = log_weight - ((x[:, None] - x) ** 2).sum(axis=-1) / 6.0
    expected = np.log(np.exp(exponent).sum(axis=1))
    np.testing.assert_allclose(SupportKernel(on, on, 6.0).log_sum(log_weight), expected, atol=1e-12)


# --- the solve -------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["heat", "product"])
@pytest.mark.parametrize("kinds", [(a, b) for a in PENALTIES for b in PENALTIES], ids="-".join)
def test_every_penalty_on_a_volume_gives_the_oracles_answer(kinds: tuple[str, str], reference: str) -> None:
    assert_same(random_problem("volume", kinds, reference))


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_grid_gives_the_oracles_answer(grid: str, kind: str) -> None:
    assert_same(random_problem(grid, (kind, kind)))


def assert_same(problem: TransportProblem) -> None:
    grid, oracle = (solve(problem, backend, TIGHT) for backend in ("grid", "oracle"))
    for one in (grid, oracle):
        assert one.certificate.relative_gap <= 1e-10, one
        assert one.certificate.marginal_error <= 1e-9, one
    assert grid.certificate.primal_upper == pytest.approx(oracle.certificate.primal_upper, rel=1e-9)
    for name in ("marginal_a", "marginal_b"):
        np.testing.assert_allclose(getattr(grid, name), getattr(oracle, name), atol=1e-8)
    # The plan of the oracle's potentials, written out, has the marginals that both report.
    on_a, on_b = problem.support_a, problem.support_b
    exponent = np.add.outer(oracle.potential_a[on_a], oracle.potential_b[on_b]) - dense_cost(problem)
    plan = np.exp(np.add.outer(problem.log_u[on_a], problem.log_v[on_b]) + exponent / problem.epsilon)
    np.testing.assert_allclose(plan.sum(axis=1), grid.marginal_a[on_a], atol=1e-8)
    np.testing.assert_allclose(plan.sum(axis=0), grid.marginal_b[on_b], atol=1e-8)


@pytest.mark.parametrize("reference", ["heat", "product", "counting"])
@pytest.mark.parametrize("kind", ["kl", "balanced", "partial"])
def test_an_image_is_a_volume_of_one_plane(kind: str, reference: str) -> None:
    rng = np.random.default_rng(11)
    a, b = (rng.random((30, 52)) * (rng.random((30, 52)) < 0.8) for _ in range(2))
    a, b = a / a.sum(), b / b.sum()
    penalty = penalty_of(kind, 40.0)
    flat = TransportProblem(a, b, 2.0, penalty, penalty, reference)
    # The next plane is so far away that the heat kernel does not reach it.
    deep = TransportProblem(a[None], b[None], 2.0, penalty, penalty, reference, spacing=(1000.0, 1.0, 1.0))
    options = SolveOptions(tol=1e-13, max_iterations=400)
    image, plane = solve(flat, "grid", options), solve(deep, "grid", options)
    assert plane.certificate.primal_upper == pytest.approx(image.certificate.primal_upper, rel=1e-12)
    np.testing.assert_allclose(plane.marginal_a[0], image.marginal_a, atol=1e-12)
    np.testing.assert_allclose(plane.marginal_b[0], image.marginal_b, atol=1e-12)
    difference = np.add.outer((plane.potential_a[0] - image.potential_a)[a > 0], np.zeros(1))
    other = (plane.potential_b[0] - image.potential_b)[b > 0]
    np.testing.assert_allclose(difference + other, 0.0, atol=1e-10)


def ellipsoids() -> TransportProblem:
    z, y, x = np.meshgrid(np.arange(20) * 2.5, np.arange(56), np.arange(60), indexing="ij")
    a = ((z - 25) ** 2 / 20**2 + (y - 26) ** 2 / 20**2 + (x - 26) ** 2 / 22**2 <= 1).astype(float)
    b = ((z - 26) ** 2 / 18**2 + (y - 29) ** 2 / 22**2 + (x - 33) ** 2 / 20**2 <= 1).astype(float)
    return TransportProblem(a, b, 9.0, KL(900.0), KL(900.0), spacing=(2.5, 1.0, 1.0))


def test_a_volume_with_several_levels_converges_in_few_rounds() -> None:
    solution = solve(ellipsoids(), "grid", SolveOptions(tol=1e-6))
    assert solution.status == Status.converged
    assert solution.iterations <= 40


def test_a_correction_by_conjugate_gradients_serves_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, options = ellipsoids(), SolveOptions(tol=1e-6)
    factored = solve(problem, "grid", options)
    used = []
    monkeypatch.setattr(smooth, "_MOST_BAND", 0)
    monkeypatch.setattr(smooth, "_MOST_FACTORED_NODES", 0)
    monkeypatch.setattr(
        smooth, "_by_conjugate_gradients", lambda matrix: used.append(matrix) or _by_conjugate_gradients(matrix)
    )
    iterated = solve(problem, "grid", options)
    assert used
    assert iterated.status == Status.converged
    assert iterated.iterations <= factored.iterations + 10
    assert iterated.certificate.primal_upper == pytest.approx(factored.certificate.primal_upper, rel=1e-9)


# --- its parts -------------------------------------------------------------------------------


def test_coarse_pixels_become_cubes() -> None:
    rng = np.random.default_rng(0)
    mass = rng.random((16, 100, 120))
    problem = TransportProblem(mass, mass + 1.0, 4.0, KL(64.0), KL(64.0), spacing=(2.5, 1.0, 1.0))
    levels = coarse_problems(problem)
    assert [level.shape for _, level in levels] == [(8, 25, 30)] * 2 + [(16, 50, 60), (16, 100, 120)]
    assert [n_pixels for n_pixels, _ in levels] == [32, 32, 4, 1]
    for n_pixels, level in levels:
        unit = 2 ** round(np.log2(100 / level.shape[1]))
        assert level.spacing == (2.5 * 16 / level.shape[0] / unit, 1.0, 1.0)
        assert level.total_a == pytest.approx(problem.total_a, rel=1e-12)
        assert n_pixels == mass.size / level.mass_a.size
        assert level.penalty_a == KL(64.0 / unit**2)
    carried, _ = prolong(np.ones(levels[1][1].mass_a.size), 0.0, levels[1][1], levels[2][1])
    np.testing.assert_allclose(carried, 4.0, rtol=1e-14)  # costs in units half as long


def test_conjugate_gradients_and_factors_give_one_correction() -> None:
    import scipy.sparse as sparse

    rng = np.random.default_rng(3)
    support = rng.random((6, 9, 9)) < 0.8
    n = int(support.sum())
    weight, stiffness = rng.random(n) + 0.5, np.full(n, 0.1)
    mesh = Mesh(support, 4.0, (2.5, 1.0, 1.0), (0, 1, 2))
    diffusion = KilledDiffusion(mesh, np.ones(n, bool), weight, stiffness, np.full(n, 2.0))
    linear = 0.1 * np.argwhere(support)[:, 1]
    smooth_part = diffusion(weight * linear)
    assert np.isfinite(smooth_part).all()
    assert np.abs(linear + smooth_part).max() > np.abs(linear).max()  # smooth residuals are amplified
    laplacian = sparse.diags([-np.ones(49), 2.1 * np.ones(50), -np.ones(49)], [-1, 0, 1]).tocsc()
    right = rng.standard_normal(50)
    exact, iterated = factored(laplacian)(right), _by_conjugate_gradients(laplacian)(right)
    assert np.linalg.norm(laplacian @ iterated - right) <= 1e-2 * np.linalg.norm(right)
    assert np.linalg.norm(exact - iterated) <= 0.05 * np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("shape", "spacing", "axes"),
    [
        ((40, 53), (1.0, 1.0), (0, 1)),
        ((3, 60), (1.0, 1.0), (1,)),
        ((2, 70), (1.0, 1.0), (0, 1)),  # two nodes across: two steps between corners are one
        ((9, 14, 11), (2.5, 1.0, 1.0), (0, 1, 2)),
    ],
)
def test_band_and_columns_solve_the_matrix_of_the_hats(
    shape: tuple[int, ...], spacing: tuple[float, ...], axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    support = rng.random(shape) < 0.8
    support[tuple(slice(side // 3, side // 3 + 3) for side in shape)] = False
    mesh = Mesh(support, 4.0, spacing, axes)
    pull, push = rng.random((2, int(support.sum())))
    hats = mesh.hats()
    np.testing.assert_allclose(np.asarray(hats.sum(axis=1)).ravel(), 1.0, rtol=1e-14)
    nodes = rng.random(mesh.n_nodes)
    np.testing.assert_allclose(mesh.to_pixels(nodes), hats @ nodes, rtol=1e-13)
    np.testing.assert_allclose(mesh.to_nodes(pull), hats.T @ pull, rtol=1e-13)
    dense = (hats.multiply(pull[:, None])).T @ hats
    matrix = mesh.matrix(pull, np.zeros(pull.shape))
    right = rng.standard_normal(matrix.used.size)
    wanted = dense.toarray()[np.ix_(matrix.used, matrix.used)]
    wanted[np.diag_indices_from(wanted)] += 1e-7 * np.diag(wanted) + 1e-14 * np.diag(wanted).max()
    assert np.linalg.norm(wanted @ matrix.solver()(right) - right) <= 1e-7 * np.linalg.norm(right)
    full = mesh.matrix(pull, push)
    right = rng.standard_normal(full.used.size)
    by_band = full.solver()(right)
    monkeypatch.setattr(smooth, "_MOST_BAND", 0)
    np.testing.assert_allclose(full.solver()(right), by_band, atol=1e-9 * np.abs(by_band).max())


def test_the_slopes_of_the_hats_are_those_of_a_linear_function() -> None:
    support = np.ones((30, 40), dtype=bool)
    mesh = Mesh(support, 4.0, (1.0, 1.0), (0, 1))
    rng = np.random.default_rng(6)
    push = rng.random(support.size)
    full = mesh.matrix(np.zeros(push.shape), push)
    x = np.nonzero(support)[1]
    node_y, node_x = np.divmod(np.arange(mesh.n_nodes), int(x.max() / 3.5) + 2)
    linear = 3.5 * (2.0 * node_y - 3.0 * node_x)[full.used]
    applied = np.zeros(full.used.size)
    for k, step in enumerate(full.steps):  # the matrix, from its stencil
        values = full.stencil[k, full.used]
        reach = np.searchsorted(full.used, full.used + step)
        inside = (reach < full.used.size) & (values != 0)
        applied[inside] += values[inside] * linear[reach[inside]]
        if step:
            np.add.at(applied, reach[inside], values[inside] * linear[inside])
    assert linear @ applied == pytest.approx((2.0**2 + 3.0**2) * push.sum(), rel=1e-5)


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("spacing", [(1.0,), (1.0, 0.0), (1.0, -2.0), (1.0, np.nan), (1.0, np.inf), 2.0, ("1", 1.0)])
def test_a_bad_spacing_is_refused(spacing: object) -> None:
    mass = np.ones((3, 4))
    with pytest.raises(ProblemError, match="spacing of 2 positive numbers, one per axis"):
        TransportProblem(mass, mass, 1.0, KL(1.0), KL(1.0), spacing=spacing)  # type: ignore[arg-type]


def test_bad_volumes_are_refused() -> None:
    mass = np.ones((2, 3, 4))
    broken = mass.copy()
    broken[1, 2, 3] = np.nan
    with pytest.raises(MaskError, match=r"nan at \(z=1, y=2, x=3\)"):
        TransportProblem(mass, broken, 1.0, KL(1.0), KL(1.0))
    with pytest.raises(FrameError, match=r"shapes \(2, 3, 4\) and \(3, 4\)"):
        TransportProblem(mass, mass[0], 1.0, KL(1.0), KL(1.0))
    with pytest.raises(ProblemError, match="some mass in mass_b"):
        TransportProblem(mass, 0 * mass, 1.0, KL(1.0), KL(1.0))
    with pytest.raises(MaskError, match="at least one pixel, got a single number"):
        TransportProblem(np.float64(1.0), np.float64(1.0), 1.0, KL(1.0), KL(1.0))


def test_engines_for_images_refuse_volumes_and_oblong_pixels() -> None:
    pytest.importorskip("torch")
    mass = np.ones((2, 3, 4))
    volume = TransportProblem(mass, mass, 1.0, KL(1.0), KL(1.0))
    oblong = TransportProblem(mass[0], mass[0], 1.0, KL(1.0), KL(1.0), spacing=(2.0, 1.0))
    for problem in (volume, oblong):
        reason = get_engine("torch").supports(problem, SolveOptions())
        assert reason is not None
        assert "images with square pixels" in reason
        assert get_engine("grid").supports(problem, SolveOptions()) is None


@pytest.mark.parametrize(("shape", "spacing"), [((60, 60), (1.0, 1.0)), ((12, 26, 26), (2.5, 1.0, 1.0))])
def test_the_cost_of_newton_steps_counts_the_neighbours_of_a_voxel(
    shape: tuple[int, ...], spacing: tuple[float, ...]
) -> None:
    mass = np.ones(shape)
    level = Level(TransportProblem(mass, mass, 1.0, KL(9.0), KL(9.0), spacing=spacing), "float64", None)
    middle = np.array(shape) // 2
    away = (np.argwhere(mass > 0) - middle) * np.array(spacing)
    neighbours = int(
        ((away**2).sum(axis=1) <= 25.0).sum()
    )  # of a voxel far from the border, at the depth of the listing
    assert NewtonSteps(level).cost - 8 == pytest.approx(mass.size * neighbours / 20_000, rel=0.15)
