"""The bounds of the proof hold at every pose, and the proof finds what is true."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pairframe as pf
from pairframe.alignment.cloud import Cloud
from pairframe.alignment.proof import Prover
from pairframe.testing import disc, planted_pair


def violations(n: int, seed: int) -> int:
    """How often the overlap at a random pose of a random cell exceeds the bound of the cell."""
    rng = np.random.default_rng(seed)
    found = 0
    per_pair = 500
    for number in range(n // per_pair):
        ratio = float(rng.choice([1.0, 0.6, 1.7]))
        pair = planted_pair(seed + number, "mixed", px_ratio=ratio, growth=0.4, shape_hw=(130, 200))
        scale = float(rng.uniform(0.7, 1.4))
        prover = Prover(Cloud(pair.source, 1.0), Cloud(pair.target, ratio), scale)
        for _ in range(per_pair):
            cell = (rng.uniform(-60, 60, 2), rng.uniform(-math.pi, math.pi), bool(rng.random() < 0.5))
            turn, side = 10 ** rng.uniform(-3, 0.5), 10 ** rng.uniform(-2, 1.8)
            block = int(rng.choice([1, 2, 4, 8]))
            # Corners of the cell are the worst poses.
            inner = rng.uniform(-0.5, 0.5, 3) if rng.random() < 0.5 else rng.choice([-0.5, 0.5], 3)
            bound = prover.bound((cell[0][0], cell[0][1]), cell[1], cell[2], turn, side, block)
            shift = (float(cell[0][0] + inner[0] * side), float(cell[0][1] + inner[1] * side))
            found += prover.overlap(shift, cell[1] + inner[2] * turn, cell[2]) > bound
    return found


def test_no_pose_of_a_cell_overlaps_more_than_its_bound() -> None:
    assert violations(4000, seed=0) == 0


@pytest.mark.slow
def test_none_of_a_hundred_thousand_does() -> None:
    assert violations(100_000, seed=1) == 0


def test_a_small_cell_has_a_useful_bound() -> None:
    pair = planted_pair(0, "rigid", flip=False)
    prover = Prover(Cloud(pair.source, 1.0), Cloud(pair.target, 1.0), 1.0)
    far_off = prover.overlap((0.0, 0.0), 1.5, False)
    bound = prover.bound((0.0, 0.0), 1.5, False, 1e-6, 1e-6)
    assert far_off <= bound < 1.3 * far_off


@pytest.mark.parametrize("change", ["rigid", "head", "bend", "missing"])
def test_the_flip_of_an_embryo_is_proven(change: str) -> None:
    pair = planted_pair(11, change)
    proof = pf.align(pair.source, pair.target, allow_flip=True, prove="flip").proof
    assert proof is not None
    assert proof.proven
    assert proof.bound < proof.overlap
    assert proof.claim == "flip"


def test_the_turn_of_an_embryo_is_proven() -> None:
    pair = planted_pair(12, "rigid", flip=False)
    proof = pf.align(pair.source, pair.target, prove=10).proof
    assert proof is not None
    assert proof.proven
    assert proof.claim == "10 degrees"


@pytest.mark.slow
def test_a_flip_that_ties_is_not_proven() -> None:
    y, x = np.indices((60, 90)) - np.array([30, 45])[:, None, None]
    drop = (y**2 <= (20 - 0.3 * x) ** 2) & (np.abs(x) < 35) & (x < 35)
    proof = pf.align(drop, drop, allow_flip=True, prove="flip").proof
    assert proof is not None
    assert not proof.proven
    assert proof.bound >= proof.overlap


def test_a_shift_has_no_proof_of_a_turn() -> None:
    assert pf.align(disc((90, 90), (45, 45), 30), disc((90, 90), (42, 47), 30), prove="flip").proof is None
