"""Many problems with the OTT engine: one after the other, or side by side in one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pairframe.engines.base import Solution, SolveOptions
from pairframe.engines.ott.devices import device_memory_limit, device_name, find_device, on_device
from pairframe.engines.ott.engine import OttEngine
from pairframe.engines.ott.layout import Layout
from pairframe.engines.ott.march import March
from pairframe.engines.ott.stated import Stated
from pairframe.errors import SolveOptionsError, UnsupportedProblemError
from pairframe.problem import TransportProblem

if TYPE_CHECKING:
    import jax

FLAVOURS = ("sequential", "vmapped", "auto")
_CACHE_BYTES = 2_000_000  # on a CPU, problems side by side gain only while all of them stay in its caches


def solve_batch(
    problems: Sequence[TransportProblem],
    options: SolveOptions | None = None,
    *,
    flavour: str | None = None,
    engine: OttEngine | None = None,
) -> list[Solution]:
    """Solve many problems, in order; each result is certified on its own.

    Parameters
    ----------
    flavour : {"sequential", "vmapped", "auto"}, optional
        ``sequential`` (default): one at a time, the memory of one. ``vmapped``: problems of one layout side by side,
        as many as fit into memory. ``auto``: side by side where the estimated memory allows and it pays.
        All give the same answers to `options.tol`.
    engine : OttEngine, optional
        With a geometry of its own.
    """
    flavour = "sequential" if flavour is None else flavour
    if flavour not in FLAVOURS:
        raise SolveOptionsError(f"a flavour: {', '.join(FLAVOURS)}", repr(flavour), "use one of these")
    engine = OttEngine() if engine is None else engine
    options = SolveOptions() if options is None else options
    for number, problem in enumerate(problems):
        reason = engine.supports(problem, options)
        if reason is not None:
            raise UnsupportedProblemError(
                f"problems that the engine {engine.name!r} solves", f"number {number}: {reason}", "take it out"
            )
    if flavour == "sequential":
        return [engine.run(problem, options) for problem in problems]

    device = find_device(options.device)
    layouts = [engine.layout(problem, options, device) for problem in problems]
    solutions: dict[int, Solution] = {}
    for group in plan_groups(layouts, options.dtype, _group_limit(device, flavour)):
        if len(group) == 1:
            solutions[group[0]] = engine.run(problems[group[0]], options)
        else:
            marches = [March(Stated(problems[i], layouts[i], options.dtype), options) for i in group]
            _march_together(marches, device, options.dtype)
            solutions.update((i, march.solution(device_name(device))) for i, march in zip(group, marches, strict=True))
    return [solutions[i] for i in range(len(problems))]


def plan_groups(layouts: Sequence[Layout], dtype: str, limit_bytes: int) -> list[list[int]]:
    """Which problems go together: one layout, within the limit, and 2^k of them, so that few programs are needed."""
    by_layout: dict[Layout, list[int]] = {}
    for number, layout in enumerate(layouts):
        by_layout.setdefault(layout, []).append(number)
    groups = []
    for layout, numbers in by_layout.items():
        most = max(1, limit_bytes // layout.bytes(dtype))
        while numbers:
            size = 1 << (min(most, len(numbers)).bit_length() - 1)
            groups.append(numbers[:size])
            numbers = numbers[size:]
    return groups


def _group_limit(device: jax.Device, flavour: str) -> int:
    limit = device_memory_limit(device)
    return min(limit, _CACHE_BYTES) if flavour == "auto" and device.platform == "cpu" else limit


def _march_together(marches: list[March], device: jax.Device, dtype: str) -> None:
    """Until the last one is done; those that are done before keep their answer and are carried along."""
    from pairframe.engines.ott.compiled import advance_many

    layout = marches[0].stated.layout
    coordinates = tuple(np.stack([march.stated.coordinates[side] for march in marches]) for side in (0, 1))
    with on_device(device, dtype):
        while not all(march.done for march in marches):
            chunks = [march.next_chunk() for march in marches]
            count = min(chunk.iterations for chunk, march in zip(chunks, marches, strict=True) if not march.done)
            f, g, errors = advance_many(
                layout,
                (coordinates[0], coordinates[1]),
                np.stack([chunk.mass_a for chunk in chunks]),
                np.stack([chunk.mass_b for chunk in chunks]),
                np.asarray([chunk.epsilon for chunk in chunks], dtype=dtype),
                np.asarray([chunk.taus for chunk in chunks], dtype=dtype),
                np.asarray([chunk.complements for chunk in chunks], dtype=dtype),
                np.stack([chunk.f for chunk in chunks]),
                np.stack([chunk.g for chunk in chunks]),
                np.asarray([chunk.momentum for chunk in chunks], dtype=dtype),
                count,
            )
            results = zip(np.asarray(f), np.asarray(g), np.asarray(errors), strict=True)
            for march, (one_f, one_g, error) in zip(marches, results, strict=True):
                if not march.done:
                    march.take(one_f, one_g, float(error), count)
