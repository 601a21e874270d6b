"""The cost of a pair as a formula, and a cluster as a simulation: what `cost_model.py` fits, checks and tells."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from pairframe.types import Float

SMALLEST_BLUR_PX = 1.5  # below, the blur is not resolved by the pixels and iterations no longer follow a power law
_LEAST_ITERATIONS = 8.0
MAX_CHUNK = 16  # pairs that a worker of `pairframe run` takes at a time, at most


@dataclass(frozen=True)
class Measured:
    """One comparison.

    Attributes
    ----------
    work_px : int
        Pixels of the work grid.
    blur_px, reach_px : float
        In work pixels: sqrt(eps) and sqrt(lam).
    iterations : int
    seconds : float
        Of one core.
    """

    work_px: int
    blur_px: float
    reach_px: float
    iterations: int
    seconds: float


@dataclass(frozen=True)
class CostModel:
    """Seconds of one core for one whole comparison.

    iterations = 8 + exp(k0) (L / blur)^k1 (min(reach, L) / blur)^k2, L = sqrt(work pixels): how many blurs lie across the
    picture, and how many across what mass may travel. seconds = t0 + work_px (t1 + t2 blur + t3 iterations): a start, and
    for every pixel the maps, the width of the kernel, and the softmins.
    """

    k: tuple[float, float, float]
    t: tuple[float, float, float, float]

    def iterations(self, work_px: float, blur_px: float, reach_px: float) -> float:
        """Softmins at full resolution."""
        features = _iteration_features(np.array([work_px]), np.array([blur_px]), np.array([reach_px]))
        return _LEAST_ITERATIONS + float(np.exp(features @ np.array(self.k))[0])

    def seconds(self, work_px: float, blur_px: float, reach_px: float) -> float:
        """Of one core."""
        t0, t1, t2, t3 = self.t
        return t0 + work_px * (t1 + t2 * blur_px + t3 * self.iterations(work_px, blur_px, reach_px))


def fit(rows: Sequence[Measured]) -> CostModel:
    """Least relative squares; all parts of the time are >= 0."""
    work, blur, reach, iterations, seconds = (
        np.array([getattr(row, name) for row in rows], dtype=np.float64)
        for name in ("work_px", "blur_px", "reach_px", "iterations", "seconds")
    )
    features = _iteration_features(work, blur, reach)
    k = np.linalg.lstsq(features, np.log(np.maximum(iterations - _LEAST_ITERATIONS, 1.0)), rcond=None)[0]
    modelled = _LEAST_ITERATIONS + np.exp(features @ k)
    parts = np.stack([np.ones_like(work), work, work * blur, work * modelled], axis=1)
    t = nnls(parts / seconds[:, None], np.ones_like(seconds))[0]
    return CostModel(tuple(map(float, k)), tuple(map(float, t)))


def relative_errors(model: CostModel, rows: Sequence[Measured]) -> Float:
    """(n,): model / measured - 1."""
    return np.array([model.seconds(row.work_px, row.blur_px, row.reach_px) / row.seconds - 1.0 for row in rows])


def line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Constant and slope, both >= 0, by least relative squares."""
    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    found = nnls(np.stack([np.ones_like(x), x], axis=1) / y[:, None], np.ones_like(y))[0]
    return float(found[0]), float(found[1])


def _iteration_features(work: Float, blur: Float, reach: Float) -> Float:
    side = np.sqrt(work)
    return np.stack([np.ones_like(work), np.log(side / blur), np.log(np.minimum(reach, side) / blur)], axis=1)


# --- a cluster -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """Workers of one core each around one file system and one writer of the table.

    Attributes
    ----------
    workers : int
    bytes_per_s : float
        Of the file system, all workers together.
    files_per_s : float
        New files, all workers together.
    """

    workers: int
    bytes_per_s: float = 2e9
    files_per_s: float = 10_000.0


@dataclass(frozen=True)
class PairCost:
    """What one pair takes of each resource; `row_s` of the one process that collects rows, `memory_bytes` of a worker."""

    compute_s: float
    write_s: float
    disk_bytes: float
    files: float
    row_s: float
    row_bytes: float
    memory_bytes: float


def bounds_s(n_pairs: float, pair: PairCost, cluster: Cluster) -> dict[str, float]:
    """Seconds that each resource alone would take: the largest one bounds the run."""
    return {
        "cores": n_pairs * (pair.compute_s + pair.write_s) / cluster.workers,
        "disk": n_pairs * pair.disk_bytes / cluster.bytes_per_s,
        "new files": n_pairs * pair.files / cluster.files_per_s,
        "the table's writer": n_pairs * pair.row_s,
    }


def simulate_s(n_pairs: int, pair: PairCost, cluster: Cluster, *, spread: float = 0.5, seed: int = 0) -> float:
    """Wall seconds of a run: workers take chunks, queue for the file system, and hand rows to one writer.

    Parameters
    ----------
    spread : float
        Standard deviation of the log of a chunk's compute time; its mean stays.

    Chunks are computed at the same time; the file system and the table's writer serve one after the other. This is
    conservative: a worker waits until its chunk is stored before it takes the next one, and chunks never share the
    file system, which real ones do.
    """
    n_chunks = math.ceil(n_pairs / min(MAX_CHUNK, max(1, n_pairs // (4 * cluster.workers))))
    per_chunk = n_pairs / n_chunks
    rng = np.random.default_rng(seed)
    factors = np.exp(rng.normal(-0.5 * spread**2, spread, n_chunks))
    compute = (per_chunk * (pair.compute_s + pair.write_s) * factors).tolist()
    store_s = per_chunk * max(pair.disk_bytes / cluster.bytes_per_s, pair.files / cluster.files_per_s)
    row_s = per_chunk * pair.row_s
    free_at = [0.0] * min(cluster.workers, n_chunks)  # a heap: when each worker takes its next chunk
    store_free = table_free = 0.0
    for seconds in compute:
        computed = free_at[0] + seconds
        # The file system is shared, but it is asked all the time, not once at the end: it delays when it is behind.
        store_free = max(store_free, free_at[0]) + store_s
        stored = max(computed, store_free)
        heapq.heapreplace(free_at, stored)
        table_free = max(table_free, stored) + row_s
    return max(max(free_at), table_free)
