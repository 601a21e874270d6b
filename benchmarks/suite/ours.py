"""One whole `compare`, with maps, debiasing and both self-problems; and many of them."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from pairframe.parallel.threads import at_most
from pairframe.pipeline import compare, compare_many
from pairframe.pipeline.self_problem import clear_self_cache
from pairframe.problem import TransportConfig
from pairframe.testing import embryo
from suite.memory import peak_mb_of
from suite.problems import PairSpec, masks_of


def config_of(spec: PairSpec) -> TransportConfig:
    """As the pipeline does it: blur and reach in pixels of this scale, the heat reference, tol 1e-6."""
    return TransportConfig(blur_um=spec.blur_px * spec.scale, reach_um=spec.reach_px * spec.scale, penalty="kl")


def compare_once(setting: dict[str, Any]) -> dict[str, Any]:
    """Seconds and certificate of one `compare` of the pair in ``spec``; with ``memory`` the peak instead."""
    spec = PairSpec(**setting["spec"])
    masks, config = masks_of(spec), config_of(spec)
    clear_self_cache()  # start without results of an earlier run
    if setting.get("memory"):
        compare(*masks_of(PairSpec(scale=1 / 16, blur_px=32.0)))  # imports, and the compiled code from its cache
        extra, peak = peak_mb_of(lambda: compare(*masks, config))
        return {"extra_mb": extra, "peak_mb": peak}
    began = perf_counter()
    result = compare(*masks, config)
    return {
        "seconds": perf_counter() - began,
        "status": str(result.status),
        "iterations": result.iterations,
        "relative_gap": result.relative_gap,
        "marginal_error": result.marginal_error,
    }


def compare_many_once(setting: dict[str, Any]) -> dict[str, Any]:
    """Seconds of `compare_many` for ``pairs`` slightly different pairs on ``jobs`` cores, one thread each."""
    shape = (128, 288)
    pairs = [
        (
            embryo(shape, bend=0.6 - 0.01 * k, growth=0.5),
            embryo(shape, bend=0.5 - 0.01 * k, length_px=345, thickness_px=27, growth=0.5),
        )
        for k in range(setting["pairs"])
    ]
    clear_self_cache()
    began = perf_counter()
    with at_most(1):
        results = compare_many(pairs, jobs=setting["jobs"])
    seconds = perf_counter() - began
    return {"seconds": seconds, "converged": sum(result.status == "converged" for result in results)}
