"""`OttEngine`: states a problem for OTT, runs it in chunks, and certifies the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.base import Engine, Progress, Solution, SolveOptions, Start, only_plain_images
from pairframe.engines.ott.bridge import OttProblem, mass_trouble
from pairframe.engines.ott.devices import check_process, device_memory_limit, device_name, find_device, on_device
from pairframe.engines.ott.layout import GEOMETRIES, Layout, choose_layout
from pairframe.engines.ott.march import NAME, Chunk, March
from pairframe.errors import ArgumentError, UnsupportedProblemError
from pairframe.parallel.memory import memory_limit_bytes
from pairframe.problem import KL, Balanced, TransportProblem

if TYPE_CHECKING:
    import jax


class OttEngine(Engine):
    """OTT-JAX's Sinkhorn in the log domain, on any device that jax has.

    Parameters
    ----------
    geometry : {"grid", "points", "online"}, optional
        How OTT sums over pixels; by default the geometry with the lowest cost that fits into memory. All give the
        same answer; see `pairframe.engines.ott.layout`.

    Notes
    -----
    Programs are compiled once per bucket of shapes and dtype, and kept on disk; see
    `pairframe.engines.ott.devices.keep_compiled_programs`.
    """

    name: ClassVar[str] = NAME
    needs_points: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("ott-jax", "jax", "jaxlib")

    def __init__(self, geometry: str | None = None) -> None:
        if geometry is not None and geometry not in GEOMETRIES:
            raise ArgumentError(f"a geometry: {', '.join(GEOMETRIES)}", repr(geometry), "use one of these, or None")
        self._geometry = geometry

    def devices(self) -> tuple[str, ...]:
        """All devices of jax; its default first."""
        import jax

        return tuple(device_name(device) for device in jax.devices())

    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        """Penalties kl and balanced, both metrics, images with square pixels, on devices that are here."""
        if (reason := only_plain_images(problem)) is not None:
            return reason
        for penalty in (problem.penalty_a, problem.penalty_b):
            if not isinstance(penalty, KL | Balanced):
                return f'penalty "{penalty.name}": OTT relaxes marginals by "kl" only, or keeps them ("balanced")'
        limit = memory_limit_bytes()
        if options.device is not None:
            try:
                limit = device_memory_limit(find_device(options.device))
            except ArgumentError as error:
                return f"device {error.got}: expected {error.expected}"
        layout = choose_layout(problem, options.dtype, limit, self._geometry)
        return layout if isinstance(layout, str) else mass_trouble(problem, options.dtype)

    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Solve; see `Engine.run`. A kernel application is one softmin; an iteration of OTT takes two."""
        check_process()
        device = find_device(options.device)
        ott_problem = OttProblem(problem, self.layout(problem, options, device), options.dtype)
        march = March(ott_problem, options, init, progress)
        with on_device(device, options.dtype):
            while not march.done:
                chunk = march.next_chunk()
                march.take(*advance_one(ott_problem, chunk), chunk.iterations)
        return march.solution(device_name(device))

    def layout(self, problem: TransportProblem, options: SolveOptions, device: jax.Device) -> Layout:
        """The layout that `run` uses on that device."""
        layout = choose_layout(problem, options.dtype, device_memory_limit(device), self._geometry)
        if isinstance(layout, str):
            raise UnsupportedProblemError(
                f"a problem that the engine {NAME!r} solves", layout, "choose another backend or change the problem"
            )
        return layout


def advance_one(ott_problem: OttProblem, chunk: Chunk) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Run one chunk on the current device."""
    from pairframe.engines.ott.compiled import advance

    f, g, error = advance(
        ott_problem.layout,
        ott_problem.coordinates,
        chunk.mass_a,
        chunk.mass_b,
        np.asarray(chunk.epsilon, dtype=ott_problem.dtype),
        np.asarray(chunk.taus, dtype=ott_problem.dtype),
        np.asarray(chunk.complements, dtype=ott_problem.dtype),
        chunk.f,
        chunk.g,
        np.asarray(chunk.momentum, dtype=ott_problem.dtype),
        chunk.iterations,
    )
    return np.asarray(f), np.asarray(g), float(error)
