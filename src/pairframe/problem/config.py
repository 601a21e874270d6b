"""`TransportConfig`: everything a person can choose about a comparison, in one frozen, hashable value."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pairframe import checks, plain_json
from pairframe.errors import ConfigError, FrameError
from pairframe.frame import BoxYX
from pairframe.frame.bucket import BUCKET_MODES, parse_bucket_shapes
from pairframe.frame.crop import check_factor, check_pad
from pairframe.frame.transform import CROP_POLICIES
from pairframe.masks import MassMode
from pairframe.problem.config_text import check_is_text, check_names, naming_unknown_fields, toml
from pairframe.problem.penalties import penalty_class
from pairframe.problem.reference import check_metric, check_reference_name
from pairframe.units import LARGEST_LENGTH, LEAST_LENGTH, PxSize, Units, checked_px_sides

NORMALIZATIONS = ("joint", "each")
DTYPES = ("float64", "float32")
ALIGN_KINDS = ("none", "shift", "rigid", "similarity")
_FIX_OF_LENGTH = {
    "blur_um": "give a positive number, or leave it out; one to a few pixels are usual",
    "reach_um": 'give a positive number, or leave it out; if all mass must move, use penalty="balanced" with '
    'normalization="each"',
}
# Fields that volumes do not have yet: their defaults, and what to do instead.
_IMAGES_ONLY: dict[str, tuple[object, str]] = {
    "align": ("none", "volumes are not aligned yet; shift them by whole voxels first, e.g. with numpy.roll"),
    "strain": (False, "the strain of volumes is not computed yet"),
    "error_bars": (False, "error bars of volumes are not computed yet"),
    "min_area_um2": (None, "objects of volumes have no area; use largest, or drop small ones first"),
    "crop_policy": ("union", "frames of volumes are the box around both masks; crop them first"),
    "max_support_points": (None, "volumes are not sampled; use downsample_factor"),
}
_REACHES = ("reach_um", "marginal_relaxation", "moved_mass", "moved_share")


@naming_unknown_fields
@dataclass(frozen=True)
class TransportConfig:
    """How to compare a pair. Checks itself; equal configs hash alike.

    Parameters
    ----------
    blur_um, reach_um : float, optional
        Below the blur nothing is resolved; default: 2 canonical pixels. No mass moves farther than the reach; mass that
        would have to is destroyed here and created there (``kl``: a soft limit). Default: the typical length of the
        objects, which is the diagonal of their bounding boxes, as a median weighted by mass.
    epsilon, marginal_relaxation : float, optional
        The same in cost units after `coord_scale`: blur^2, and reach^2 for ``kl``, half of it for ``partial`` and ``tv``.
    moved_mass, moved_share : float, optional
        Partial transport of a given mass, in pixel-mass or as a share of the smaller mask, instead of a reach: the
        cheapest plan that moves that much, which has a reach of its own.
    penalty : str or (str, str)
        ``partial`` (least motion), ``tv``, ``kl`` (even growth), ``balanced``; one for both sides, or (source, target).
    reference : {"heat", "product", "counting"}
    normalization : {"joint", "each"}
        ``each`` gives both masks the mass 1 and so spreads growth evenly over the image.
    px_size_um : float or (float, float, float), optional
        Side of a canonical pixel in um; of a voxel, one number or its sides (z, y, x). None: that of the masks; if they have
        none either, lengths are in pixels. See `units`.
    tol : float
        Bounds the relative gap and the marginal error.
    max_iterations : int
        Kernel applications before an engine gives up. They come in rounds of two or more that are always finished, so
        the count in a result can differ from it by a few.

    align : {"none", "shift", "rigid", "similarity"}
        Move the target onto the source first; see `pairframe.align`. ``none`` compares the masks as they are given.
    allow_flip : bool
        Whether the target may be mirrored for that.
    strain : bool
        Also compute the gradient of the displacement and the local growth rate; see `TransportResult.strain`. They need
        squared distances, every pixel and a debiased displacement.
    invert, min_area_um2, largest, fill_holes
        Clean both masks first, in this order: take the background for the objects, drop objects of a smaller area (px without a
        pixel size), keep only the largest one, fill holes. See `pairframe.masks.clean_mask`.
    error_bars : bool
        How far the main numbers may be off because the outlines are uncertain; see `TransportResult.error_bars`.
    rim_um, rim_correlation_um : float, optional
        Standard deviation of the outlines' position (default: one canonical pixel), and the distance along an outline over
        which its errors are alike (default: 10 times that). Giving one of them sets `error_bars`.
    volume : bool, optional
        Whether masks with three axes are volumes (z, y, x). None: as the metadata of files say; three sides of a voxel say so
        too. False: a stack is a series of images, whatever its metadata say. See the page "Volumes".

    Notes
    -----
    The crop fields are those of `GridTransform.from_pair`, with `downsample_factor` for its ``s``. Every field is an option of
    ``pairframe compare``, and the page "The command line" has a sentence on each.
    """

    epsilon: float | None = None
    marginal_relaxation: float | None = None
    blur_um: float | None = None
    reach_um: float | None = None
    penalty: str | tuple[str, str] = "partial"
    reference: str = "heat"
    metric: str = "sqeuclidean"
    coord_scale: float = 1.0
    downsample_factor: int = 1
    pad: int = 16
    crop_policy: str = "union"
    override_pair_bbox: BoxYX | None = None
    bucket_shapes: tuple[tuple[int, int], ...] | None = None
    bucket_mode: str = "next_larger"
    allow_clipping: bool = False
    px_size_um: PxSize | None = None
    mass_mode: str = "uniform"
    normalization: str = "joint"
    backend: str = "grid"
    dtype: str = "float64"
    device: str | None = None
    max_support_points: int | None = None
    seed: int = 0
    debias: bool = True
    tol: float = 1e-6
    max_iterations: int = 5000
    debug: bool = False
    align: str = "none"
    allow_flip: bool = False
    moved_mass: float | None = None
    moved_share: float | None = None
    strain: bool = False
    invert: bool = False
    min_area_um2: float | None = None
    largest: bool = False
    fill_holes: bool = False
    error_bars: bool = False
    rim_um: float | None = None
    rim_correlation_um: float | None = None
    volume: bool | None = None

    def __post_init__(self) -> None:
        self._check_scales()
        with checks.naming("penalty"):
            self._set("penalty", self._checked_penalty())
        self._check_moved()
        with checks.naming("reference"):
            check_reference_name(self.reference)
        with checks.naming("metric"):
            check_metric(self.metric)
        self._set("downsample_factor", check_factor(self.downsample_factor))
        self._set("pad", check_pad(self.pad))
        self._check_crop()
        if self.px_size_um is not None:
            self._set("px_size_um", checked_px_sides(self.px_size_um))
        if self.volume is not None:
            self._set("volume", checks.boolean(self.volume, "volume", error=ConfigError))
        with checks.naming("mass_mode"):
            self._set("mass_mode", str(MassMode.parse(self.mass_mode)))
        checks.choice(self.normalization, "normalization", NORMALIZATIONS, error=ConfigError)
        checks.choice(self.dtype, "dtype", DTYPES, error=ConfigError)
        self._check_name("backend", 'e.g. "grid"')
        if self.device is not None:
            self._check_name("device", 'e.g. "cpu", or leave it out')
        for name, least in (("max_support_points", 1), ("seed", 0), ("max_iterations", 1)):
            if getattr(self, name) is not None or name != "max_support_points":
                self._set(name, checks.integer(getattr(self, name), name, least, error=ConfigError))
        self._set_positive("tol")
        if self.tol >= 1:
            raise ConfigError("tol below 1", repr(self.tol), "it is a relative error, e.g. 1e-6", "tol")
        checks.choice(self.align, "align", ALIGN_KINDS, error=ConfigError)
        for name in (
            "allow_clipping",
            "debias",
            "debug",
            "allow_flip",
            "strain",
            "invert",
            "largest",
            "fill_holes",
            "error_bars",
        ):
            self._set(name, checks.boolean(getattr(self, name), name, error=ConfigError))
        self._check_strain()
        self._check_cleaning()
        self._check_rim()
        self._check_volume()

    @property
    def penalties_ab(self) -> tuple[str, str]:
        """Names of the source's and the target's penalty."""
        return (self.penalty, self.penalty) if isinstance(self.penalty, str) else self.penalty

    @property
    def mass(self) -> MassMode:
        """`mass_mode` with its properties."""
        return MassMode.parse(self.mass_mode)

    @property
    def cleans(self) -> bool:
        """Whether masks are cleaned before they are compared."""
        return self.invert or self.largest or self.fill_holes or self.min_area_um2 is not None

    @property
    def units(self) -> Units:
        """The unit of lengths: um, or px if no pixel size is known."""
        return Units(self.px_size_um, 3 if self.volume else 2)

    # --- checks ------------------------------------------------------------------------------

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _set_positive(self, name: str, fix: str = "give a positive number, or leave it out") -> None:
        self._set(name, checks.positive(getattr(self, name), name, fix=fix, error=ConfigError))

    def _set_length(self, name: str, fix: str) -> None:
        value = getattr(self, name)
        self._set(name, checks.within(value, name, LEAST_LENGTH, LARGEST_LENGTH, fix=fix, error=ConfigError))

    def _check_name(self, name: str, fix: str) -> None:
        value = getattr(self, name)
        if not (isinstance(value, str) and value.isprintable() and value):
            raise ConfigError(f"{name} to be a name", checks.shown(value), fix, name)

    def _check_scales(self) -> None:
        for cost, length in (("epsilon", "blur_um"), ("marginal_relaxation", "reach_um")):
            if getattr(self, cost) is not None and getattr(self, length) is not None:
                meaning = "the blur" if length == "blur_um" else "the reach"
                raise ConfigError(
                    f"at most one of {cost} and {length}",
                    f"{cost}={getattr(self, cost)!r} and {length}={getattr(self, length)!r}",
                    f"both set {meaning}: keep {length}",
                    cost,
                )
            if getattr(self, cost) is not None:
                self._set_positive(cost, _FIX_OF_LENGTH[length])
            if getattr(self, length) is not None:
                self._set_length(length, _FIX_OF_LENGTH[length])
        self._set_length("coord_scale", "leave it out unless a config in cost units needs it")

    def _check_rim(self) -> None:
        given = [name for name in ("rim_um", "rim_correlation_um") if getattr(self, name) is not None]
        for name in given:
            self._set_length(name, "give the uncertainty of the outlines, usually about one pixel, or leave it out")
        if given:
            self._set("error_bars", True)
        if self.error_bars and not (self.moved_mass is None and self.moved_share is None):
            raise ConfigError(
                "no moved_mass or moved_share with error_bars",
                "both",
                "give a reach instead: the mass that moves is uncertain itself",
                "error_bars",
            )

    def _check_moved(self) -> None:
        given = [name for name in _REACHES if getattr(self, name) is not None]
        moved = [name for name in ("moved_mass", "moved_share") if name in given]
        if not moved:
            return
        if len(given) > 1:
            raise ConfigError(
                f"at most one of {', '.join(_REACHES)}",
                " and ".join(f"{name}={getattr(self, name)!r}" for name in given),
                "a given mass has a reach of its own: keep one of them",
                moved[0],
            )
        self._set_positive(moved[0])
        if self.moved_share is not None and self.moved_share > 1:
            raise ConfigError(
                "moved_share of at most 1", repr(self.moved_share), "it is a share of the smaller mask", "moved_share"
            )
        if self.penalty != "partial":
            raise ConfigError(
                f'penalty="partial" with {moved[0]}', repr(self.penalty), f"leave out penalty, or {moved[0]}", "penalty"
            )

    def _check_strain(self) -> None:
        needs = (
            ("metric", "sqeuclidean", "for other distances the gradient is not a covariance of the plan"),
            ("max_support_points", None, "samples do not resolve how neighbouring pixels separate"),
            ("debias", True, "the bias of the blur is a contraction, which would count as strain"),
        )
        for name, needed, why in needs:
            if self.strain and getattr(self, name) != needed:
                raise ConfigError(
                    f"{name}={needed!r} with strain",
                    repr(getattr(self, name)),
                    f"leave out {name} or strain: {why}",
                    name,
                )

    def _check_volume(self) -> None:
        """Refuse what is for images only."""
        if isinstance(self.px_size_um, tuple):
            if self.volume is False:
                fix = "give one number for images, or leave out volume=False (--no-volume)"
                raise ConfigError("one pixel size for images", f"three, {self.px_size_um}", fix, "px_size_um")
            self._set("volume", True)
        for name, (plain, instead) in _IMAGES_ONLY.items():
            if self.volume and getattr(self, name) != plain:
                raise ConfigError(
                    f"{name}={plain!r} for volumes", repr(getattr(self, name)), f"leave it out: {instead}", name
                )

    def _check_cleaning(self) -> None:
        if self.min_area_um2 is not None:
            self._set_positive("min_area_um2")
        if self.cleans and self.mass.takes_density:
            given = [name for name in ("invert", "min_area_um2", "largest", "fill_holes") if getattr(self, name)]
            raise ConfigError(
                f"no {given[0]} with mass_mode={self.mass_mode!r}, whose images are not masks",
                f"{given[0]}={getattr(self, given[0])!r}",
                "clean and threshold the images first, or use another mass_mode",
                given[0],
            )

    def _checked_penalty(self) -> str | tuple[str, str]:
        if isinstance(self.penalty, str):
            return penalty_class(self.penalty).name
        if not isinstance(self.penalty, tuple | list) or len(self.penalty) != 2:
            raise ConfigError(
                "penalty to be a name or a pair (source, target)",
                checks.shown(self.penalty),
                'e.g. "partial" or ("kl", "balanced")',
            )
        source, target = (penalty_class(name).name for name in self.penalty)
        return source if source == target else (source, target)

    def _check_crop(self) -> None:
        checks.choice(self.crop_policy, "crop_policy", CROP_POLICIES, error=FrameError)
        checks.choice(self.bucket_mode, "bucket_mode", BUCKET_MODES, error=FrameError)
        box = self.override_pair_bbox
        if box is not None and not isinstance(box, BoxYX):
            raise ConfigError(
                "override_pair_bbox to be a BoxYX",
                checks.shown(box),
                "write BoxYX(y0, y1, x0, x1)",
                "override_pair_bbox",
            )
        if self.bucket_shapes is not None:
            with checks.naming("bucket_shapes"):
                self._set("bucket_shapes", parse_bucket_shapes(self.bucket_shapes))

    # --- keeping -----------------------------------------------------------------------------

    def to_json(self) -> str:
        """One line of JSON with every field, an unknown pixel size as null; `from_json` gives an equal config back."""
        return json.dumps(self._plain())

    @classmethod
    def from_json(cls, text: str) -> TransportConfig:
        """The config that `to_json` wrote; fields may be missing (defaults), none may be unknown."""
        check_is_text(text, "JSON", "to_json")
        try:
            values = plain_json.parse(text)
        except ValueError as error:
            raise ConfigError("the JSON of a TransportConfig", str(error), "write it with to_json") from error
        return cls.from_mapping(values)

    def to_toml(self) -> str:
        """TOML, one line per field that is not None; `from_toml` gives an equal config back."""
        return "".join(f"{name} = {toml(value)}\n" for name, value in self._plain().items() if value is not None)

    @classmethod
    def from_toml(cls, text: str) -> TransportConfig:
        """Read TOML; fields may be missing (defaults), none may be unknown."""
        check_is_text(text, "TOML", "to_toml")
        try:
            values = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            reason = "text that is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise ConfigError("TOML", reason, "one line per field, e.g. blur_um = 2.0") from error
        return cls.from_mapping(values)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> TransportConfig:
        """From plain values, as JSON and TOML have them."""
        if not isinstance(values, Mapping):
            raise ConfigError(
                "the fields of a TransportConfig", checks.shown(values), 'e.g. {"blur_um": 2.0, "reach_um": 50.0}'
            )
        check_names(cls, values)
        values = dict(values)
        box = values.get("override_pair_bbox")
        if isinstance(box, Mapping) and sorted(box) == ["x0", "x1", "y0", "y1"]:
            values["override_pair_bbox"] = BoxYX(**box)
        try:
            return cls(**values)
        except RecursionError as error:
            fix = 'e.g. {"blur_um": 2.0, "reach_um": 50.0}'
            raise ConfigError("plain values", "a value that is nested too deeply", fix) from error

    def _plain(self) -> dict[str, Any]:
        found = dict(vars(self))
        if self.override_pair_bbox is not None:
            found["override_pair_bbox"] = self.override_pair_bbox.to_dict()
        return found
