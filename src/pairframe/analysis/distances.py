"""Distances between masks by the divergence, and a map of them by classical scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pairframe.analysis.grid import AnalysisGrid
from pairframe.analysis.maps import read_canonical
from pairframe.analysis.members import Member
from pairframe.engines import Status
from pairframe.pipeline import iter_results
from pairframe.problem import TransportConfig
from pairframe.progress import Progress
from pairframe.results.store import ResultStore
from pairframe.types import Float

MAX_DISTANCE_BLOCKS = 10_000
_TOL = 1e-5


@dataclass(frozen=True, eq=False)
class Embedding:
    """Points whose distances approximate the given ones (classical multidimensional scaling).

    Attributes
    ----------
    coordinates : (n, n_dims)
        Centred; axes in the order of their eigenvalues, each with its largest entry positive.
    eigenvalues : (n,)
        Of the doubly centred matrix, descending; negative ones show how far the distances are from Euclidean.
    """

    coordinates: Float
    eigenvalues: Float

    @property
    def explained(self) -> float:
        """Share of the sum of absolute eigenvalues that the coordinates hold; 1 if the distances fit exactly."""
        total = float(np.abs(self.eigenvalues).sum())
        held = float(np.maximum(self.eigenvalues[: self.coordinates.shape[1]], 0).sum())
        return held / total if total > 0 else math.nan


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances between the source masks of some pairs.

    Attributes
    ----------
    pair_ids : tuple of str
        Pairs whose source masks these are.
    distance_um : (n, n)
        ``sqrt(S / M)``: S the divergence in mass um^2, M the median mass of these masks. For equal masses and
        short displacements it is the root mean square displacement.
    error_um2 : float
        Largest bound on the error of a squared distance.
    n_unfinished : int
        Solves that ended without a certificate.
    block_px, blur_um : int, float
        Settings: the side of a pixel in canonical pixels, and the blur.
    embedding : Embedding
    """

    pair_ids: tuple[str, ...]
    distance_um: Float
    error_um2: float
    n_unfinished: int
    block_px: int
    blur_um: float
    embedding: Embedding


def sample_members(members: Sequence[Member], most: int, rng: np.random.Generator) -> list[Member]:
    """A random sample of at most `most` members, in order; every group keeps its share and at least one."""
    if len(members) <= most:
        return list(members)
    groups: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        groups.setdefault(member.group, []).append(number)
    # Random order within a group; the k-th of n members comes at (k + 1/2) / n.
    queue = []
    for numbers in groups.values():
        drawn = rng.permutation(numbers)
        queue += [((place + 0.5) / len(drawn), int(number)) for place, number in enumerate(drawn)]
        queue[-len(drawn)] = (0.0, int(drawn[0]))
    return [members[number] for number in sorted(number for _, number in sorted(queue)[:most])]


def mask_distances(
    store: ResultStore,
    members: Sequence[Member],
    grid: AnalysisGrid,
    blur_um: float,
    reach_um: float,
    penalty: str | tuple[str, str] = "partial",
    *,
    jobs: int | None = 1,
    progress: Progress | None = None,
) -> Distances | None:
    """Distances between the source masks of pairs, None for fewer than two that are not empty.

    The masks are pooled to at most `MAX_DISTANCE_BLOCKS` pixels of the whole canvas. They are compared under the given
    penalty with the given blur, or one such pixel where that is more, and the given reach, at most the canvas's diagonal.
    """
    coarse = AnalysisGrid.of(grid.canon_shape_hw, grid.px_size_um, MAX_DISTANCE_BLOCKS)
    masks = [coarse.sums(read_canonical(store, member, grid, ("mass_source",))[0]) for member in members]
    kept = [number for number, mask in enumerate(masks) if mask.any()]
    if len(kept) < 2:
        return None
    config = _coarse_config(coarse, blur_um, reach_um, penalty)
    pairs = list(combinations(kept, 2))
    solved = iter_results(((masks[i], masks[j]) for i, j in pairs), config, jobs=jobs)
    place = {number: position for position, number in enumerate(kept)}
    squared_um2 = np.zeros((len(kept), len(kept)))
    error_um2, n_unfinished = 0.0, 0
    per_mass_um2 = coarse.block_um**2 / float(np.median([masks[number].sum() for number in kept]))
    for done, ((i, j), result) in enumerate(zip(pairs, solved, strict=True), start=1):
        squared_um2[place[i], place[j]] = squared_um2[place[j], place[i]] = result.divergence * per_mass_um2
        error_um2 = max(error_um2, result.divergence_error * per_mass_um2)
        n_unfinished += result.status != Status.converged
        if progress is not None:
            progress("distances between masks", done, len(pairs))
    distance_um = np.sqrt(squared_um2)
    return Distances(
        pair_ids=tuple(members[number].pair_id for number in kept),
        distance_um=distance_um,
        error_um2=error_um2,
        n_unfinished=n_unfinished,
        block_px=coarse.block_px,
        blur_um=float(config.blur_um or math.nan),
        embedding=classical_scaling(distance_um),
    )


def _coarse_config(
    coarse: AnalysisGrid, blur_um: float, reach_um: float, penalty: str | tuple[str, str]
) -> TransportConfig:
    """The cohort's blur, reach and penalty for masks on the coarse grid, one pixel per block."""
    diagonal_um = math.hypot(*coarse.shape_hw) * coarse.block_um
    return TransportConfig(
        blur_um=max(blur_um, coarse.block_um),
        reach_um=min(reach_um, diagonal_um),
        penalty=penalty,
        px_size_um=coarse.block_um,
        mass_mode="intensity",
        pad=0,
        tol=_TOL,
    )


def classical_scaling(distance: Float, n_dims: int = 2) -> Embedding:
    """Points (n, n_dims) from a symmetric matrix of distances (n, n); exact when there are such points."""
    n = len(distance)
    middle = np.eye(n) - 1 / n
    inner = -0.5 * middle @ distance**2 @ middle
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    coordinates = np.zeros((n, n_dims))
    used = min(n, n_dims)
    coordinates[:, :used] = vectors[:, :used] * np.sqrt(np.maximum(values[:used], 0.0))
    largest = np.abs(coordinates).argmax(axis=0)
    coordinates *= np.where(coordinates[largest, np.arange(n_dims)] < 0, -1.0, 1.0)
    return Embedding(coordinates, values)
