"""The table of problems that every engine is held against: small enough for the oracle, hard enough to tell engines apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pairframe.engines import Solution, SolveOptions, get_engine
from pairframe.frame import GridTransform
from pairframe.problem import KL, Penalty, TransportConfig, TransportProblem, penalty_of, state_problem
from pairframe.testing.shapes import disc, embryo
from pairframe.types import Float

CANONICAL_HW = (256, 576)


@dataclass(frozen=True)
class Case:
    """One row of the table: a name and how to state the problem."""

    name: str
    state: Callable[[], TransportProblem]

    @property
    def problem(self) -> TransportProblem:
        """The problem, stated once."""
        return _stated(self)

    @property
    def truth(self) -> Solution:
        """The oracle's solution, as exact as float64 allows; solved once."""
        return _solved(self)

    def __repr__(self) -> str:
        return self.name


@lru_cache(maxsize=64)
def _stated(case: Case) -> TransportProblem:
    return case.state()


@lru_cache(maxsize=64)
def _solved(case: Case) -> Solution:
    return get_engine("oracle").run(case.problem, SolveOptions(tol=1e-11, max_iterations=100_000))


def raw_discs(epsilon: float, lam: float) -> Case:
    """Two discs of unequal size at coordinates of 40 to 60 px; raw pixel coordinates."""

    def state() -> TransportProblem:
        source = disc((64, 64), (48.0, 48.0), 7.0).astype(np.float64)
        target = disc((64, 64), (51.0, 52.0), 8.0).astype(np.float64)
        return _joint(source, target, epsilon, KL(lam), KL(lam), "heat")

    return Case(f"discs, eps {epsilon:g}, lam {lam:g}", state)


def canonical_masks(shape: str, epsilon: float, marginal_relaxation: float = 10.0, s: int = 8) -> Case:
    """Masks on the canonical 256 x 576 grid, ``coord_scale=1/576``, downsampled by `s` for the oracle's sake."""

    def state() -> TransportProblem:
        if shape == "embryos":
            source, target = embryo(CANONICAL_HW, length_px=300, bend=1.0), embryo(CANONICAL_HW, growth=1.15)
        else:
            source, target = disc(CANONICAL_HW, (120.0, 250.0), 60.0), disc(CANONICAL_HW, (135.0, 290.0), 75.0)
        config = TransportConfig(
            penalty="kl",
            epsilon=epsilon,
            marginal_relaxation=marginal_relaxation,
            coord_scale=1 / 576,
            downsample_factor=s,
        )
        transform = GridTransform.from_pair(source, target, config.downsample_factor)
        problem, _ = state_problem(transform.to_work(source), transform.to_work(target), config, transform)
        return problem

    return Case(f"{shape} at s = {s}, eps {epsilon:g}, coord_scale 1/576", state)


def feature(kinds: tuple[str, str], reference: str = "heat", metric: str = "sqeuclidean") -> Case:
    """Random masses with holes on 7 x 9 px, total 1 against 2: one choice of penalties, reference and metric."""

    def state() -> TransportProblem:
        rng = np.random.default_rng(11)
        a, b = ((rng.random((7, 9)) + 0.05) * (rng.random((7, 9)) < 0.7) for _ in range(2))
        b *= (1.0 if kinds == ("balanced", "balanced") else 2.0) * a.sum() / b.sum()
        penalty_a, penalty_b = (penalty_of(kind, lam) for kind, lam in zip(kinds, (20.0, 35.0), strict=True))
        epsilon = 4.0 if metric == "sqeuclidean" else 1.0
        return TransportProblem(a, b, epsilon, penalty_a, penalty_b, reference=reference, metric=metric)

    return Case(f"{kinds[0]}/{kinds[1]}, {reference}, {metric}", state)


def volume(kinds: tuple[str, str], reference: str = "heat") -> Case:
    """Random masses with holes on 4 x 5 x 6 voxels of 2.5 x 1 x 1, total 1 against 2: the same in a volume."""

    def state() -> TransportProblem:
        rng = np.random.default_rng(12)
        a, b = ((rng.random((4, 5, 6)) + 0.05) * (rng.random((4, 5, 6)) < 0.7) for _ in range(2))
        b *= (1.0 if kinds == ("balanced", "balanced") else 2.0) * a.sum() / b.sum()
        penalty_a, penalty_b = (penalty_of(kind, lam) for kind, lam in zip(kinds, (20.0, 35.0), strict=True))
        return TransportProblem(a, b, 5.0, penalty_a, penalty_b, reference=reference, spacing=(2.5, 1.0, 1.0))

    return Case(f"a volume, {kinds[0]}/{kinds[1]}, {reference}", state)


def _joint(
    a: Float, b: Float, epsilon: float, penalty_a: Penalty, penalty_b: Penalty, reference: str
) -> TransportProblem:
    scale = math.sqrt(a.sum() * b.sum())
    return TransportProblem(a / scale, b / scale, epsilon, penalty_a, penalty_b, reference=reference)


RAW = tuple(raw_discs(epsilon, lam) for epsilon in (0.1, 1.0, 5.0, 10.0) for lam in (10.0, 100.0))
CANONICAL = tuple(canonical_masks(shape, epsilon) for shape in ("discs", "embryos") for epsilon in (1e-4, 1e-5))
FEATURES = (
    *(feature(("kl", "kl"), reference) for reference in ("heat", "product", "counting")),
    *(feature(("balanced", "balanced"), reference) for reference in ("heat", "product", "counting")),
    *(
        feature((a, b))
        for a, b in (("kl", "balanced"), ("balanced", "kl"), ("tv", "tv"), ("partial", "partial"), ("kl", "tv"))
    ),
    feature(("kl", "kl"), metric="euclidean"),
    feature(("balanced", "balanced"), "product", "euclidean"),
)
VOLUMES = (
    *(volume(("kl", "kl"), reference) for reference in ("heat", "product", "counting")),
    *(volume(kinds) for kinds in (("balanced", "balanced"), ("partial", "partial"), ("tv", "tv"), ("kl", "balanced"))),
)
CASES = (*RAW, *CANONICAL, *VOLUMES, *FEATURES)
