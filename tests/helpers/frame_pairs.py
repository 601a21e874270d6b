"""Random masks, policies and boxes for the laws of the pair frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pairframe import BoxYX, GridTransform

EDGES = ("none", "top", "bottom", "left", "right", "all")


@dataclass
class Pair:
    """Two densities on one canvas and the arguments of `from_pair`."""

    a: np.ndarray
    b: np.ndarray
    s: int
    pad: int
    policy: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def transform(self) -> GridTransform:
        return GridTransform.from_pair(self.a, self.b, self.s, self.pad, crop_policy=self.policy, **self.arguments)

    def __repr__(self) -> str:
        return f"Pair(canvas={self.a.shape}, s={self.s}, pad={self.pad}, {self.policy}, {self.arguments})"


def draw_object(rng: np.random.Generator, shape: tuple[int, int], edge: str, integers: bool) -> np.ndarray:
    """A random box with random content, holes included, stretched to the asked edges."""
    h, w = shape
    y0, x0 = rng.integers(0, h), rng.integers(0, w)
    y1, x1 = rng.integers(y0, h) + 1, rng.integers(x0, w) + 1
    y0 = 0 if edge in ("top", "all") else y0
    y1 = h if edge in ("bottom", "all") else y1
    x0 = 0 if edge in ("left", "all") else x0
    x1 = w if edge in ("right", "all") else x1
    density = np.zeros(shape)
    size = (y1 - y0, x1 - x0)
    inside = rng.integers(0, 4, size).astype(float) if integers else rng.random(size) * (rng.random(size) < 0.7)
    density[y0:y1, x0:x1] = inside
    for y, x in ((y0, x0), (y1 - 1, x1 - 1)):  # the corners carry mass, so the box is tight and never empty
        density[y, x] = 1.0
    return density


@st.composite
def pairs(
    draw: st.DrawFn, policies: tuple[str, ...] = ("union", "fixed", "bucketed"), integers: bool | None = None
) -> Pair:
    shape = draw(st.integers(1, 300)), draw(st.integers(1, 700))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    whole = draw(st.booleans()) if integers is None else integers
    a, b = (draw_object(rng, shape, draw(st.sampled_from(EDGES)), whole) for _ in range(2))
    empty = draw(st.sampled_from(("neither", "neither", "a", "b")))
    a, b = a * (empty != "a"), b * (empty != "b")
    pair = Pair(a, b, draw(st.integers(1, 9)), draw(st.integers(0, 64)), draw(st.sampled_from(policies)))
    if pair.policy == "fixed":
        rows, cols = np.nonzero(a + b)
        grow = draw(st.integers(0, 20))
        pair.arguments["override_pair_bbox"] = BoxYX(
            rows.min() - grow, rows.max() + 1 + grow, cols.min() - grow, cols.max() + 1 + grow
        )
    if pair.policy == "bucketed":
        union = GridTransform.from_pair(a, b, pair.s, pair.pad)
        h, w = union.work_shape_hw
        pair.arguments["bucket_shapes"] = [(h + draw(st.integers(0, 9)), w + draw(st.integers(0, 9))), (h + 50, w + 50)]
        pair.arguments["bucket_mode"] = draw(st.sampled_from(("next_larger", "nearest")))
    return pair
