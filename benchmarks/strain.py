"""How exact is the strain of planted affine maps, and what limits it: the method, or the pixels of the outlines?

    python benchmarks/strain.py [--quick] [affine] [placed] [turned] [smoothed]

``affine``: a disc, an ellipse and an embryo, stretched by 5 to 30 % in three ways, at three blurs; outlines with grey pixels
(the covered share of each) and binary ones. ``placed``: one binary pair at many places between the pixels, the errors beside
those of their mean. ``turned``: the same shapes turned and aligned. ``smoothed``: the maps of binary masks, averaged over a
window, and a mask of which only one half grows. Everything is counted, nothing is timed. Writes benchmarks/out/strain.json.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy import ndimage

import pairframe as pf
from harness import write_json
from pairframe.results.strain_maps import areal_expansion
from pairframe.testing import embryo

SAMPLES = 24  # along each side of a pixel of the outline
EVEN = pf.TransportConfig(penalty="balanced", normalization="each", mass_mode="intensity", strain=True)
SHAPES = {"disc": (140, 140), "ellipse": (200, 240), "embryo": (320, 420)}
KINDS = {"all directions": [[1, 0], [0, 1]], "along x": [[0, 0], [0, 1]], "shear": [[0, 1], [1, 0]]}
_FINE = 12.0  # pixels of the drawing of the embryo per pixel


@cache
def fine_embryo() -> tuple[np.ndarray, tuple[float, float]]:
    drawn = embryo((int(256 * _FINE), int(576 * _FINE)), growth=_FINE)
    rows, columns = np.nonzero(drawn)
    return drawn, (rows.mean(), columns.mean())


def is_inside(shape: str, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Whether points, px from the centre, lie in a shape."""
    if shape == "disc":
        return y**2 + x**2 <= 40**2
    if shape == "ellipse":
        return (y / 40) ** 2 + (x / 70) ** 2 <= 1
    drawn, centre = fine_embryo()
    row, column = (
        np.rint(along * _FINE / 0.65 + middle).astype(int) for along, middle in zip((y, x), centre, strict=True)
    )
    on = (row >= 0) & (row < drawn.shape[0]) & (column >= 0) & (column < drawn.shape[1])
    return on & drawn[np.where(on, row, 0), np.where(on, column, 0)]


