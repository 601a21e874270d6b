"""`GridTransform`: coordinates, mass and units between the canonical image or volume and the work grid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe import checks, plain_json
from pairframe.errors import FrameError
from pairframe.frame import golden
from pairframe.frame.box import Box, BoxYX
from pairframe.frame.bucket import check_bucket_mode, parse_bucket_shapes, pick_bucket
from pairframe.frame.crop import (
    Boxes,
    check_density,
    check_factor,
    check_pad,
    check_pair,
    make_divisible,
    shares_outside,
    union_box,
)
from pairframe.frame.fields import (
    int_sides,
    new_array,
    parse_points,
    require_consistent,
    require_shape,
    require_used,
    share_pair,
    sides_text,
)
from pairframe.frame.pool import real_pixels_per_block, splat, sum_pool
from pairframe.masks.arrays import as_numeric, finite_total
from pairframe.types import Float
from pairframe.units import PxSize, Units, px_size_text

CropPolicy = Literal["union", "fixed", "bucketed"]
CROP_POLICIES = ("union", "fixed", "bucketed")
BucketMode = Literal["next_larger", "nearest"]


@dataclass(frozen=True)
class GridTransform:
    """The shared stage of one pair: canonical canvas -> crop -> work grid (-> bucket), and back.

    Shapes, boxes and positions of a volume have a third axis, z, in front of y and x; the names are those of images.

    Attributes
    ----------
    canon_shape_hw : (Hc, Wc) or (Zc, Yc, Xc)
        The full canvas, in canonical pixels.
    pair_crop_box_yx : BoxYX, or Box for a volume
        The crop, in canonical pixels; its sides are multiples of `downsample_factor`. It starts on the canvas, and ends
        past it only where the canvas is too small for a whole number of blocks; pixels out there do not exist and are 0.
    downsample_factor : int
        Side ``s`` of a block: one work pixel holds the summed mass of ``s x s`` canonical pixels.
    work_shape_hw : (Hw, Ww) or (Zw, Yw, Xw)
        The array that engines see, in work pixels: the bucket's shape when bucketed.
    work_valid_box_yx : BoxYX, or Box for a volume
        Where the crop lives in that array.
    work_pad_offsets_yx : (dy, dx) or (dz, dy, dx)
        Its corner there.
    px_size_um : float, (float, float, float) or None
        Side of a canonical pixel in um; of a voxel, its sides (z, y, x). None: unknown, and the lengths and areas below are in pixels; see `units`.
    clipped_share_ab : (float, float)
        Share of each mask's mass outside the crop; zero unless clipping was allowed.
    """

    canon_shape_hw: tuple[int, ...]
    pair_crop_box_yx: Box
    downsample_factor: int
    work_shape_hw: tuple[int, ...]
    work_valid_box_yx: Box
    work_pad_offsets_yx: tuple[int, ...]
    px_size_um: PxSize | None
    clipped_share_ab: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        s = check_factor(self.downsample_factor)
        object.__setattr__(self, "downsample_factor", s)
        for name, least in (("canon_shape_hw", 1), ("work_shape_hw", 1), ("work_pad_offsets_yx", 0)):
            object.__setattr__(self, name, int_sides(getattr(self, name), name, least))
        size = self.units.px_size_um
        if isinstance(size, tuple) and len(size) != self.n_axes:
            raise FrameError("three sides of a voxel with a volume", f"{size} for an image", "give one pixel size")
        object.__setattr__(self, "px_size_um", size)
        object.__setattr__(self, "clipped_share_ab", share_pair(self.clipped_share_ab, "clipped_share_ab"))
        require_consistent(
            self.canon_shape_hw,
            self.pair_crop_box_yx,
            s,
            self.work_shape_hw,
            self.work_valid_box_yx,
            self.work_pad_offsets_yx,
        )

    # --- construction ------------------------------------------------------------------------

    @classmethod
    def from_pair(
        cls,
        mask_a: ArrayLike,
        mask_b: ArrayLike,
        s: int,
        pad: int = 16,
        crop_policy: CropPolicy = "union",
        override_pair_bbox: BoxYX | None = None,
        bucket_shapes: Sequence[tuple[int, int]] | None = None,
        bucket_mode: BucketMode = "next_larger",
        px_size_um: PxSize | None = 8.0,
        allow_clipping: bool = False,
    ) -> GridTransform:
        """The shared frame of two canonical masks or densities.

        Parameters
        ----------
        mask_a, mask_b : (Hc, Wc) or (Zc, Yc, Xc) array-like
            Finite and non-negative, on one canvas; one of them may be empty. A `Mask` stands for its values.
        s : int
            Downsample factor, >= 1.
        pad : int
            Canonical pixels added around both objects (clamped to the canvas; not with ``fixed``); a quarter of it in volumes.
        crop_policy : {"union", "fixed", "bucketed"}
            ``union``: the box around both. ``fixed``: `override_pair_bbox`. ``bucketed``: ``union``, then zero-padded in
            work space to one of `bucket_shapes`.
        bucket_shapes : list of (Hb, Wb), in WORK pixels
        bucket_mode : {"next_larger", "nearest"}
            See `pairframe.frame.pick_bucket`.
        px_size_um : float or None
            Side of a canonical pixel in um. The default is a convention, not a measurement: give your own, such as
            ``mask.px_size_um``. None means unknown: lengths are then in pixels.
        allow_clipping : bool
            Let a ``fixed`` box cut mass away; the lost shares are recorded in `clipped_share_ab`.
        """
        checks.choice(crop_policy, "crop_policy", CROP_POLICIES, error=FrameError)
        check_bucket_mode(bucket_mode)
        s, pad, px_size_um = check_factor(s), check_pad(pad), Units(px_size_um).px_size_um
        a, b, tight_boxes = check_pair(mask_a, mask_b)
        return cls.from_densities(
            a,
            b,
            tight_boxes,
            s,
            pad,
            crop_policy,
            override_pair_bbox,
            bucket_shapes,
            bucket_mode,
            px_size_um,
            allow_clipping,
        )

    @classmethod
    def from_densities(
        cls,
        a: NDArray[Any],
        b: NDArray[Any],
        tight_boxes: Boxes,
        s: int,
        pad: int,
        crop_policy: str,
        override_pair_bbox: BoxYX | None,
        bucket_shapes: Sequence[tuple[int, int]] | None,
        bucket_mode: str,
        px_size_um: PxSize | None,
        allow_clipping: bool,
    ) -> GridTransform:
        """`from_pair` for arguments that were checked before; `tight_boxes` are those of `a` and `b`, (Hc, Wc) each."""
        require_used(crop_policy, override_pair_bbox, bucket_shapes, allow_clipping)
        canvas = a.shape
        units = Units(px_size_um, len(canvas))
        if len(canvas) > 2 and crop_policy != "union":
            raise FrameError(
                'crop_policy="union" for a volume', repr(crop_policy), "leave it out, or crop the volumes first"
            )
        if crop_policy == "fixed":
            assert override_pair_bbox is not None  # checked by require_used
            box: Box = override_pair_bbox.clamp(canvas)
        else:
            box = union_box(tight_boxes, pad, canvas, units.spacing if len(canvas) > 2 else ())
        of = BoxYX.of if len(canvas) == 2 else Box.of
        whole_blocks = make_divisible(box, s, canvas)
        crop = of(whole_blocks.lo, whole_blocks.hi)
        work_shape = tuple(side // s for side in crop.shape)
        bucket = work_shape
        if crop_policy == "bucketed":
            height, width = work_shape
            bucket = pick_bucket((height, width), parse_bucket_shapes(bucket_shapes), bucket_mode)
        transform = cls(
            canon_shape_hw=canvas,
            pair_crop_box_yx=crop,
            downsample_factor=s,
            work_shape_hw=bucket,
            work_valid_box_yx=of((0,) * len(canvas), work_shape),
            work_pad_offsets_yx=(0,) * len(canvas),
            px_size_um=px_size_um,
            clipped_share_ab=shares_outside(a, b, tight_boxes, crop, allow_clipping),
        )
        if golden.is_debug():
            golden.check_containment(transform, tight_boxes)
        return transform

    # --- units -------------------------------------------------------------------------------

    @property
    def units(self) -> Units:
        """The unit of lengths and areas: um, or px if no pixel size is known."""
        sides = self.px_size_um  # a list while the JSON of a volume is read
        return _units(sides, self.n_axes) if isinstance(sides, float | None) else Units(sides, self.n_axes)

    @property
    def n_axes(self) -> int:
        """2 for images, 3 for volumes."""
        return len(self.canon_shape_hw)

    @property
    def is_volume(self) -> bool:
        """Whether the canvas has three axes."""
        return self.n_axes == 3

    @property
    def px_area_um2(self) -> float:
        """Area of a canonical pixel; of a voxel, its volume in um^3."""
        return self.units.px_area

    @property
    def px_sides_um(self) -> tuple[float, ...]:
        """Sides of a canonical pixel along each axis."""
        return self.units.px_sides

    @property
    def work_px_size_um(self) -> float:
        """Side of a work pixel; of a voxel, its shortest side, which is the unit of displacements in work pixels."""
        return self.downsample_factor * self.units.px_size

    @property
    def work_px_area_um2(self) -> float:
        """Area of a work pixel; of a work voxel, its volume in um^3."""
        return self.work_px_size_um**2 if self.n_axes == 2 else self.downsample_factor**3 * self.units.px_area

    # --- mass: canonical <-> work ------------------------------------------------------------

    def to_work(self, density: ArrayLike, *, debug: bool = False) -> Float:
        """Crop, sum-pool and place in the bucket.

        Parameters
        ----------
        density : (Hc, Wc)
            Finite and non-negative; mass per canonical pixel.
        debug : bool
            Run the golden tests on this call.

        Returns
        -------
        (Hw, Ww) float64, mass per work pixel. The total equals the crop's (exactly for integer masses).
        """
        array, _ = check_density(density, "density")
        require_shape(array.shape, self.canon_shape_hw, "density")
        return self.pool(array, debug=debug)

    def pool(self, density: NDArray[Any], *, debug: bool = False) -> Float:
        """`to_work` for a density that was checked before."""
        mass_work = new_array(self.work_shape_hw, 0.0, "work grid")
        valid = mass_work[self.work_valid_box_yx.slices]
        with np.errstate(over="ignore"):  # finite_total raises the error
            # Slicing stops at the canvas edge, and sum_pool counts missing pixels as empty.
            sum_pool(density[self.pair_crop_box_yx.slices], self.downsample_factor, valid)
        finite_total(valid, "density")
        if golden.is_debug(debug):
            golden.check_pooling(self, density, mass_work)
        return mass_work

    def rasterize_to_canon(self, mass_work: ArrayLike, *, debug: bool = False) -> Float:
        """Spread each work pixel's mass evenly over the real canonical pixels of its block.

        Parameters
        ----------
        mass_work : (Hw, Ww)
            Mass per work pixel, finite, of either sign; only the valid region is read (and with `debug` nothing may
            lie outside it).

        Returns
        -------
        (Hc, Wc) float64, mass per canonical pixel; zero outside the crop. The total is that of the valid region.
        """
        work = as_numeric(mass_work, "mass_work")
        require_shape(work.shape, self.work_shape_hw, "mass_work")
        crop, s = self.pair_crop_box_yx, self.downsample_factor
        valid = work[self.work_valid_box_yx.slices]
        finite_total(valid, "mass_work")
        real_pixels = None
        if s > 1:
            real_pixels = [
                real_pixels_per_block(side - first, s, n_blocks)
                for side, first, n_blocks in zip(self.canon_shape_hw, crop.lo, valid.shape, strict=True)
            ]
        mass_canon = new_array(self.canon_shape_hw, 0.0, "canvas")
        splat(valid, s, mass_canon[crop.slices], valid.ndim, real_pixels)
        if golden.is_debug(debug):
            golden.check_lifting(self, work, mass_canon)
        return mass_canon

    def rasterize_velocity_to_canon(self, velocity_work_px: ArrayLike) -> Float:
        """Lift a displacement field and give it physical units.

        Parameters
        ----------
        velocity_work_px : (Hw, Ww, 2), or (Zw, Yw, Xw, 3) for a volume
            ``[..., 0]`` is dy, ``[..., 1]`` is dx (dz, dy, dx for a volume), in units of `work_px_size_um`; NaN for unknown.

        Returns
        -------
        (Hc, Wc, 2) float64 in um, constant over a block; NaN outside the crop, where no displacement is known.
        """
        work = as_numeric(velocity_work_px, "velocity_work_px")
        require_shape(work.shape, (*self.work_shape_hw, self.n_axes), "velocity_work_px")
        velocity_um = new_array((*self.canon_shape_hw, self.n_axes), np.nan, "canvas")
        valid = work[self.work_valid_box_yx.slices]
        in_crop = velocity_um[self.pair_crop_box_yx.slices]
        splat(valid * self.work_px_size_um, self.downsample_factor, in_crop, n_axes=valid.ndim - 1)
        return velocity_um

    # --- coordinates: canonical <-> work -----------------------------------------------------

    def canon_to_work_yx(self, canon_yx: ArrayLike) -> NDArray[Any]:
        """Map canonical positions (..., 2) to work positions (..., 2), rows first.

        Integers are pixel indices: the answer is the index of the work pixel that holds that pixel. Floats are points,
        with pixel ``i`` covering ``[i, i + 1)``: the answer is the exact point.
        """
        yx = parse_points(canon_yx, self.n_axes) - np.array(self.pair_crop_box_yx.lo)
        s = self.downsample_factor
        work_yx: NDArray[Any] = (yx // s if yx.dtype.kind == "i" else yx / s) + np.array(self.work_pad_offsets_yx)
        return work_yx

    def work_to_canon_yx(self, work_yx: ArrayLike) -> NDArray[Any]:
        """Map work positions (..., 2) to canonical ones: a block's first pixel, or the exact point for floats."""
        yx = parse_points(work_yx, self.n_axes) - np.array(self.work_pad_offsets_yx)
        canon_yx: NDArray[Any] = yx * self.downsample_factor + np.array(self.pair_crop_box_yx.lo)
        return canon_yx

    # --- keeping -----------------------------------------------------------------------------

    def to_json(self) -> str:
        """One line of JSON; `from_json` turns it into an equal transform."""
        fields = vars(self)
        return json.dumps(fields | {name: box.to_dict() for name, box in fields.items() if isinstance(box, Box)})

    @classmethod
    def from_json(cls, text: str) -> GridTransform:
        """The transform that `to_json` wrote."""
        try:
            fields = plain_json.parse(text)
            for name in ("pair_crop_box_yx", "work_valid_box_yx"):
                fields[name] = Box.from_dict(fields[name])
            return cls(**fields)
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, FrameError):
                raise
            raise FrameError(
                "the JSON of a GridTransform", str(error), "write it with GridTransform.to_json"
            ) from error

    def __repr__(self) -> str:
        valid, work = self.work_valid_box_yx.shape, self.work_shape_hw
        bucket = "" if valid == work else f" in a {sides_text(work)} bucket at {self.work_pad_offsets_yx}"
        clipped = f", clipped {self.clipped_share_ab}" if any(self.clipped_share_ab) else ""
        unit = self.units.length
        size = "" if self.px_size_um is None else f" of {px_size_text(self.px_size_um)} um"
        return (
            f"GridTransform(canvas {sides_text(self.canon_shape_hw)} px{size}, "
            f"crop {str(self.pair_crop_box_yx).replace(',', '')}, "
            f"s={self.downsample_factor} -> work {sides_text(valid)} px of {self.work_px_size_um:g} {unit}{bucket}{clipped})"
        )


@lru_cache(maxsize=64)
def _units(px_size_um: float | None, n_axes: int) -> Units:
    return Units(px_size_um, n_axes)
