"""`TransportConfig`: everything a person can choose about a comparison, in one frozen, hashable value."""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import wraps
from operator import index
from typing import Any, TypeVar

import numpy as np

from pairframe.errors import (
    ConfigError,
    ConfigValueError,
    ConflictingUnitsError,
    CropPolicyError,
    DownsampleFactorError,
    PixelSizeError,
    UnknownFieldError,
)
from pairframe.frame import BoxYX
from pairframe.frame.bucket import BUCKET_MODES, parse_bucket_shapes
from pairframe.frame.crop import check_factor, check_pad, check_px_size
from pairframe.frame.transform import CROP_POLICIES
from pairframe.masks import MassMode
from pairframe.problem.penalties import check_penalty_name
from pairframe.problem.reference import check_metric, check_reference_name

NORMALIZATIONS = ("joint", "each")
DTYPES = ("float64", "float32")
Class = TypeVar("Class", bound=type)


class UnknownPixelSize(float):
    """1.0 that nobody said: a length in these "um" is in pixels. A pixel of 1.0 um that somebody did say is a plain float."""


NO_PX_SIZE = UnknownPixelSize(1.0)


def _naming_unknown_fields(config_class: Class) -> Class:
    """A field that does not exist is an error of ours, with the nearest one that does."""
    plain_init: Any = vars(config_class)["__init__"]

    @wraps(plain_init)
    def __init__(self: Any, *values: Any, **named: Any) -> None:
        _check_names(config_class, named)
        plain_init(self, *values, **named)

    type.__setattr__(config_class, "__init__", __init__)
    return config_class