def covered(shape: str, matrix: np.ndarray, at_yx: tuple[float, float] = (0.3, 0.3)) -> np.ndarray:
    """The image of a shape under a matrix: the share of each pixel inside it."""
    height, width = SHAPES[shape]
    back = np.linalg.inv(matrix)

    def inside(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        y, x = y - height / 2 - at_yx[0], x - width / 2 - at_yx[1]
        return is_inside(shape, back[0, 0] * y + back[0, 1] * x, back[1, 0] * y + back[1, 1] * x)

    rows, columns = np.mgrid[:height, :width]
    share = inside(rows + 0.5, columns + 0.5).astype(np.float64)
    near = ndimage.maximum_filter(share, 5) != ndimage.minimum_filter(share, 5)
    sub = (np.arange(SAMPLES) + 0.5) / SAMPLES
    y, x = rows[near][:, None, None] + sub[:, None], columns[near][:, None, None] + sub
    share[near] = inside(*np.broadcast_arrays(y, x)).mean(axis=(1, 2))
    return share


def depth_px(share: np.ndarray) -> np.ndarray:
    return ndimage.distance_transform_edt(share >= 0.999)


def affine_maps(percents: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    for kind, pattern in KINDS.items():
        for percent in percents:
            yield f"{percent} % {kind}", percent / 100 * np.array(pattern, dtype=float)


class Errors:
    """Largest and mean errors of entries, of their means over the object, and of the areal expansion, by depth."""

    def __init__(self) -> None:
        self.found: dict[str, list[tuple[float, ...]]] = {}

    def add(self, strain: np.ndarray, planted: np.ndarray, depth: np.ndarray, depths: dict[str, float]) -> None:
        for name, least in depths.items():
            on = depth > least
            if np.count_nonzero(on) >= 50:
                error = strain[on] - planted
                area = np.abs(areal_expansion(strain[on]) - areal_expansion(planted))
                of_mean = np.abs(error.mean(axis=0)).max()
                found = (np.abs(error).max(), np.abs(error).mean(), of_mean, area.max())
                self.found.setdefault(name, []).append(found)

    def row(self) -> dict[str, dict[str, float]]:
        """The worst of all cases."""
        names = ("largest", "mean", "of_the_mean", "largest_of_area")
        return {
            depth: dict(zip(names, (round(float(v), 5) for v in np.max(values, axis=0)), strict=True))
            for depth, values in self.found.items()
        }


def depths_of(blur: float) -> dict[str, float]:
    return {"2 blurs": 2 * blur, "4 blurs": 4 * blur, "6 px": 6.0, "8 px": 8.0, "12 px": 12.0, "16 px": 16.0}


def affine(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for shape in SHAPES:
        rest = covered(shape, np.eye(2))
        for blur in (2.0,) if quick else (1.5, 2.0, 3.0):
            grey, binary = Errors(), Errors()
            for _, planted in affine_maps((15,) if quick else (5, 15, 30)):
                moved = covered(shape, np.eye(2) + planted)
                for kind, errors in (("grey", grey), ("binary", binary)):
                    pair = (rest, moved) if kind == "grey" else (rest >= 0.5, moved >= 0.5)
                    result = pf.compare(*(np.asarray(one, float) for one in pair), replace(EVEN, blur_um=blur))
                    errors.add(result.strain, planted, depth_px(rest), depths_of(blur))
            for kind, errors in (("grey", grey), ("binary", binary)):
                rows.append({"shape": shape, "blur_px": blur, "outline": kind, **errors.row()})
                print(rows[-1], flush=True)
    return rows


def placed(quick: bool) -> dict[str, Any]:
    """Errors of single binary pairs, and of the mean map over all places: what is left of it is not the pixels."""
    planted, blur = 0.15 * np.array(KINDS["shear"], dtype=float), 2.0
    rng, errors, single = np.random.default_rng(0), [], Errors()
    rest = covered("ellipse", np.eye(2))
    for _ in range(4 if quick else 32):
        # Both masks at their own places between the pixels: a shift has no strain.
        masks = [covered("ellipse", matrix, rng.uniform(0, 1, 2)) >= 0.5 for matrix in (np.eye(2), np.eye(2) + planted)]
        result = pf.compare(*(one.astype(float) for one in masks), replace(EVEN, blur_um=blur))
        errors.append(result.strain - planted)
        single.add(result.strain, planted, depth_px(rest) - 1, depths_of(blur))
    mean = Errors()
    mean.add(np.mean(errors, axis=0) + planted, planted, depth_px(rest) - 1, depths_of(blur))
    spread = {
        f"{depth} px": round(float(np.std(errors, axis=0)[np.abs(depth_px(rest) - depth) < 0.5].mean()), 5)
        for depth in (3, 4, 6, 8, 12, 16, 24)
    }
    row = {"n": len(errors), "single": single.row(), "mean_map": mean.row(), "standard_deviation_at_depth": spread}
    print(row)
    return row


def turned(quick: bool) -> list[dict[str, Any]]:
    rows, config = [], pf.TransportConfig(strain=True, align="rigid", mass_mode="intensity")
    for shape in ("ellipse",) if quick else ("ellipse", "embryo"):
        rest = covered(shape, np.eye(2))
        for degrees in (12,) if quick else (5, 12, 20, 34, 41):
            angle = math.radians(degrees)
            turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            moved = covered(shape, turn)
            for kind, pair in (("grey", (rest, moved)), ("binary", (rest >= 0.5, moved >= 0.5))):
                result = pf.compare(*(np.asarray(one, float) for one in pair), config)
                source = result.transform.rasterize_to_canon(result.work.mass_source)
                depth = ndimage.distance_transform_edt(source >= 0.999 * source.max())
                row = {"shape": shape, "turn_deg": degrees, "outline": kind}
                for least in (8.0, 12.0):
                    left = np.abs(result.strain[depth > least])
                    row[f"{least:g} px"] = {
                        "largest": round(float(np.nanmax(left)), 5),
                        "median": round(float(np.nanmedian(left)), 5),
                        "of_the_mean": round(float(np.abs(result.strain[depth > least].mean(axis=0)).max()), 5),
                    }
                row["turn_left_deg"] = round(abs((result.pose.angle_deg + degrees + 90) % 180 - 90), 4)
                rows.append(row)
                print(row, flush=True)
    return rows


def smooth(strain: np.ndarray, sigma_px: float) -> np.ndarray:
    """Mean over a Gaussian window, of the pixels of the object."""
    on = np.isfinite(strain[..., 0, 0])
    weight = ndimage.gaussian_filter(on.astype(float), sigma_px)
    filled = np.where(on[..., None, None], strain, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = ndimage.gaussian_filter(filled, (sigma_px, sigma_px, 0, 0)) / weight[..., None, None]
    return np.where(on[..., None, None], found, np.nan)


def smoothed(quick: bool) -> dict[str, Any]:
    blur, windows = 2.0, (0.0, 2.0, 4.0, 8.0)
    found: dict[str, Any] = {}
    for shape in ("ellipse",) if quick else tuple(SHAPES):
        rest = covered(shape, np.eye(2))
        errors = {window: Errors() for window in windows}
        for _, planted in affine_maps((15,)):
            moved = covered(shape, np.eye(2) + planted)
            result = pf.compare(*((one >= 0.5).astype(float) for one in (rest, moved)), replace(EVEN, blur_um=blur))
            for window, kept in errors.items():
                strain = smooth(result.strain, window) if window else result.strain
                kept.add(strain, planted, depth_px(rest), depths_of(blur))
        found[shape] = {f"window of {window:g} px": kept.row() for window, kept in errors.items()}
        print(shape, found[shape], flush=True)
    # A bar of 60 x 160 px whose right half becomes 20 % longer.
    bar, grown = np.zeros((90, 230)), np.zeros((90, 230))
    bar[15:75, 20:180], grown[15:75, 20:196] = 1.0, 1.0
    planted_density = bar.copy()
    grown[15:75, 100:196] *= 80 / 96
    result = pf.compare(planted_density, grown, replace(EVEN, blur_um=blur))
    truth = np.where(np.arange(230) < 100, 0.0, 0.2)
    for window in windows:
        strain = smooth(result.strain, window) if window else result.strain
        across = strain[45, 28:172, 1, 1]
        off = np.abs(across - truth[28:172])
        found[f"half grows, window of {window:g} px"] = {"px_off_by_over_0.02": int((off > 0.02).sum())}
    print({name: row for name, row in found.items() if name.startswith("half")})
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("rows", nargs="*", default=["affine", "placed", "turned", "smoothed"])
    given = parser.parse_args()
    jobs = {"affine": affine, "placed": placed, "turned": turned, "smoothed": smoothed}
    content = {name: jobs[name](given.quick) for name in given.rows}
    if not given.quick:
        write_json("strain", content)
