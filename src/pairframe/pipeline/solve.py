"""Solve: a pair on the work grid comes in, its certified solution and those of its self-problems go out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pairframe.engines import Progress, Solution, SolveOptions, Start, get_engine, solve
from pairframe.engines.sampling import Sample, sample_support
from pairframe.errors import UnsupportedProblemError
from pairframe.maps import Divergence, divergence_of
from pairframe.parallel.memory import return_freed_memory
from pairframe.parallel.threads import n_threads
from pairframe.pipeline.frame import WorkPair
from pairframe.pipeline.memory_rule import LARGE_PIXELS
from pairframe.pipeline.self_problem import SelfSolution, SelfStart, solve_self_problem
from pairframe.problem import TransportProblem, state_problem
from pairframe.types import Float

SelfStarts = tuple[SelfStart, SelfStart]
# Pairs larger than LARGE_PIXELS are solved before their self-problems: two solves at once need the memory of both.
SMALL_PIXELS = 1 << 11  # to start a thread takes longer than it saves


@dataclass(frozen=True, eq=False)
class PairSolution:
    """The solution of a pair, and how to get from its units back to the pixel-mass of the pair.

    Attributes
    ----------
    solution : Solution
        Of the pair, in the units of its problem.
    self_source, self_target : SelfSolution
        Source and target, each against itself.
    masses : two (Hw, Ww)
        The masses that were solved, in pixel-mass: those of the pair, or of its samples.
    mass_scale : float
        Multiply masses and costs of `solution` by it to get pixel-mass.
    samples : (Sample, Sample), optional
        The sampled support, if `max_support_points` was given and some pixels were left out.
    """

    solution: Solution
    self_source: SelfSolution
    self_target: SelfSolution
    masses: tuple[Float, Float]
    mass_scale: float
    samples: tuple[Sample, Sample] | None

    @property
    def potentials(self) -> Start:
        """The potentials of the pair, (Hw, Ww) each, to start a similar pair on this grid from."""
        return self.solution.potential_a, self.solution.potential_b

    @property
    def self_starts(self) -> SelfStarts:
        """Where to start the self-problems of a similar pair on this grid."""
        source, target = self.masses
        return SelfStart.of(self.self_source, source), SelfStart.of(self.self_target, target)

    @property
    def divergence(self) -> Divergence:
        """The divergence of the pair, in pixel-mass times work px^2 (or work px)."""
        found = divergence_of(self.solution, (self.self_source.solution, self.self_target.solution))
        return Divergence(found.value * self.mass_scale, found.error * self.mass_scale)


def solve_pair(
    work: WorkPair, start: Start | None, progress: Progress | None = None, *, self_starts: SelfStarts | None = None
) -> PairSolution:
    """State the problem of a pair and solve it with the engine of its config.

    Parameters
    ----------
    start : (potential_a, potential_b), optional
        Potentials to start the pair from.
    progress : callable, optional
        Called during the solve of the pair, but not of the self-problems.
    self_starts : (SelfStart, SelfStart), optional
        Where to start the self-problems of source and target.
    """
    config, masses = work.config, (work.mass_source, work.mass_target)
    samples = _samples(work)
    if samples is not None:
        masses = (samples[0].mass, samples[1].mass)
    problem, mass_scale = state_problem(*masses, config, work.transform, work.penalties)
    options = SolveOptions(config.tol, config.max_iterations, config.dtype, config.device)
    _check_device(problem, config.backend, options)
    solutions = solve_with_self_problems(problem, masses, config.backend, options, start, progress, self_starts)
    return PairSolution(*solutions, masses, mass_scale, samples)


def solve_with_self_problems(
    problem: TransportProblem,
    masses_work: tuple[Float, Float],
    backend: str,
    options: SolveOptions,
    start: Start | None = None,
    progress: Progress | None = None,
    self_starts: SelfStarts | None = None,
) -> tuple[Solution, SelfSolution, SelfSolution]:
    """Solve a problem and the self-problems of both sides.

    If both sides are equal, the problem is its own self-problem and is solved once.

    Parameters
    ----------
    masses_work : two (H, W)
        Both masses before any normalisation; see `solve_self_problem`.
    self_starts : (SelfStart, SelfStart), optional
        Where to start the self-problems.
    """
    first, second = (None, None) if self_starts is None else self_starts
    if problem.is_symmetric:
        own = solve_self_problem(problem, "a", masses_work[0], backend, options, first)
        return own.solution_of(problem), own, own

    def self_problems() -> tuple[SelfSolution, SelfSolution]:
        return (
            solve_self_problem(problem, "a", masses_work[0], backend, options, first),
            solve_self_problem(problem, "b", masses_work[1], backend, options, second),
        )

    is_large = problem.mass_a.size > LARGE_PIXELS
    is_small = problem.mass_a.size < SMALL_PIXELS
    if n_threads() == 1 or is_small or is_large or not get_engine(backend).side_by_side:
        solution = solve(problem, backend, options, start, progress)
        if is_large:
            return_freed_memory()
        found = self_problems()
        if is_large:
            return_freed_memory()
        return solution, *found
    # The self-problems take about as long as the pair, so a second thread solves them at the same time.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="pairframe-self-problems") as executor:
        future = executor.submit(self_problems)
        solution = solve(problem, backend, options, start, progress)
        return solution, *future.result()


def _check_device(problem: TransportProblem, backend: str, options: SolveOptions) -> None:
    """Name a missing device as such, because neither the engine nor the problem is at fault."""
    if options.device is None:
        return
    engine = get_engine(backend)
    reason = engine.supports(problem, options)
    if reason is not None and engine.supports(problem, replace(options, device=None)) is None:
        raise UnsupportedProblemError(
            f"a device that the engine {backend!r} can use here",
            reason,
            f"leave out device={options.device!r}, or choose one that `pairframe doctor` lists for this engine",
        )


def _samples(work: WorkPair) -> tuple[Sample, Sample] | None:
    """Sample both masses if `max_support_points` requires it."""
    config = work.config
    if config.max_support_points is None:
        return None
    if not get_engine(config.backend).needs_points:
        raise UnsupportedProblemError(
            "no max_support_points with an engine that uses every pixel",
            f"max_support_points={config.max_support_points} with backend {config.backend!r}",
            "leave it out, or raise downsample_factor for a coarser problem",
        )
    source, target = (
        sample_support(mass, config.max_support_points, config.seed) for mass in (work.mass_source, work.mass_target)
    )
    return None if source.is_whole and target.is_whole else (source, target)
