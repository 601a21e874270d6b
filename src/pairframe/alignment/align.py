"""`align`: find the pose change that moves a target onto a source."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairframe import checks
from pairframe.alignment.ambiguity import PoseStatus, margin, status_of_shift, status_of_turn
from pairframe.alignment.cloud import Cloud
from pairframe.alignment.compiling import announced
from pairframe.alignment.landmarks import landmark_clouds
from pairframe.alignment.matching import Candidate, Matching
from pairframe.alignment.plateau import by_thickness, settle
from pairframe.alignment.pose import OtherPose, Pose, iou_of
from pairframe.alignment.principal import with_axes_met
from pairframe.alignment.proof import Proof
from pairframe.alignment.proof import prove as prove_claim
from pairframe.alignment.proof_passes import overlap_count
from pairframe.alignment.refine import Found, polish, refine_runner_up, refine_shifts, refine_turns
from pairframe.alignment.resample import Canvas
from pairframe.alignment.search import search_shifts, search_turns
from pairframe.alignment.similarity import Similarity
from pairframe.errors import AlignError
from pairframe.masks import Mask
from pairframe.units import Units

KINDS = ("shift", "rigid", "similarity")
WEIGHTS = ("area", "thickness")
SEVERAL = ("shift", "together")
FEWEST_PX = 9  # of a mask that can be turned
PIECE_SHARE = 0.1  # of the mass of a mask, from which on a piece counts as an object
_OTHER_SHIFTS = 3
_SNAP_PX = (
    0.5  # a pose that maps pixels onto pixels is taken if no pixel moves farther and one mask then holds the other
)
_SNAP_SHARE = 0.999


@announced
def align(
    source: Mask | ArrayLike,
    target: Mask | ArrayLike,
    *,
    kind: str = "rigid",
    allow_flip: bool = False,
    weight: str = "area",
    prove: str | float | None = None,
    landmarks: tuple[Any, Any] | None = None,
    several: str = "shift",
) -> Pose:
    """Find the pose change that moves the target onto the source, by their overlap.

    Parameters
    ----------
    source, target : Mask or (H, W) array
        Their canvases and pixel sizes may differ. Both pixel sizes are known, or none. Positive pixels count.
    kind : {"rigid", "shift", "similarity"}
        ``rigid``: shift and turn. ``similarity``: with a scale.
    allow_flip : bool
        Whether the target may be mirrored.
    weight : {"area", "thickness"}
        ``thickness`` refines the pose with pixels weighted by their squared distance to the background, which makes it
        follow the trunk of a bent body rather than its thin parts.
    prove : None, "flip" or float
        Prove that every pose of the other handedness overlaps less, or every pose turned by more than this many degrees.
        With the weight ``thickness`` this is about the pose before that refinement.
    landmarks : (Mask or None, Mask or None), optional
        A second mask per side, such as the yolk. It counts as much as the whole mask, anchors the pose and tells
        head from tail. If one is None or empty, neither is used, and the pose says so.
    several : {"shift", "together"}
        A scene of several objects is only shifted, or moved as one body by the given kind.

    Returns
    -------
    Pose
        ``pose.apply(target)`` is the moved target. See `Pose.status` before you trust it.

    Examples
    --------
    >>> import pairframe as pf
    >>> from pairframe.testing import embryo
    >>> source = pf.Mask.from_array(embryo())
    >>> target = pf.Mask.from_array(embryo()[:, ::-1][::-1])
    >>> pose = pf.align(source, target)
    >>> pose.angle_deg, str(pose.status)
    (180.0, 'aligned')
    """
    checks.choice(kind, "kind", KINDS, error=AlignError)
    checks.choice(weight, "weight", WEIGHTS, error=AlignError)
    checks.choice(several, "several", SEVERAL, error=AlignError)
    allow_flip = checks.boolean(allow_flip, "allow_flip", error=AlignError)
    claim = _checked_claim(prove)
    masks = (_checked_mask(source, "source", kind), _checked_mask(target, "target", kind))
    _check_pixel_sizes(*masks)
    clouds = (_cloud(masks[0]), _cloud(masks[1]))
    marks, missing = landmark_clouds(landmarks, masks, clouds)
    matching = Matching(*clouds, marks)
    notices = [_missing_notice(side) for side in missing]
    if kind != "shift" and several == "shift" and is_scene(*clouds):
        notices.append(
            'the masks have several objects, so the target was only shifted; use several="together" to turn it'
        )
        kind = "shift"
    found, status, kind = _found(matching, kind, allow_flip)
    if status == PoseStatus.ambiguous or missing:  # the runner-up may be the true pose
        found = refine_runner_up(matching, found, kind)
    canvases = [Canvas(mask.shape_hw, cloud.px) for mask, cloud in zip(masks, clouds, strict=True)]

    def iou(one: Similarity) -> float:
        return iou_of(masks[0].values, masks[1].values, clouds[1].px, one, canvases[0])

    if weight == "area":
        found = settle(matching, found, kind, lambda one: iou(_similarity(one, matching)))
        if kind != "shift" and marks is None:
            best = with_axes_met(found.best, matching, (masks[0].values, masks[1].values))
            found = replace(found, best=best)
    proof = _proof(matching, found.best, claim, kind)
    if weight == "thickness":
        found = polish(found, by_thickness(matching), kind)
    best = _snapped(matching, found.best)
    change = _similarity(best, matching)
    runner_up = None
    if found.runner_up is not None:
        other = _similarity(found.runner_up, matching)
        runner_up = OtherPose(other, iou(other))
    return Pose(
        change=change,
        kind=kind,
        status=status,
        iou_before=iou(Similarity()),
        iou_after=iou(change),
        runner_up=runner_up,
        margin=margin(matching, found.best_compared),
        proof=proof,
        landmark="missing" if missing else "none" if marks is None else "used",
        source_canvas=canvases[0],
        target_canvas=canvases[1],
        px_size_um=(masks[0].image_px_size_um, masks[1].image_px_size_um),
        notices=tuple(notices),
    )


def is_scene(source: Cloud, target: Cloud) -> bool:
    """Whether both masks have several objects, or one has more than two; one missing piece may split a single object."""
    counts = sorted(cloud.n_pieces(PIECE_SHARE) for cloud in (source, target))
    # Many small pieces without one that dominates are several objects too.
    counts = [2 if count == 0 else count for count in counts]
    return counts[0] > 1 or counts[1] > 2


def _found(matching: Matching, kind: str, allow_flip: bool) -> tuple[Found, PoseStatus, str]:
    """The best pose, how sure it is, and the kind that was fitted."""
    if kind != "shift":
        profile = search_turns(matching, allow_flip, _scales(matching, kind))
        found = refine_turns(matching, profile, kind == "similarity")
        status = status_of_turn(matching, profile, found)
        if status != PoseStatus.undetermined:
            return found, status, kind
        runner_up = found.best
    candidates = search_shifts(matching, 0.0, False, 1.0, _OTHER_SHIFTS)
    if not candidates:  # cannot happen for masks with pixels, as every pair overlaps at some shift
        candidates = [Candidate((0.0, 0.0), 0.0, False, 1.0, 0.0)]
    pitch = (matching.radius_source + matching.radius_target) / 100
    found = refine_shifts(matching, candidates, pitch)
    if kind != "shift":
        return replace(found, runner_up=runner_up), PoseStatus.undetermined, "shift"
    return found, status_of_shift(matching, found, max(pitch, matching.finest)), "shift"


def _scales(matching: Matching, kind: str) -> tuple[float, ...]:
    """The scales to search: that of equal areas, 1, and the one between."""
    if kind != "similarity":
        return (1.0,)
    ratio = math.sqrt(matching.source.area / matching.target.area)
    return (1.0,) if abs(math.log(ratio)) < 0.05 else (1.0, math.sqrt(ratio), ratio)


def _similarity(found: Candidate, matching: Matching) -> Similarity:
    source, target = matching.source.centre_yx, matching.target.centre_yx
    shift = (source[0] + found.shift_yx[0] - target[0], source[1] + found.shift_yx[1] - target[1])
    return Similarity(math.degrees(found.angle), shift, found.flipped, found.scale, target)


def _snapped(matching: Matching, best: Candidate) -> Candidate:
    """The nearby pose that maps pixels onto pixels, if one mask then lies in the other: the pixels were only moved."""
    source, target = matching.source, matching.target
    if source.px != target.px or best.scale != 1.0:
        return best
    quarter = round(best.angle / (math.pi / 2)) * math.pi / 2
    if abs(best.angle - quarter) * target.radius > _SNAP_PX * source.px:
        return best
    exact = _similarity(replace(best, angle=quarter), matching)
    half = np.array([0.5, 0.5]) * source.px
    first = exact.of_points(half) - half
    moved = np.rint(first / source.px) * source.px - first
    if np.abs(moved).max() > _SNAP_PX * source.px:
        return best
    shift = (best.shift_yx[0] + float(moved[0]), best.shift_yx[1] + float(moved[1]))
    snapped = replace(best, angle=quarter, shift_yx=shift)
    yx = target.points(1).yx / target.px
    ty, tx = ((shift[axis] + source.centre_yx[axis]) / source.px - 0.5 - source.corner_px[axis] for axis in (0, 1))
    sign = -1.0 if snapped.flipped else 1.0
    both = overlap_count(source.inside, yx, np.ones(len(yx)), sign, quarter, ty, tx)
    return snapped if both >= _SNAP_SHARE * min(source.n_px, target.n_px) else best


def _proof(matching: Matching, best: Candidate, claim: str | float | None, kind: str) -> Proof | None:
    if claim is None or kind == "shift":
        return None
    return prove_claim(matching, best, claim)


def _cloud(mask: Mask) -> Cloud:
    return Cloud(mask.values > 0, Units(mask.image_px_size_um).px_size)


def _missing_notice(side: str) -> str:
    return f"the landmark of the {side} is missing, so no landmark was used"


def _checked_claim(prove: Any) -> str | float | None:
    if prove is None or (isinstance(prove, str) and prove == "flip"):
        return prove
    if not checks.is_positive_number(prove) or prove >= 180:
        raise AlignError(
            'prove to be None, "flip" or degrees between 0 and 180', checks.shown(prove), "e.g. prove=10", "prove"
        )
    return float(prove)


def _checked_mask(given: Any, name: str, kind: str) -> Mask:
    mask = given if isinstance(given, Mask) else Mask.from_array(given)
    if mask.is_empty:
        raise AlignError(
            f"a {name} with pixels", "an empty mask", "leave out the pair, or check the segmentation", name
        )
    if kind != "shift" and mask.area_px < FEWEST_PX:
        pixels = f"{mask.area_px} pixel{'s' if mask.area_px > 1 else ''}"
        raise AlignError(
            f"a {name} of at least {FEWEST_PX} pixels, which can be turned",
            pixels,
            'only shift it: kind="shift"',
            name,
        )
    return mask


def _check_pixel_sizes(source: Mask, target: Mask) -> None:
    if (source.px_size_um is None) == (target.px_size_um is None):
        return
    known, unknown = ("source", "target") if target.px_size_um is None else ("target", "source")
    raise AlignError(
        "the pixel sizes of both masks, or of none",
        f"that of the {known} alone",
        f"give the {unknown} its px_size_um, or remove that of the {known}",
        "px_size_um",
    )