@_naming_unknown_fields
@dataclass(frozen=True)
class TransportConfig:
    """How to compare a pair. Checks itself; equal configs hash alike.

    Parameters
    ----------
    blur_um, reach_um : float, optional
        Below the blur nothing is resolved. The reach is a soft limit: of the mass that would have to go a distance d, a
        share of about ``exp(-d^2 / (2 reach^2))`` moves, and the rest is destroyed here and created there (``kl``;
        see `docs/cli.md` for other penalties). Default: 2 and 50 canonical pixels.
    epsilon, marginal_relaxation : float, optional
        The same in cost units after `coord_scale` (blur^2 and reach^2); at most one of each pair.
    penalty : str or (str, str)
        ``kl``, ``tv``, ``partial``, ``balanced``; one for both sides, or (source, target).
    reference : {"heat", "product", "counting"}
    normalization : {"joint", "each"}
        ``each`` gives both masks the mass 1 and so spreads growth evenly over the image.
    px_size_um : float, optional
        Side of a canonical pixel. When it is not given and no mask tells it, it is 1.0 and lengths are in pixels: see
        `lengths_in_px`.
    tol : float
        Bounds the relative gap and the marginal error.
    max_iterations : int
        Kernel applications before an engine gives up. They come in rounds of two or more that are always finished, so
        the count in a result can differ from it by a few.

    Notes
    -----
    The crop fields are those of `GridTransform.from_pair`, with `downsample_factor` for its ``s``. Every field is an option of
    ``pairframe compare``, and the page "The command line" has a sentence on each.
    """

    epsilon: float | None = None
    marginal_relaxation: float | None = None
    blur_um: float | None = None
    reach_um: float | None = None
    penalty: str | tuple[str, str] = "kl"
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
    px_size_um: float = NO_PX_SIZE
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

    def __post_init__(self) -> None:
        self._check_units()
        self._set("penalty", self._checked_penalty())
        check_reference_name(self.reference)
        check_metric(self.metric)
        self._set("downsample_factor", self._checked_factor())
        self._set("pad", check_pad(self.pad))
        self._check_crop()
        if not self.lengths_in_px:
            self._set("px_size_um", self._checked_px_size())
        self._set("mass_mode", str(MassMode.parse(self.mass_mode)))
        self._choice("normalization", NORMALIZATIONS)
        self._choice("dtype", DTYPES)
        for name in ("backend", "device"):
            value = getattr(self, name)
            if not (isinstance(value, str) and value.isprintable() and value) and not (
                name == "device" and value is None
            ):
                raise ConfigValueError(f"TransportConfig.{name} to be a name", repr(value), 'e.g. backend="grid"')
        if self.max_support_points is not None:
            self._integer("max_support_points", 1)
        self._integer("seed", 0)
        self._integer("max_iterations", 1)
        self._positive("tol")
        if self.tol >= 1:
            raise ConfigValueError("TransportConfig.tol below 1", repr(self.tol), "it is a relative error: 1e-6, say")
        for name in ("allow_clipping", "debias", "debug"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise ConfigValueError(f"TransportConfig.{name} to be true or false", repr(value), "give a boolean")
            self._set(name, bool(value))

    @property
    def penalties_ab(self) -> tuple[str, str]:
        """Names of the source's and the target's penalty."""
        return (self.penalty, self.penalty) if isinstance(self.penalty, str) else self.penalty

    @property
    def lengths_in_px(self) -> bool:
        """Whether nobody said how large a pixel is: lengths are then in pixels, whatever their names say."""
        return isinstance(self.px_size_um, UnknownPixelSize)

    @property
    def length_unit(self) -> str:
        """``um``, or ``px`` when nobody said how large a pixel is."""
        return "px" if self.lengths_in_px else "um"

    # --- checks ------------------------------------------------------------------------------

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_units(self) -> None:
        for cost, length, meaning in (
            ("epsilon", "blur_um", "the blur"),
            ("marginal_relaxation", "reach_um", "the reach"),
        ):
            if getattr(self, cost) is not None and getattr(self, length) is not None:
                raise ConflictingUnitsError(
                    f"at most one of {cost} and {length}",
                    f"{cost}={getattr(self, cost)!r} and {length}={getattr(self, length)!r}",
                    f"both set {meaning}: keep {length}",
                )
            for name in (cost, length):
                if getattr(self, name) is not None:
                    self._positive(name)
        self._positive("coord_scale")

    def _checked_penalty(self) -> str | tuple[str, str]:
        if isinstance(self.penalty, str):
            return check_penalty_name(self.penalty)
        if not isinstance(self.penalty, tuple | list) or len(self.penalty) != 2:
            raise ConfigValueError(
                "TransportConfig.penalty to be a name or a pair (source, target)",
                repr(self.penalty),
                'e.g. penalty="kl" or penalty=("kl", "balanced")',
            )
        source, target = (check_penalty_name(kind) for kind in self.penalty)
        return source if source == target else (source, target)

    def _checked_factor(self) -> int:
        try:
            return check_factor(self.downsample_factor)
        except DownsampleFactorError as error:  # there it is called s
            raise DownsampleFactorError(
                "TransportConfig.downsample_factor to be an integer >= 1",
                error.got,
                "downsample_factor=1 keeps full resolution",
            ) from error

    def _checked_px_size(self) -> float:
        try:
            return check_px_size(self.px_size_um)
        except PixelSizeError as error:
            fix = "give the side of one pixel, such as px_size_um=0.65, or leave it out: lengths are then in pixels"
            raise PixelSizeError(error.expected, error.got, fix) from error

    def _check_crop(self) -> None:
        for name, choices in (("crop_policy", CROP_POLICIES), ("bucket_mode", BUCKET_MODES)):
            if getattr(self, name) not in choices:
                raise CropPolicyError(
                    f"{name} one of {', '.join(choices)}", repr(getattr(self, name)), "use one of these"
                )
        box = self.override_pair_bbox
        if box is not None and not isinstance(box, BoxYX):
            raise ConfigValueError(
                "TransportConfig.override_pair_bbox to be a BoxYX", repr(box), "write BoxYX(y0, y1, x0, x1)"
            )
        if self.bucket_shapes is not None:
            self._set("bucket_shapes", parse_bucket_shapes(self.bucket_shapes))

    def _choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise ConfigValueError(
                f"TransportConfig.{name} one of {', '.join(choices)}", repr(getattr(self, name)), "use one of these"
            )

    def _positive(self, name: str) -> None:
        value = getattr(self, name)
        try:
            number = math.nan if isinstance(value, bool | str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise ConfigValueError(
                f"a positive, finite TransportConfig.{name}", repr(value), "give a positive number, or leave it out"
            )
        self._set(name, number)

    def _integer(self, name: str, smallest: int) -> None:
        value = getattr(self, name)
        try:
            number = smallest - 1 if isinstance(value, bool) else index(value)
        except TypeError:
            number = smallest - 1
        if number < smallest:
            raise ConfigValueError(
                f"TransportConfig.{name} to be an integer >= {smallest}", repr(value), "give a whole number"
            )
        self._set(name, number)

    # --- keeping -----------------------------------------------------------------------------

    def to_json(self) -> str:
        """One line of JSON with every field, an unknown pixel size as null; `from_json` gives an equal config back."""
        return json.dumps(self._plain())

    @classmethod
    def from_json(cls, text: str) -> TransportConfig:
        """The config that `to_json` wrote; fields may be missing (defaults), none may be unknown."""
        _check_is_text(text, "JSON", "to_json")
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError("the JSON of a TransportConfig", str(error), "write it with to_json") from error
        return cls.from_mapping(values)

    def to_toml(self) -> str:
        """TOML, one line per field that is not None; `from_toml` gives an equal config back."""
        return "".join(f"{name} = {_toml(value)}\n" for name, value in self._plain().items() if value is not None)

    @classmethod
    def from_toml(cls, text: str) -> TransportConfig:
        """Read TOML; fields may be missing (defaults), none may be unknown."""
        _check_is_text(text, "TOML", "to_toml")
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError("TOML", str(error), "one line per field, e.g. blur_um = 2.0") from error
        return cls.from_mapping(values)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> TransportConfig:
        """From plain values, as JSON and TOML have them."""
        if not isinstance(values, Mapping):
            raise ConfigError(
                "the fields of a TransportConfig", repr(values), 'e.g. {"blur_um": 2.0, "reach_um": 50.0}'
            )
        _check_names(cls, values)
        values = dict(values)
        if values.get("px_size_um", NO_PX_SIZE) is None:
            del values["px_size_um"]
        box = values.get("override_pair_bbox")
        if isinstance(box, Mapping) and sorted(box) == ["x0", "x1", "y0", "y1"]:
            values["override_pair_bbox"] = BoxYX(**box)
        return cls(**values)

    def _plain(self) -> dict[str, Any]:
        found = dict(vars(self))
        if self.override_pair_bbox is not None:
            found["override_pair_bbox"] = asdict(self.override_pair_bbox)
        return found | ({"px_size_um": None} if self.lengths_in_px else {})


def _check_names(config_class: type, values: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(config_class)]
    for name in values:
        if name not in known:
            # A word of the name is as good as its spelling: `blur` is `blur_um`.
            beginning = [field for field in known if isinstance(name, str) and name and field.startswith(name.lower())]
            close = beginning or difflib.get_close_matches(str(name), known, n=1, cutoff=0.0)
            raise UnknownFieldError("a field of TransportConfig", repr(name), f"did you mean {close[0]!r}?")


def _check_is_text(text: object, what: str, writer: str) -> None:
    if not isinstance(text, str | bytes | bytearray) or (what == "TOML" and not isinstance(text, str)):
        raise ConfigError(f"the {what} of a TransportConfig as text", repr(text)[:80], f"write it with {writer}")


def _toml(value: Any) -> str:
    """A scalar, a list or one flat table as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
