"""Pieces of masks and their lengths."""

from __future__ import annotations

import math

import numpy as np

from pairframe.masks.pieces import label_pieces, piece_lengths, typical_length
from pairframe.testing import disc


def test_pixels_that_touch_at_a_corner_are_one_piece() -> None:
    labels, n_pieces = label_pieces(np.eye(4, dtype=bool))
    assert n_pieces == 1
    assert (labels == np.eye(4)).all()


def test_lengths_are_diagonals_and_masses_sums() -> None:
    density = np.zeros((20, 30))
    density[2:5, 3:7] = 2.0
    density[10, 20] = 5.0
    lengths, masses = piece_lengths(density)
    assert lengths.tolist() == [5.0, math.sqrt(2)]
    assert masses.tolist() == [24.0, 5.0]


def test_the_typical_length_is_the_median_by_mass() -> None:
    embryo = disc((80, 80), (40, 40), 20)
    dust = np.zeros((80, 80), bool)
    dust[::6, ::6] = True
    assert typical_length(embryo | (dust & ~disc((80, 80), (40, 40), 23))) == math.hypot(41, 41)
    assert typical_length(embryo, disc((80, 80), (40, 40), 4)) == math.hypot(41, 41)
    assert math.isnan(typical_length(np.zeros((4, 4)), np.zeros((4, 4))))
    assert typical_length(np.ones((3, 4, 12))) == 13.0, "volumes too"
