"""`Pose`: how a target is moved onto a source, how sure that is, and how to apply it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pairframe import checks
from pairframe.alignment.ambiguity import PoseStatus
from pairframe.alignment.proof import Proof
from pairframe.alignment.resample import SAMPLES, Canvas, canvas_that_fits, copies_pixels, needed_box, resample
from pairframe.alignment.similarity import Similarity
from pairframe.errors import AlignError
from pairframe.masks import Mask
from pairframe.types import Float
from pairframe.units import Units


@dataclass(frozen=True)
class OtherPose:
    """Another pose that was considered, and its IoU."""

    change: Similarity
    iou: float


@dataclass(frozen=True)
class Pose:
    """The pose change that moves a target onto a source.

    Attributes
    ----------
    change : Similarity
        The pose change; `angle_deg`, `shift_yx_um`, `flipped` and `scale` are its parts. The target is mirrored, turned and
        scaled about its centroid, which then shifts by `shift_yx_um`.
    kind : {"shift", "rigid", "similarity"}
        What was fitted: ``shift`` instead of the requested kind if the masks do not determine a turn.
    status : PoseStatus
        ``aligned``, ``ambiguous`` (the runner-up is almost as good) or ``undetermined`` (any angle is). For the kind
        ``shift`` the same is said of shifts.
    iou_before, iou_after : float
        Intersection over union of the masks as given, with the corners of their canvases together, and as moved.
    runner_up : OtherPose or None
        The best pose that differs by more than 20 degrees, by the flip, or, for the kind ``shift``, by its shift.
    margin : float
        The difference in IoU below which two poses count as equally good.
    proof : Proof or None
        If one was requested.
    landmark : {"none", "used", "missing"}
        Whether landmarks were used. ``missing``: one was expected but is empty, and none was used.
    source_canvas, target_canvas : Canvas
    px_size_um : (float or None, float or None)
        Side of a pixel of source and target; None if unknown, and lengths are in pixels.
    notices : tuple of str
        Remarks, in sentences.
    """

    change: Similarity
    kind: str
    status: PoseStatus
    iou_before: float
    iou_after: float
    runner_up: OtherPose | None
    margin: float
    proof: Proof | None
    landmark: str
    source_canvas: Canvas
    target_canvas: Canvas
    px_size_um: tuple[float | None, float | None]
    notices: tuple[str, ...] = ()

    @property
    def angle_deg(self) -> float:
        """Turn of the target, counter-clockwise as the image is shown; from -180 to 180."""
        return self.change.angle_deg

    @property
    def shift_yx_um(self) -> tuple[float, float]:
        """Displacement of the centroid of the target, (dy, dx) in um (px if no pixel size is known)."""
        return self.change.shift_yx_um

    @property
    def flipped(self) -> bool:
        """Whether the target is mirrored top to bottom before the turn."""
        return self.change.flipped

    @property
    def scale(self) -> float:
        """Factor of every length of the target."""
        return self.change.scale

    @property
    def units(self) -> Units:
        """The unit of lengths: um, or px if no pixel size is known."""
        return Units(self.px_size_um[0])

    def inverse(self) -> Pose:
        """The pose that moves the source onto the target, and what lives on the source back to the target's image."""
        runner_up = self.runner_up
        return replace(
            self,
            change=self.change.inverse(),
            runner_up=None if runner_up is None else OtherPose(runner_up.change.inverse(), runner_up.iou),
            source_canvas=self.target_canvas,
            target_canvas=self.source_canvas,
            px_size_um=(self.px_size_um[1], self.px_size_um[0]),
        )

    def without_scale(self) -> Pose:
        """The same pose with scale 1. `iou_after` stays that of the fit."""
        return replace(self, change=self.change.without_scale())

    def canvas_for(self, mask: Mask, *, samples: int = SAMPLES) -> tuple[tuple[int, int], tuple[int, int]]:
        """The smallest canvas on which both the source and the moved mask fit.

        Parameters
        ----------
        samples : int
            As for `resample`.

        Returns
        -------
        canvas_hw, origin_yx : (H, W), (y, x)
            For `apply`; `origin_yx` is the row and column of the first pixel of the source on it.
        """
        if mask.is_empty:
            return self.source_canvas.shape_hw, self.source_canvas.origin_yx
        box = needed_box(mask.values, self._px_of(mask), self.change, self.source_canvas, samples)
        found = canvas_that_fits(box, self.source_canvas)
        return found.shape_hw, found.origin_yx

    def apply(
        self, mask: Mask, *, canvas_hw: tuple[int, int] | None = None, origin_yx: tuple[int, int] = (0, 0)
    ) -> Mask:
        """Move a mask of the target's image onto the source's canvas, keeping mass and centroid.

        Parameters
        ----------
        mask : Mask
            Of the target's image, or with another pixel size. A binary mask or a coverage is an area: its area is kept
            (times ``scale**2``), and pixels on its boundary become fractions. A density is mass per pixel: its sum is kept.
        canvas_hw : (H, W), optional
            Canvas in pixels of the source; that of the source if not given.
        origin_yx : (y, x)
            Row and column of the source's first pixel on this canvas.

        Returns
        -------
        Mask
            With the source's pixel size: a coverage of a binary mask (see `Mask.coverage`), or the mask itself if the pose
            maps pixels onto pixels; a density of a density.

        Raises
        ------
        AlignError
            If the moved mask does not fit. The message has the canvas that is needed; see also `canvas_for`.
        """
        canvas = self._canvas(canvas_hw, origin_yx)
        self._px_of(mask)
        return moved_onto(mask, self.change, canvas, self.px_size_um[0])

    def place_source(self, mask: Mask, canvas_hw: tuple[int, int], origin_yx: tuple[int, int]) -> Mask:
        """Copy a mask of the source's image onto a larger canvas, as `canvas_for` proposes it."""
        canvas = self._canvas(canvas_hw, origin_yx)
        moved = resample(mask.values, canvas.px, Similarity(), canvas)
        return replace(mask, values=moved.astype(mask.values.dtype))

    def to_plain(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        runner_up, proof = self.runner_up, self.proof
        return {
            **_plain(self.change),
            "kind": self.kind,
            "status": str(self.status),
            "iou_before": self.iou_before,
            "iou_after": self.iou_after,
            "margin": self.margin,
            "runner_up": None if runner_up is None else {**_plain(runner_up.change), "iou": runner_up.iou},
            "proof": None if proof is None else vars(proof),
            "landmark": self.landmark,
            "source_canvas": vars(self.source_canvas),
            "target_canvas": vars(self.target_canvas),
            "px_size_um": list(self.px_size_um),
            "notices": list(self.notices),
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Pose:
        """The pose that `to_plain` wrote."""
        runner_up, proof = values["runner_up"], values["proof"]
        return cls(
            change=_similarity(values),
            kind=values["kind"],
            status=PoseStatus(values["status"]),
            iou_before=values["iou_before"],
            iou_after=values["iou_after"],
            runner_up=None if runner_up is None else OtherPose(_similarity(runner_up), runner_up["iou"]),
            margin=values["margin"],
            proof=None if proof is None else Proof(**proof),
            landmark=values["landmark"],
            source_canvas=_canvas(values["source_canvas"]),
            target_canvas=_canvas(values["target_canvas"]),
            px_size_um=(values["px_size_um"][0], values["px_size_um"][1]),
            notices=tuple(values["notices"]),
        )

    def summary(self) -> str:
        """A few lines of text with units."""
        lines = self.summary_lines()
        if self.status != PoseStatus.aligned:
            lines.append(f"advice     {self.status.advice}")
        return "\n".join([*lines, *(f"notice     {notice}" for notice in self.notices)])

    def summary_lines(self) -> list[str]:
        """The lines of `summary` without advice and notices."""
        unit = self.units.length
        lines = [
            f"pose       {self.status}: {_text(self.change, unit)}",
            f"IoU        {self.iou_before:.4f} before, {self.iou_after:.4f} after",
        ]
        if self.runner_up is not None:
            lines.append(f"runner-up  {_text(self.runner_up.change, unit)}; IoU {self.runner_up.iou:.4f}")
        if self.proof is not None:
            ended = "proven" if self.proof.proven else f"not proven (a share of {self.proof.bound:.4f} is not excluded)"
            lines.append(f"proof      {self.proof.claim}: {ended}, overlap {self.proof.overlap:.4f}")
        return lines

    def _canvas(self, canvas_hw: tuple[int, int] | None, origin_yx: tuple[int, int]) -> Canvas:
        if canvas_hw is None:
            canvas_hw = self.source_canvas.shape_hw
        for name, pair, least in (("canvas_hw", canvas_hw, 1), ("origin_yx", origin_yx, 0)):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise AlignError(f"{name} to be two integers", checks.shown(pair), "e.g. (256, 576)", name)
            for value in pair:
                checks.integer(value, name, least, error=AlignError)
        shape, origin = (int(canvas_hw[0]), int(canvas_hw[1])), (int(origin_yx[0]), int(origin_yx[1]))
        return Canvas(shape, self.source_canvas.px, origin)

    def _px_of(self, mask: Mask) -> float:
        if not isinstance(mask, Mask):
            raise AlignError("a Mask", type(mask).__name__, "make one with Mask.from_array")
        if (mask.px_size_um is None) != (self.px_size_um[1] is None):
            raise AlignError(
                "a mask with a known pixel size" if mask.px_size_um is None else "a mask without a pixel size",
                "none" if mask.px_size_um is None else f"{mask.px_size_um:g} um",
                f"the pose is in {self.units.length}: give the mask the pixel size in the same unit",
                "px_size_um",
            )
        return Units(mask.px_size_um).px_size


def moved_onto(mask: Mask, change: Similarity, canvas: Canvas, px_size_um: float | None) -> Mask:
    """Move a mask onto a canvas, whose pixels have this size; see `Pose.apply`."""
    px = Units(mask.px_size_um).px_size
    factor = (change.scale * px / canvas.px) ** 2 if mask.is_area else 1.0
    moved = resample(mask.values, px, change, canvas, factor)
    dy, dx = change.shift_yx_um
    words = (
        f"moved by {dy:.6g}, {dx:.6g} {Units(px_size_um).length}, turned by "
        f"{change.angle_deg:.6g} degrees{', mirrored' if change.flipped else ''}, scaled by {change.scale:.6g}"
    )
    history = (*mask.history, words)
    if mask.is_binary and factor == 1.0 and copies_pixels(px, change, canvas):
        return Mask(moved.astype(bool), px_size_um=px_size_um, source=mask.source, history=history)
    # Sums of products of a checked mask: a check and a copy would take half as long as the resampling.
    return Mask._of_own_density(moved, px_size_um, mask.source, history, coverage=mask.is_area)


def _text(change: Similarity, unit: str) -> str:
    dy, dx = change.shift_yx_um
    parts = [f"shift ({dy:.4g}, {dx:.4g}) {unit}", f"turn {change.angle_deg:.4g} degrees"]
    parts += ["mirrored"] if change.flipped else []
    parts += [f"scale {change.scale:.4g}"] if change.scale != 1 else []
    return ", ".join(parts)


def _plain(change: Similarity) -> dict[str, Any]:
    return vars(change) | {"shift_yx_um": list(change.shift_yx_um), "pivot_yx_um": list(change.pivot_yx_um)}


def _similarity(values: dict[str, Any]) -> Similarity:
    return Similarity(
        values["angle_deg"],
        (values["shift_yx_um"][0], values["shift_yx_um"][1]),
        values["flipped"],
        values["scale"],
        (values["pivot_yx_um"][0], values["pivot_yx_um"][1]),
    )


def _canvas(values: dict[str, Any]) -> Canvas:
    shape, origin = values["shape_hw"], values["origin_yx"]
    return Canvas((shape[0], shape[1]), values["px"], (origin[0], origin[1]))


def iou_of(source: Float, target: Any, px_target: float, change: Similarity, canvas: Canvas) -> float:
    """IoU of the coverage of a source, (H, W) on `canvas`, and of a moved target, (H', W')."""
    box = needed_box(target, px_target, change, canvas)
    own = Canvas((box[1] - box[0] + 1, box[3] - box[2] + 1), canvas.px, (-box[0], -box[2]))
    moved = resample(target, px_target, change, own, (change.scale * px_target / canvas.px) ** 2)
    top, left = max(0, box[0]), max(0, box[2])
    bottom, right = min(canvas.shape_hw[0], box[1] + 1), min(canvas.shape_hw[1], box[3] + 1)
    both = 0.0
    if top < bottom and left < right:
        part = moved[top - box[0] : bottom - box[0], left - box[2] : right - box[2]]
        both = float(((source[top:bottom, left:right] > 0) * part.clip(max=1.0)).sum())
    return both / (float((source > 0).sum()) + float(moved.sum()) - both)
