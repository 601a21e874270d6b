"""Situations with a known truth, and the notices that each of them should get: no fewer and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pairframe.testing.shapes import disc, embryo
from pairframe.types import Bool

SIZES_PX = (48, 96, 192)  # lengths of the embryo


@dataclass(frozen=True, eq=False)
class Situation:
    """A pair of masks of which the truth is known.

    Attributes
    ----------
    name : str
        What happened.
    source, target : (H, W) bool
    codes : frozenset of str
        Codes of the notices that the comparison should have.
    config : mapping
        Fields of `TransportConfig` that are not the defaults.
    """

    name: str
    source: Bool
    target: Bool
    codes: frozenset[str] = frozenset()
    config: Mapping[str, Any] = field(default_factory=dict)


def situations(size_px: int) -> list[Situation]:
    """All situations with an embryo of this length, px, or with cells of a quarter of it."""
    return [*_of_an_embryo(size_px), *_of_cells(size_px), *_of_settings(size_px)]


def _of_an_embryo(size: int) -> list[Situation]:
    body = _embryo(size)
    drifted, inverted = frozenset({"motion_called_growth"}), frozenset({"inverted_mask"})
    centred = _centred(body)
    tip = body | np.roll(body, size // 12, axis=1) & _right_of(body, 0.7)
    flicker = body.copy()
    y, x = np.argwhere(body)[0]
    flicker[y - 1, x] = True
    return [
        Situation("still", body, body),
        Situation("one pixel flickers", body, flicker),
        Situation("shifted by a tenth of its length", body, np.roll(body, size // 10, axis=1)),
        Situation("shifted by a third of its length", body, np.roll(body, size // 3, axis=1)),
        Situation("stage drifted by its length", body, np.roll(body, size, axis=1), drifted),
        Situation(
            "shifted by half its length", body, np.roll(body, size // 2, axis=1), frozenset({"centre_moved_far"})
        ),
        Situation("turned by 30 degrees", centred, _turned(centred, 30)),
        Situation("turned by 90 degrees", centred, np.rot90(centred).copy()),
        Situation("flipped", centred, centred[::-1].copy()),
        Situation("grown at the rim", body, _dilated(body, max(1, size // 40))),
        Situation("grown at the tip", body, tip),
        Situation("shrunk at the rim", _dilated(body, max(1, size // 40)), body),
        Situation("died", body, np.zeros_like(body)),
        Situation("target inverted", body, ~body, inverted),
    ]


def _of_cells(size: int) -> list[Situation]:
    radius = size / 10
    side, shape = 4 * radius, (int(14 * radius), int(22 * radius))
    cells = [disc(shape, (3 * radius + side * i, 3 * radius + side * j), radius) for i in range(3) for j in range(4)]
    everything, all_but_first, all_but_last = (_union(some) for some in (cells, cells[1:], cells[:-1]))
    one = disc(shape, (7 * radius, 9 * radius), 1.4 * radius)
    two = _union([disc(shape, (7 * radius, (9 + step) * radius), radius) for step in (-1.4, 1.4)])
    drifted, exchanged = frozenset({"motion_called_growth"}), frozenset({"mass_between_pieces"})
    both = drifted | exchanged  # on the way to the neighbours, cells are divided between two
    return [
        Situation("cells moved by a quarter of their size", everything, _moved(everything, 0.5 * radius)),
        Situation("scene drifted by the size of a cell", everything, _moved(everything, 2 * radius), both),
        Situation("scene drifted by three quarters of the spacing", everything, _moved(everything, 3 * radius), both),
        Situation("a cell died", everything, all_but_first),
        Situation("a cell was born", all_but_first, everything),
        Situation("a cell split", one, two),
        Situation("two cells merged", two, one),
        Situation("label of another cell", cells[0], cells[-1], drifted),
        Situation(
            "one died, one was born far away, long reach", all_but_first, all_but_last, exchanged,
            {"reach_um": 16 * radius},
        ),
    ]  # fmt: skip


def _of_settings(size: int) -> list[Situation]:
    body, shape = _embryo(size), (80, 4 * size + 80)
    speck = disc((40, 40), (20, 20), 2)
    dot, reach = disc(shape, (40, 30), 3), 4.0 * size
    tilted = frozenset({"kl_response", "motion_called_growth"})  # a quarter of it is called created and destroyed
    kl = {"penalty": "kl", "reach_um": size / 6}
    short = {"penalty": "kl", "reference": "product", "reach_um": 3.0}
    return [
        Situation("kl, shifted", body, np.roll(body, size // 6, axis=1), tilted, kl),
        Situation(
            "reach as short as the blur", body, body, frozenset({"kl_response", "blur_too_long", "noise_floor"}), short
        ),
        Situation("a speck", speck, np.roll(speck, 1, axis=0), frozenset({"blur_too_long"})),
        Situation(
            "moved nearly as far as the reach", dot, np.roll(dot, round(0.93 * reach), axis=1),
            frozenset({"moved_near_reach"}), {"reach_um": reach, "blur_um": 1.0},
        ),
    ]  # fmt: skip


def _embryo(size: int) -> Bool:
    """On a square canvas, so that it can be turned, with room for a drift by its length."""
    scale = size / 330
    side = int(3.4 * size)
    return embryo((side, side), growth=scale, centre_yx=(side / 2, 0.35 * side))


def _centred(mask: Bool) -> Bool:
    """The mask with its centre of mass in the middle of the canvas."""
    middle = np.argwhere(mask).mean(axis=0)
    return np.roll(mask, np.rint((np.array(mask.shape) - 1) / 2 - middle).astype(int), axis=(0, 1))


def _union(masks: list[Bool]) -> Bool:
    found: Bool = np.any(masks, axis=0)
    return found


def _moved(mask: Bool, shift_px: float) -> Bool:
    return np.roll(mask, round(shift_px), axis=1)


def _right_of(mask: Bool, share: float) -> Bool:
    """The pixels of the canvas beyond a share of the mask's width."""
    columns = np.flatnonzero(mask.any(axis=0))
    start = int(columns[0] + share * (columns[-1] - columns[0]))
    inside: Bool = np.broadcast_to(np.arange(mask.shape[1]) >= start, mask.shape)
    return inside


def _dilated(mask: Bool, px: int) -> Bool:
    from scipy import ndimage

    found: Bool = ndimage.binary_dilation(mask, np.ones((3, 3), bool), iterations=px)
    return found


def _turned(mask: Bool, angle_deg: float) -> Bool:
    from scipy import ndimage

    found: Bool = ndimage.rotate(mask.astype(np.float64), angle_deg, reshape=False, order=1) > 0.5
    return found


Compare = Callable[..., Any]


def codes_of(situation: Situation, compare: Compare, config_class: Compare) -> set[str]:
    """The codes that a comparison gives, with `pairframe.compare` and `pairframe.TransportConfig`."""
    result = compare(situation.source, situation.target, config_class(**situation.config))
    return {notice.code for notice in result.notices}
