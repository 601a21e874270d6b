"""Random pairs of masses of many kinds: blobs, embryos, many pieces, grey images, specks, tiny against huge."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from pairframe.problem import TransportProblem, penalty_of
from pairframe.testing import growing_embryo

FAMILIES = ("blob", "embryo", "pieces", "grey", "full grey", "specks", "tiny and huge")
MIXTURES = (("partial", "tv"), ("tv", "partial"), ("kl", "partial"), ("partial", "kl"), ("tv", "kl"), ("kl", "tv"))


def random_problem(seed: int, family: str | None = None, side_px: tuple[int, int] = (40, 180)) -> TransportProblem:
    """Masses of a family (any, by default), a blur of 0.5 to 8 px, a reach of 5 to 800 px, sharp penalties or mixtures."""
    rng = np.random.default_rng(seed)
    a, b = random_masses(rng, family or str(rng.choice(FAMILIES)), side_px)
    blur, reach = np.exp(rng.uniform(np.log([0.5, 5.0]), np.log([8.0, 800.0])))
    kinds = [("partial", "partial"), ("tv", "tv"), MIXTURES[rng.integers(6)]][rng.choice(3, p=(0.5, 0.25, 0.25))]
    if rng.random() < 0.08:
        kinds = ("balanced", "partial") if a.sum() < b.sum() else ("partial", "balanced")
    penalties = [penalty_of(kind, reach**2 if kind == "kl" else 0.5 * reach**2) for kind in kinds]
    scale = np.sqrt(a.sum() * b.sum())
    return TransportProblem(a / scale, b / scale, blur**2, *penalties)


def random_masses(rng: np.random.Generator, family: str, side_px: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Two masses of one shape, both with some mass."""
    side = int(rng.integers(*side_px))
    shape = (side, int(side * rng.uniform(0.8, 1.8)))
    if family == "blob":
        a = _blob(rng, shape, 0.22)
        b = _moved(rng, a) if rng.random() < 0.5 else _blob(rng, shape, 0.22)
    elif family == "embryo":
        a, b = (growing_embryo(6, shape_hw=(side, 9 * side // 4))[int(t)] for t in rng.integers(0, 6, 2))
        b = _moved(rng, b) if rng.random() < 0.7 else b
    elif family == "pieces":
        a, b = _pieces(rng, shape, int(rng.integers(3, 40)))
    elif family == "grey":
        a, b = (_blob(rng, shape, 0.25) * _texture(rng, shape, 0.5, 4.0) for _ in range(2))
    elif family == "full grey":
        a, b = (_texture(rng, shape, 1.0, 8.0) for _ in range(2))
        a, b = a - 0.9 * a.min(), (b - 0.9 * b.min()) * rng.uniform(0.5, 2.0)
    elif family == "specks":
        a = rng.random(shape) < rng.uniform(0.003, 0.05)
        b = np.roll(a, tuple(rng.integers(-4, 5, 2)), (0, 1)) ^ (rng.random(shape) < 0.005)
    else:
        a, b = _blob(rng, shape, 0.08), _blob(rng, shape, 0.4)
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
    a, b = np.asarray(a, float), np.asarray(b, float)
    return (a, b) if a.any() and b.any() else random_masses(rng, family, side_px)


def _texture(rng: np.random.Generator, shape: tuple[int, int], least_px: float, most_px: float) -> np.ndarray:
    return ndimage.gaussian_filter(rng.random(shape), rng.uniform(least_px, most_px))


def _blob(rng: np.random.Generator, shape: tuple[int, int], size: float) -> np.ndarray:
    """One roundish piece with a wavy outline, near the middle; `size` relative to the height."""
    radius_px = size * shape[0]
    waves = ndimage.gaussian_filter(rng.standard_normal(shape), 0.5 * radius_px)
    centre = rng.uniform(0.35, 0.65, 2) * shape
    stretch = rng.uniform((0.6, 0.8), (1.2, 1.6))
    y, x = ((index - c) / s for index, c, s in zip(np.indices(shape), centre, stretch, strict=True))
    return np.hypot(y, x) < radius_px * (1.0 + 0.35 * waves / waves.std())


def _moved(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """The same mask turned and shifted; parts may leave the image."""
    turned = ndimage.rotate(mask.astype(float), rng.uniform(-40.0, 40.0) * (rng.random() < 0.6), order=1, reshape=False)
    return ndimage.shift(turned, rng.uniform(-0.2, 0.2, 2) * mask.shape, order=1) > 0.5


def _pieces(rng: np.random.Generator, shape: tuple[int, int], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Discs that move, grow, split, vanish and appear."""
    a, b = np.zeros(shape, bool), np.zeros(shape, bool)

    def disc(y: float, x: float, radius: float) -> np.ndarray:
        index = np.indices(shape)
        return (index[0] - y) ** 2 + (index[1] - x) ** 2 < radius**2

    for _ in range(n):
        (y, x), radius, fate = rng.uniform(0, shape), rng.uniform(2.0, 9.0), rng.random()
        a |= disc(y, x, radius)
        dy, dx = rng.normal(0.0, 0.4 * radius, 2)
        if 0.06 <= fate < 0.14:
            b |= disc(y + dy - radius, x + dx, 0.7 * radius) | disc(y + dy + radius, x + dx, 0.7 * radius)
        elif fate >= 0.14:
            b |= disc(y + dy, x + dx, radius * rng.uniform(0.8, 1.25))
    for _ in range(max(1, n // 20)):
        b |= disc(*rng.uniform(0, shape), rng.uniform(2.0, 9.0))
    return a, b
