"""Crowded scenes of cells over two frames, with divisions, fusions, appearances and disappearances planted in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairframe.types import Float, Int

EVENTS = ("continues", "splits", "merges", "appears", "vanishes")


@dataclass(frozen=True, eq=False)
class CellScene:
    """Two label images and the links between their labels.

    Attributes
    ----------
    source, target : (H, W) int32
        Labels of the two frames; ids of one frame say nothing about those of the other.
    links : set of (int, int)
        Source label and target label of every cell that goes on: two per division, two per fusion.
    events : dict of str to int
        How many of each of `EVENTS` were planted.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    links: frozenset[tuple[int, int]]
    events: dict[str, int]


def cell_scene(
    seed: int,
    n_side: int = 12,
    pitch_px: int = 28,
    event_share: float = 0.3,
    shift_px: float = 3.0,
    radius: float = 0.42,
) -> CellScene:
    """Cells on a jittered grid that nearly touch, moved by a smooth flow and some jitter.

    Parameters
    ----------
    n_side : int
        Sites along each side; about one cell per site.
    pitch_px : int
        Distance between sites.
    event_share : float
        Share of the sites at which something happens: a quarter each divides, fuses with a neighbour, appears, vanishes.
    shift_px : float
        Amplitude of the smooth flow; the jitter is a third of it.
    radius : float
        Of a cell, in pitches; above 0.5 cells touch and are cut where they meet.
    """
    rng = np.random.default_rng(seed)
    sites = np.stack(np.meshgrid(np.arange(n_side), np.arange(n_side), indexing="ij"), axis=-1).reshape(-1, 2)
    home = (sites + 1.0) * pitch_px + rng.uniform(-0.06, 0.06, (len(sites), 2)) * pitch_px
    fate = _fates(rng, n_side, event_share)
    r = radius * pitch_px
    before: list[tuple[Float, float]] = []
    after: list[tuple[Float, float]] = []
    links: set[tuple[int, int]] = set()
    for site, event in enumerate(fate):
        if event == "fused":
            continue
        at = home[site]
        to = at + _flow(at, n_side * pitch_px, shift_px) + rng.normal(0, shift_px / 6, 2)
        sources, targets = [(at, r)], [(to, r)]
        if event == "splits":
            angle = rng.uniform(0, np.pi)
            half = 0.62 * r * np.array([np.sin(angle), np.cos(angle)])
            targets = [(to + half, r / np.sqrt(2)), (to - half, r / np.sqrt(2))]
        elif event == "merges":  # with the site to its right
            sources.append((home[site + 1], r))
            middle = 0.5 * (at + home[site + 1])
            targets = [(middle + _flow(middle, n_side * pitch_px, shift_px), r * np.sqrt(2))]
        elif event == "appears":
            sources = []
        elif event == "vanishes":
            targets = []
        first_source, first_target = len(before) + 1, len(after) + 1
        before += sources
        after += targets
        links |= {(first_source + i, first_target + j) for i in range(len(sources)) for j in range(len(targets))}
    shape = ((n_side + 1) * pitch_px, (n_side + 1) * pitch_px)
    counts = {name: fate.count(name) for name in EVENTS}
    return CellScene(_drawn(before, shape), _drawn(after, shape), frozenset(links), counts)


def _fates(rng: np.random.Generator, n_side: int, event_share: float) -> list[str]:
    """What happens at each site; a fusion takes the site to its right as well.

    A cell that vanishes beside one that appears is a cell that moved: the masks cannot tell, so it is not planted.
    """
    opposite = {"appears": "vanishes", "vanishes": "appears"}
    fate = np.full((n_side, n_side), "continues", dtype=object)
    for site in rng.permutation(n_side * n_side)[: int(event_share * n_side**2)]:
        row, column = divmod(int(site), n_side)
        event = EVENTS[1 + int(rng.integers(4))]
        if fate[row, column] != "continues":
            continue
        if event == "merges":
            if column + 1 == n_side or fate[row, column + 1] != "continues":
                continue
            fate[row, column + 1] = "fused"
        around = fate[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        if (around == opposite.get(event)).any():
            continue
        fate[row, column] = event
    return [str(name) for name in fate.ravel()]


def _flow(at: Float, width: float, shift_px: float) -> Float:
    y, x = 2 * np.pi * at / width
    return shift_px * np.array([np.sin(x), np.cos(y)])


def _drawn(cells: list[tuple[Float, float]], shape: tuple[int, int]) -> NDArray[np.int32]:
    """Label image of discs, 1, 2, ...; a pixel of two discs belongs to the one whose border is farther away."""
    labels, depth = np.zeros(shape, dtype=np.int32), np.zeros(shape)
    for number, (centre, radius) in enumerate(cells, 1):
        low: Int = np.maximum(np.floor(centre - radius).astype(int), 0)
        high = np.minimum(np.ceil(centre + radius).astype(int) + 1, shape)
        if (high <= low).any():
            continue
        y, x = np.ogrid[low[0] : high[0], low[1] : high[1]]
        inside = radius - np.hypot(y - centre[0], x - centre[1])
        box = (slice(low[0], high[0]), slice(low[1], high[1]))
        wins = inside > depth[box]
        labels[box][wins] = number
        depth[box][wins] = inside[wins]
    return labels
