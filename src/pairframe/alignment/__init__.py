"""ALIGNMENT: two masks come in, the pose change that moves one onto the other goes out, with how sure it is.

It moves masks and keeps their mass; it never changes their shape. It must not know about transport, grids or results.
"""

from pairframe.alignment.align import align
from pairframe.alignment.ambiguity import PoseStatus
from pairframe.alignment.canonical import canonical_pose
from pairframe.alignment.drift import StageDrift, stage_drift
from pairframe.alignment.pose import OtherPose, Pose
from pairframe.alignment.proof import Proof
from pairframe.alignment.resample import Canvas, resample
from pairframe.alignment.similarity import Similarity

__all__ = [
    "Canvas",
    "OtherPose",
    "Pose",
    "PoseStatus",
    "Proof",
    "Similarity",
    "StageDrift",
    "align",
    "canonical_pose",
    "resample",
    "stage_drift",
]
