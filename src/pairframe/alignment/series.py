"""Poses along a series: each follows one reference, and among near ties the neighbours decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pairframe.alignment.ambiguity import PoseStatus
from pairframe.alignment.pose import OtherPose, Pose, iou_of
from pairframe.alignment.resample import Canvas
from pairframe.masks import Mask
from pairframe.units import Units

JUMP_DEG = 45.0  # a turn by more between two frames, or a change of handedness, is a jump
# Of a score of IoUs: among poses that overlap alike, the one that turns least is taken.
_TURN_WEIGHT = 0.02


@dataclass(frozen=True)
class SeriesPose:
    """The pose of one frame of a series.

    Attributes
    ----------
    pose : Pose
        Moves the frame onto the reference.
    by_neighbours : bool
        Whether the runner-up was taken, because it fits the neighbours better and the reference almost as well.
    turn_deg : float or None
        Turn of the pose from that of the frame before whose pose is determined, 0 to 180; 180 if only one is mirrored. None
        for the first frame, and for one whose pose is undetermined.
    jumps : bool
        Whether that turn is a jump which the overlap with the frame before does not confirm: the runner-up would fit
        that frame as well.
    """

    pose: Pose
    by_neighbours: bool = False
    turn_deg: float | None = None
    jumps: bool = False


def settle_series(poses: Sequence[Pose], read: Callable[[int], Mask]) -> list[SeriesPose]:
    """Choose between the best pose and its runner-up, frame by frame, so that neighbours agree.

    Every pose comes from the reference, so errors do not add up as in a chain. Only a pose that is ambiguous, or that misses
    its landmark, may give way to its runner-up. The choice maximises the sum of the IoUs with the reference and of those
    between neighbours as moved; a small term prefers small turns.

    Parameters
    ----------
    poses : sequence of Pose
        Of the frames in order, all against one reference.
    read : callable
        Index of a frame to its mask; called only where neighbours have to be compared.
    """
    found = {i: SeriesPose(pose) for i, pose in enumerate(poses)}
    # A mask that fits at any angle tells its neighbours nothing.
    frames = [i for i, pose in enumerate(poses) if pose.status != PoseStatus.undetermined]
    options = [_options(poses[i]) for i in frames]
    overlaps = _Overlaps(lambda k: read(frames[k]))
    chosen = _best_path(options, overlaps)
    for k, i in enumerate(frames):
        pose = options[k][chosen[k]]
        if k == 0:
            found[i] = SeriesPose(pose, chosen[k] > 0)
            continue
        before = found[frames[k - 1]].pose
        turn = pose.change.turn_between(before.change)
        jumps = turn > JUMP_DEG and not _is_confirmed(overlaps, k, before, pose)
        found[i] = SeriesPose(pose, chosen[k] > 0, turn, jumps)
    return list(found.values())


def swapped(pose: Pose) -> Pose:
    """The runner-up as the pose, and the pose as its runner-up."""
    other = pose.runner_up
    assert other is not None
    return replace(pose, change=other.change, iou_after=other.iou, runner_up=OtherPose(pose.change, pose.iou_after))


def _options(pose: Pose) -> list[Pose]:
    may_change = pose.status == PoseStatus.ambiguous or (
        pose.landmark == "missing" and pose.status == PoseStatus.aligned
    )
    return [pose, swapped(pose)] if may_change and pose.kind != "shift" and pose.runner_up is not None else [pose]


def _is_confirmed(overlaps: _Overlaps, i: int, before: Pose, pose: Pose) -> bool:
    """Whether the frame before fits clearly better than it would fit the runner-up."""
    if pose.runner_up is None:
        return True
    other = swapped(pose)
    return overlaps.iou(i, before, pose) > overlaps.iou(i, before, other) + pose.margin


def _best_path(options: list[list[Pose]], overlaps: _Overlaps) -> list[int]:
    """Index of the option of every frame, by dynamic programming."""
    if not options:
        return []
    scores = np.array([pose.iou_after for pose in options[0]])
    back: list[np.ndarray] = []
    for i in range(1, len(options)):
        steps = np.zeros((len(options[i - 1]), len(options[i])))
        if steps.size > 1:  # with one option on both sides there is nothing to choose
            for a, before in enumerate(options[i - 1]):
                for b, pose in enumerate(options[i]):
                    turn = pose.change.turn_between(before.change)
                    steps[a, b] = overlaps.iou(i, before, pose) - _TURN_WEIGHT * turn / 180
        total = scores[:, None] + steps
        back.append(total.argmax(axis=0))
        scores = total.max(axis=0) + np.array([pose.iou_after for pose in options[i]])
    path = [int(scores.argmax())]
    for best in reversed(back):
        path.append(int(best[path[-1]]))
    return path[::-1]


class _Overlaps:
    """IoUs of neighbours as moved. It holds the masks of two frames."""

    def __init__(self, read: Callable[[int], Mask]) -> None:
        self._read = read
        self._masks: dict[int, Mask] = {}

    def iou(self, i: int, before: Pose, pose: Pose) -> float:
        """Of frame ``i`` in `pose` and of the frame before it, each without its scale."""
        masks = self._masks
        self._masks = {k: masks[k] if k in masks else self._read(k) for k in (i - 1, i)}
        still, moving = self._masks[i - 1], self._masks[i]
        change = pose.change.without_scale().then(before.change.without_scale().inverse())
        canvas = Canvas(still.shape_hw, Units(still.px_size_um).px_size)
        inside = np.asarray(still.values > 0, dtype=np.float64)
        return iou_of(inside, moving.values > 0, Units(moving.px_size_um).px_size, change, canvas)
