"""FRAME: two canonical arrays come in, one shared `GridTransform` goes out.

It owns every coordinate and unit between the canonical image and the work grid.
It knows nothing of files, masks' meaning, costs or solvers.
"""

from pairframe.frame.box import BoxYX, tight_box
from pairframe.frame.bucket import pick_bucket, propose_bucket_shapes
from pairframe.frame.transform import GridTransform

__all__ = ["BoxYX", "GridTransform", "pick_bucket", "propose_bucket_shapes", "tight_box"]
